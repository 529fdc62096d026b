// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/error.hpp>
#include <tessera/sim/random.hpp>

#include <fmt/format.h>
#include <ggml.h>
#include <gguf.h>
#include <llama.h>

#include <algorithm>
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

/// What keeps a sequence's past in the layers of a model of random weights.
enum class layer_kind {
  attention,  ///< All layers attend to everything: the llama architecture.
  windows,    ///< Every second layer attends to everything, the others to a window: gemma3.
  recurrent,  ///< Every second layer attends to everything, the others have a state: jamba.
};

/// The shape of a model of random weights. The default decodes a token in about 0.1 ms.
struct random_shape {
  layer_kind kind = layer_kind::attention;
  std::uint32_t layers = 2;
  std::uint32_t width = 64;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t feed_forward = 128;
  std::uint32_t context = 65536;
  std::uint32_t window = 32;  ///< Tokens that a layer with a window sees.
  std::uint32_t state = 8;    ///< Numbers that a recurrent layer keeps for each of its channels, twice the width.

  /// Whether a layer attends to everything.
  [[nodiscard]] bool is_full(std::uint32_t layer) const noexcept {
    return kind == layer_kind::attention || layer % 2 == 1;
  }
};

namespace detail {

/// A tensor of a model of random weights.
struct random_tensor {
  enum class values { normal, ones, decay };
  std::string name;
  std::int64_t columns;
  std::int64_t rows;  ///< 0: it is a vector.
  values as;
};

/// All tensors of a model, in the order in which their weights are drawn.
[[nodiscard]] inline std::vector<random_tensor> random_tensors(const random_shape& shape, std::int64_t vocabulary) {
  using values = random_tensor::values;
  const std::int64_t width = shape.width;
  const std::int64_t kv_width = width / shape.heads * shape.kv_heads;
  const std::int64_t hidden = shape.feed_forward;
  std::vector<random_tensor> all;
  std::string block;
  const auto matrix = [&](const char* name, std::int64_t columns, std::int64_t rows) {
    all.push_back({block + name + ".weight", columns, rows, values::normal});
  };
  const auto norm = [&](const char* name, std::int64_t n) {
    all.push_back({block + name + ".weight", n, 0, values::ones});
  };
  matrix("token_embd", width, vocabulary);
  norm("output_norm", width);
  matrix("output", width, vocabulary);
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    block = fmt::format("blk.{}.", layer);
    norm("attn_norm", width);
    if (shape.kind == layer_kind::recurrent && !shape.is_full(layer)) {
      const std::int64_t inner = 2 * width;
      const std::int64_t state = shape.state;
      const std::int64_t rank = width / 16;
      matrix("ssm_in", width, 2 * inner);
      matrix("ssm_conv1d", 4, inner);
      all.push_back({block + "ssm_conv1d.bias", inner, 0, values::ones});
      matrix("ssm_x", inner, rank + 2 * state);
      norm("ssm_dt_norm", rank);
      matrix("ssm_dt", rank, inner);
      all.push_back({block + "ssm_dt.bias", inner, 0, values::ones});
      norm("ssm_b_norm", state);
      norm("ssm_c_norm", state);
      all.push_back({block + "ssm_a", state, inner, values::decay});
      all.push_back({block + "ssm_d", inner, 0, values::ones});
      matrix("ssm_out", inner, width);
    } else {
      matrix("attn_q", width, width);
      matrix("attn_k", width, kv_width);
      matrix("attn_v", width, kv_width);
      matrix("attn_output", width, width);
    }
    if (shape.kind == layer_kind::windows) {
      norm("attn_q_norm", width / shape.heads);
      norm("attn_k_norm", width / shape.heads);
      norm("post_attention_norm", width);
      norm("post_ffw_norm", width);
    }
    norm("ffn_norm", width);
    matrix("ffn_gate", width, hidden);
    matrix("ffn_up", width, hidden);
    matrix("ffn_down", hidden, width);
  }
  return all;
}

}  // namespace detail

