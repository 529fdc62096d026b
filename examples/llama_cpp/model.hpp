// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/error.hpp>
#include <tessera/sim/random.hpp>

#include <fmt/format.h>
#include <ggml.h>
#include <gguf.h>
#include <llama.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// Models: loading one, its text, and writing one of random weights.

namespace llama_cpp {

namespace sim = tessera::sim;

/// The shape of a model of random weights. The default decodes a token in about 0.1 ms.
struct random_shape {
  std::uint32_t layers = 2;
  std::uint32_t width = 64;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t feed_forward = 128;
  std::uint32_t context = 65536;
};

/// Writes a model of the llama architecture with random weights: for tests and load, where only the work counts. Its
/// vocabulary is that of a text model all the same: the 256 bytes, `<think>` and `</think>`.
/// @throws tessera::sim::output_error
inline void write_random_model(const std::string& path, std::uint64_t seed, const random_shape& shape = {}) {
  const std::unique_ptr<gguf_context, decltype(&gguf_free)> file{gguf_init_empty(), gguf_free};
  gguf_context* const g = file.get();
  gguf_set_val_str(g, "general.architecture", "llama");
  gguf_set_val_str(g, "general.name", "random weights");
  gguf_set_val_u32(g, "llama.context_length", shape.context);
  gguf_set_val_u32(g, "llama.embedding_length", shape.width);
  gguf_set_val_u32(g, "llama.block_count", shape.layers);
  gguf_set_val_u32(g, "llama.feed_forward_length", shape.feed_forward);
  gguf_set_val_u32(g, "llama.attention.head_count", shape.heads);
  gguf_set_val_u32(g, "llama.attention.head_count_kv", shape.kv_heads);
  gguf_set_val_f32(g, "llama.attention.layer_norm_rms_epsilon", 1e-5F);
  gguf_set_val_u32(g, "llama.rope.dimension_count", shape.width / shape.heads);

  // The tokens, their types (1 normal, 2 unknown, 3 control, 4 user-defined, 6 byte) and scores.
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> types{2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    types.push_back(6);
  }
  for (const char* text : {"<think>", "</think>"}) {
    tokens.emplace_back(text);
    types.push_back(4);
  }
  tokens.emplace_back("\u2581");  // what a space becomes
  types.push_back(1);
  std::vector<const char*> texts;
  for (const std::string& t : tokens) texts.push_back(t.c_str());
  const std::vector<float> scores(tokens.size(), 0.0F);
  gguf_set_val_u32(g, "llama.vocab_size", static_cast<std::uint32_t>(tokens.size()));
  gguf_set_val_str(g, "tokenizer.ggml.model", "llama");
  gguf_set_arr_str(g, "tokenizer.ggml.tokens", texts.data(), texts.size());
  gguf_set_arr_data(g, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores.data(), scores.size());
  gguf_set_arr_data(g, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
  gguf_set_val_u32(g, "tokenizer.ggml.unknown_token_id", 0);
  gguf_set_val_u32(g, "tokenizer.ggml.bos_token_id", 1);
  gguf_set_val_u32(g, "tokenizer.ggml.eos_token_id", 2);
  gguf_set_val_bool(g, "tokenizer.ggml.add_bos_token", true);
  gguf_set_val_bool(g, "tokenizer.ggml.add_space_prefix", false);

  const std::int64_t width = shape.width;
  const std::int64_t vocabulary = static_cast<std::int64_t>(tokens.size());
  const std::int64_t kv_width = width / shape.heads * shape.kv_heads;
  const std::int64_t hidden = shape.feed_forward;
  const auto matrices = static_cast<std::size_t>(2 * vocabulary * width + width) +
                        shape.layers * static_cast<std::size_t>(2 * width * width + 2 * width * kv_width +
                                                                3 * width * hidden + 2 * width);
  const std::size_t tensors = 3 + 9 * std::size_t{shape.layers};
  const std::unique_ptr<ggml_context, decltype(&ggml_free)> memory{
      ggml_init({.mem_size = matrices * sizeof(float) + tensors * (ggml_tensor_overhead() + 64),
                 .mem_buffer = nullptr,
                 .no_alloc = false}),
      ggml_free};
  sim::random_engine rng{seed};
  const auto add = [&](const std::string& name, std::int64_t columns, std::int64_t rows) {
    ggml_tensor* const t = rows == 0 ? ggml_new_tensor_1d(memory.get(), GGML_TYPE_F32, columns)
                                     : ggml_new_tensor_2d(memory.get(), GGML_TYPE_F32, columns, rows);
    ggml_set_name(t, name.c_str());
    auto* const values = static_cast<float*>(t->data);
    const double scale = 1.0 / std::sqrt(static_cast<double>(columns));
    for (std::int64_t i = 0; i < ggml_nelements(t); ++i) {
      values[i] = rows == 0 ? 1.0F : static_cast<float>(sim::normal(rng, 0, scale));
    }
    gguf_add_tensor(g, t);
  };
  add("token_embd.weight", width, vocabulary);
  add("output_norm.weight", width, 0);
  add("output.weight", width, vocabulary);
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    add(block + "attn_norm.weight", width, 0);
    add(block + "attn_q.weight", width, width);
    add(block + "attn_k.weight", width, kv_width);
    add(block + "attn_v.weight", width, kv_width);
    add(block + "attn_output.weight", width, width);
    add(block + "ffn_norm.weight", width, 0);
    add(block + "ffn_gate.weight", width, hidden);
    add(block + "ffn_up.weight", width, hidden);
    add(block + "ffn_down.weight", hidden, width);
  }
  if (!gguf_write_to_file(g, path.c_str(), false)) throw sim::output_error{fmt::format("cannot write {}", path)};
}

/// Whether `text` is UTF-8: no stray or missing continuation bytes, no surrogates, nothing longer than need be.
[[nodiscard]] inline bool is_utf8(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80   ? 1
                               : lead < 0xc2 ? 0
                               : lead < 0xe0 ? 2
                               : lead < 0xf0 ? 3
                               : lead < 0xf5 ? 4
                                             : 0;
    if (length == 0 || length > text.size() - i) return false;
    for (std::size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    if (length > 2) {
      const auto second = static_cast<unsigned char>(text[i + 1]);
      if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second >= 0xa0) || (lead == 0xf0 && second < 0x90) ||
          (lead == 0xf4 && second >= 0x90)) {
        return false;
      }
    }
    i += length;
  }
  return true;
}

