// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Embeds prompts with a GGUF model: rows of float32, as rank::dense_rows reads them. The embedding of a prompt is the
// mean of llama.cpp's embeddings of its tokens.
#include "model.hpp"

#include <tessera/sim/input/input.hpp>
#include <tessera/sim/report/output_file.hpp>
#include <tessera/sim/report/report.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace llama_cpp;
namespace sim = tessera::sim;

struct arguments {
  std::string model;
  std::string input;
  std::string output;
  std::int64_t context = 2048;
  int threads = 1;
  int gpu_layers = 0;
  bool truncate = false;
  bool raw = false;
};

/// The prompt in a line of JSON: {"prompt": "...", ...}, the lines that `rank` reads.
std::string prompt_of(std::string_view line, const std::string& file, std::uint64_t number) {
  const nlohmann::json j = nlohmann::json::parse(line, nullptr, false);
  if (!j.is_object() || !j.contains("prompt") || !j["prompt"].is_string()) {
    throw sim::input_error{file, {number, 1}, R"(a line of JSON like {"prompt": "..."})", sim::shown(line)};
  }
  return j["prompt"].get<std::string>();
}

int run(const arguments& a) {
  if (a.context < 1 || a.context > (1 << 20)) {
    throw sim::usage_error{fmt::format("--context must be from 1 to {}, not {}", 1 << 20, a.context)};
  }
  if (a.threads < 1 || a.threads > 1024) {
    throw sim::usage_error{fmt::format("--threads must be from 1 to 1024, not {}", a.threads)};
  }
  const std::string text = sim::read_file(a.input);
  sim::require_plain_text(text, a.input, "a prompt a line, as JSON");
  const model m{a.model, a.gpu_layers};

  llama_context_params p = llama_context_default_params();
  p.n_ctx = p.n_batch = p.n_ubatch = static_cast<std::uint32_t>(a.context);
  p.n_seq_max = 1;
  p.n_threads = p.n_threads_batch = a.threads;
  p.embeddings = true;
  p.pooling_type = LLAMA_POOLING_TYPE_MEAN;
  const std::unique_ptr<llama_context, decltype(&llama_free)> context{llama_init_from_model(m.get(), p), llama_free};
  if (!context) throw sim::usage_error{"llama.cpp could not make a context; take a smaller --context"};
  const auto dimension = static_cast<std::size_t>(llama_model_n_embd_out(m.get()));

  struct batch_deleter {
    llama_batch b;
    ~batch_deleter() { llama_batch_free(b); }
  } batch{llama_batch_init(static_cast<std::int32_t>(a.context), 0, 1)};
  sim::output_file out{a.output};
  std::uint64_t line = 0;
  std::string row(4 * dimension, '\0');
  for (std::size_t begin = 0; begin < text.size();) {
    ++line;
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string prompt = prompt_of(std::string_view{text}.substr(begin, end - begin), a.input, line);
    begin = end + 1;
    std::vector<llama_token> tokens = m.tokenize(prompt);
    if (tokens.empty()) throw sim::input_error{a.input, {line, 1}, "a prompt", "an empty one"};
    if (tokens.size() > static_cast<std::size_t>(a.context)) {
      if (!a.truncate) {
        throw sim::input_error{
            a.input,
            {line, 1},
            fmt::format("a prompt of at most {} tokens (raise --context, or take --truncate)", a.context),
            fmt::format("one of {}", tokens.size())};
      }
      tokens.resize(static_cast<std::size_t>(a.context));
    }

    llama_memory_clear(llama_get_memory(context.get()), false);
    llama_batch& b = batch.b;
    b.n_tokens = static_cast<std::int32_t>(tokens.size());
    for (std::int32_t i = 0; i < b.n_tokens; ++i) {
      b.token[i] = tokens[static_cast<std::size_t>(i)];
      b.pos[i] = i;
      b.n_seq_id[i] = 1;
      b.seq_id[i][0] = 0;
      b.logits[i] = 1;
    }
    if (llama_decode(context.get(), b) != 0) throw sim::output_error{fmt::format("llama.cpp failed at line {}", line)};
    const float* const embedding = llama_get_embeddings_seq(context.get(), 0);
    if (embedding == nullptr) throw sim::output_error{"llama.cpp has no embeddings of this model"};

    double length = 0;
    for (std::size_t i = 0; i < dimension; ++i) length += double{embedding[i]} * double{embedding[i]};
    const double scale = a.raw || length == 0 ? 1 : 1 / std::sqrt(length);
    for (std::size_t i = 0; i < dimension; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(scale * double{embedding[i]}));
      for (unsigned k = 0; k < 4; ++k) row[4 * i + k] = static_cast<char>(bits >> (8 * k));
    }
    out.write(row);
  }
  out.commit();
  fmt::print("{} rows of {} numbers\n", line, dimension);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  arguments a;
  CLI::App app{"Embeds prompts with a GGUF model, as rows of little-endian float32 without a header."};
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--model", a.model, "a GGUF file")->required();
  app.add_option("--input", a.input, "JSON lines with a member \"prompt\"")->required();
  app.add_option("--output", a.output, "the file of rows")->required();
  app.add_option("--context", a.context, "most tokens of a prompt")->capture_default_str();
  app.add_flag("--truncate", a.truncate, "cut longer prompts off instead of refusing them");
  app.add_flag("--raw", a.raw, "as the model gives them, not scaled to unit length");
  app.add_option("--threads", a.threads, "threads")->capture_default_str();
  app.add_option("--gpu-layers", a.gpu_layers, "layers on a GPU, with a llama.cpp that has one")->capture_default_str();
  const CLI::Validator given{[](const std::string& value) { return std::string{value.empty() ? "needs a value" : ""}; },
                             ""};
  for (CLI::Option* option : app.get_options()) {
    if (option->get_type_size() != 0) option->check(given);
  }
  try {
    app.parse(argc, argv);
    return run(a);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& wrong) {
    fmt::print(stderr, "llama_embed: {} (see --help)\n", wrong.what());
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "llama_embed: {}\n", wrong.what());
  }
  return sim::exit_bad_input;
}