/// Writes a model with random weights: for tests and load, where only the work counts. Its vocabulary is that of a text
/// model all the same: the 256 bytes, `<think>` and `</think>`.
/// @throws tessera::sim::output_error
inline void write_random_model(const std::string& path, std::uint64_t seed, const random_shape& shape = {}) {
  const std::unique_ptr<gguf_context, decltype(&gguf_free)> file{gguf_init_empty(), gguf_free};
  gguf_context* const g = file.get();
  const std::string architecture = shape.kind == layer_kind::attention ? "llama"
                                   : shape.kind == layer_kind::windows ? "gemma3"
                                                                       : "jamba";
  const auto key = [&](const char* name) { return architecture + "." + name; };
  gguf_set_val_str(g, "general.architecture", architecture.c_str());
  gguf_set_val_str(g, "general.name", "random weights");
  gguf_set_val_u32(g, key("context_length").c_str(), shape.context);
  gguf_set_val_u32(g, key("embedding_length").c_str(), shape.width);
  gguf_set_val_u32(g, key("block_count").c_str(), shape.layers);
  gguf_set_val_u32(g, key("feed_forward_length").c_str(), shape.feed_forward);
  gguf_set_val_u32(g, key("attention.head_count").c_str(), shape.heads);
  gguf_set_val_f32(g, key("attention.layer_norm_rms_epsilon").c_str(), 1e-5F);
  if (shape.kind == layer_kind::recurrent) {
    std::vector<std::uint32_t> kv_heads;  // none: the layer has a state
    for (std::uint32_t l = 0; l < shape.layers; ++l) kv_heads.push_back(shape.is_full(l) ? shape.kv_heads : 0);
    gguf_set_arr_data(g, key("attention.head_count_kv").c_str(), GGUF_TYPE_UINT32, kv_heads.data(), kv_heads.size());
    gguf_set_val_u32(g, key("ssm.conv_kernel").c_str(), 4);
    gguf_set_val_u32(g, key("ssm.inner_size").c_str(), 2 * shape.width);
    gguf_set_val_u32(g, key("ssm.state_size").c_str(), shape.state);
    gguf_set_val_u32(g, key("ssm.time_step_rank").c_str(), shape.width / 16);
  } else {
    gguf_set_val_u32(g, key("attention.head_count_kv").c_str(), shape.kv_heads);
    gguf_set_val_u32(g, key("rope.dimension_count").c_str(), shape.width / shape.heads);
  }
  if (shape.kind == layer_kind::windows) {
    gguf_set_val_u32(g, key("attention.sliding_window").c_str(), shape.window);
    gguf_set_val_u32(g, key("attention.sliding_window_pattern").c_str(), 2);
    gguf_set_val_u32(g, key("attention.key_length").c_str(), shape.width / shape.heads);
    gguf_set_val_u32(g, key("attention.value_length").c_str(), shape.width / shape.heads);
  }

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

  const std::vector<detail::random_tensor> tensors =
      detail::random_tensors(shape, static_cast<std::int64_t>(tokens.size()));
  std::size_t numbers = 0;
  for (const detail::random_tensor& t : tensors) {
    numbers += static_cast<std::size_t>(t.columns * std::max(t.rows, std::int64_t{1}));
  }
  const std::unique_ptr<ggml_context, decltype(&ggml_free)> memory{
      ggml_init({.mem_size = numbers * sizeof(float) + tensors.size() * (ggml_tensor_overhead() + 64),
                 .mem_buffer = nullptr,
                 .no_alloc = false}),
      ggml_free};
  sim::random_engine rng{seed};
  for (const detail::random_tensor& wanted : tensors) {
    ggml_tensor* const t = wanted.rows == 0
                               ? ggml_new_tensor_1d(memory.get(), GGML_TYPE_F32, wanted.columns)
                               : ggml_new_tensor_2d(memory.get(), GGML_TYPE_F32, wanted.columns, wanted.rows);
    ggml_set_name(t, wanted.name.c_str());
    auto* const values = static_cast<float*>(t->data);
    const double scale = 1.0 / std::sqrt(static_cast<double>(wanted.columns));
    for (std::int64_t i = 0; i < ggml_nelements(t); ++i) {
      switch (wanted.as) {
        case detail::random_tensor::values::normal: values[i] = static_cast<float>(sim::normal(rng, 0, scale)); break;
        case detail::random_tensor::values::ones: values[i] = 1.0F; break;
        // How fast each number of a state forgets, as Mamba begins with.
        case detail::random_tensor::values::decay: values[i] = -static_cast<float>(1 + i % wanted.columns); break;
      }
    }
    gguf_add_tensor(g, t);
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

  /// The tokens of a text, with the model's beginning-of-text token if it wants one. `special`: names of control tokens
  /// in the text are these tokens; leave it off for what users write. (The names of a model's user-defined tokens are
  /// these tokens in any case, in llama.cpp.) Requires UTF-8.
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