/// A loaded model and its vocabulary.
class model {
 public:
  /// @throws tessera::sim::input_error
  explicit model(const std::string& path, int gpu_layers = 0) {
    silence();
    llama_model_params p = llama_model_default_params();
    p.n_gpu_layers = gpu_layers;
    p.use_extra_bufts = false;  // the weights as they are, not repacked: one result on all processors of a kind
    model_.reset(llama_model_load_from_file(path.c_str(), p));
    if (!model_) throw sim::input_error{path, {}, "a GGUF model that llama.cpp can load", complaint()};
    vocabulary_ = llama_model_get_vocab(model_.get());
    if (llama_vocab_type(vocabulary_) == LLAMA_VOCAB_TYPE_NONE) {
      throw sim::input_error{path, {}, "a model with a tokenizer", "tokenizer.ggml.model = no_vocab"};
    }
  }

  [[nodiscard]] llama_model* get() const noexcept { return model_.get(); }
  [[nodiscard]] std::size_t vocabulary_size() const noexcept {
    return static_cast<std::size_t>(llama_vocab_n_tokens(vocabulary_));
  }
  /// Whether a token ends the output.
  [[nodiscard]] bool ends_output(llama_token t) const noexcept { return llama_vocab_is_eog(vocabulary_, t); }

  /// The tokens of a text, with the model's beginning-of-text token if it wants one. `special`: the names of control
  /// tokens in the text are these tokens; leave it off for what users write. (llama.cpp takes the names of a model's
  /// user-defined tokens for these tokens in any case.) Requires UTF-8.
  [[nodiscard]] std::vector<llama_token> tokenize(std::string_view text, bool special = false,
                                                  bool begin = true) const {
    std::vector<llama_token> tokens(text.size() + 4);
    const int n = llama_tokenize(vocabulary_, text.data(), static_cast<std::int32_t>(text.size()), tokens.data(),
                                 static_cast<std::int32_t>(tokens.size()), begin, special);
    if (n < 0) {  // the buffer was too small, which is what -n would have taken
      tokens.resize(static_cast<std::size_t>(-n));
      llama_tokenize(vocabulary_, text.data(), static_cast<std::int32_t>(text.size()), tokens.data(),
                     static_cast<std::int32_t>(tokens.size()), begin, special);
    } else {
      tokens.resize(static_cast<std::size_t>(n));
    }
    return tokens;
  }

  /// The text of a token, which may be a part of a character.
  [[nodiscard]] std::string piece(llama_token t) const {
    std::array<char, 64> short_text{};
    const int n = llama_token_to_piece(vocabulary_, t, short_text.data(), short_text.size(), 0, true);
    if (n >= 0) return {short_text.data(), static_cast<std::size_t>(n)};
    std::string text(static_cast<std::size_t>(-n), '\0');
    llama_token_to_piece(vocabulary_, t, text.data(), static_cast<std::int32_t>(text.size()), 0, true);
    return text;
  }

  /// The one token that `text` names. None if it names none, or several.
  [[nodiscard]] std::optional<llama_token> token_of(std::string_view text) const {
    const std::vector<llama_token> tokens = tokenize(text, true, false);
    if (tokens.size() != 1) return std::nullopt;
    return tokens.front();
  }

 private:
  struct deleter {
    void operator()(llama_model* m) const noexcept { llama_model_free(m); }
  };

  /// llama.cpp's messages are kept, not shown, so that the last error can be told.
  static std::string& complaint() {
    static std::string text;
    return text;
  }
  static void silence() {
    complaint() = "one that it cannot";
    llama_log_set(
        [](ggml_log_level level, const char* text, void*) {
          if (level == GGML_LOG_LEVEL_ERROR) complaint() = sim::shown(text, 200);
        },
        nullptr);
  }

  std::unique_ptr<llama_model, deleter> model_;
  const llama_vocab* vocabulary_ = nullptr;
};

}  // namespace llama_cpp
