// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/rank/dense.hpp>
#include <tessera/rank/features.hpp>
#include <tessera/sim/error.hpp>
#include <tessera/sim/input/input.hpp>
#include <tessera/sim/input/json_text.hpp>
#include <tessera/sim/input/trace.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// The input of `rank`: prompts as JSON lines, embeddings as float32 rows, model files.

namespace rank_tool {

namespace sim = tessera::sim;
namespace rank = tessera::rank;

/// One line of the input. All its members are kept, so that `score` can pass them on.
struct example {
  nlohmann::ordered_json object;
  std::string prompt;
  float length = 0;  ///< output_tokens, if they were asked for.
  std::uint64_t line = 0;
};

/// The member `name` of a line, or an error that says what was expected.
inline const nlohmann::ordered_json& member(const nlohmann::ordered_json& object, const char* name,
                                            const char* expected, const std::string& path, sim::file_position at) {
  const auto found = object.find(name);
  if (found == object.end()) throw sim::input_error{path, at, expected, "a line without it"};
  return *found;
}

/// Reads JSON lines, {"prompt": text, "output_tokens": number} each; empty lines are skipped.
/// @throws sim::input_error that names file, line and column.
inline std::vector<example> read_examples(const std::string& path, bool with_lengths) {
  const std::string text = sim::read_file(path);
  std::vector<example> examples;
  sim::file_position at{0, 1};
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view{text}.substr(begin, end - begin);
    begin = end + 1;
    ++at.line;
    at.column = 1;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    example e;
    e.line = at.line;
    sim::detail::json_checker checker;
    if (!nlohmann::json::sax_parse(line, &checker)) {
      at.column = checker.offset + 1;
      throw sim::input_error{path, at, checker.expected("a JSON object with \"prompt\" and \"output_tokens\""),
                             sim::shown(line)};
    }
    e.object = nlohmann::ordered_json::parse(line);
    if (!e.object.is_object()) throw sim::input_error{path, at, "a JSON object", sim::shown(line)};
    const auto& prompt = member(e.object, "prompt", "a member \"prompt\"", path, at);
    if (!prompt.is_string()) throw sim::input_error{path, at, "a text as \"prompt\"", sim::shown(prompt.dump())};
    e.prompt = prompt.get<std::string>();
    if (with_lengths) {
      const auto& tokens = member(e.object, "output_tokens", "a member \"output_tokens\"", path, at);
      if (!tokens.is_number() || !(tokens.get<double>() >= 0 && tokens.get<double>() <= 1e9)) {
        throw sim::input_error{path, at, "a number of tokens, 0 to 1e9, as \"output_tokens\"",
                               sim::shown(tokens.dump())};
      }
      e.length = tokens.get<float>();
    }
    examples.push_back(std::move(e));
  }
  if (examples.empty()) throw sim::input_error{path, {}, "at least one prompt", "none"};
  return examples;
}

/// Scored prompts as a trace for `replay`: lengths, and arrivals if the lines have them.
class trace_writer {
 public:
  trace_writer() = default;
  /// Takes the counts from the lines. @throws sim::input_error for a line without them, or with invalid ones.
  trace_writer(const std::vector<example>& examples, const std::string& path)
      : with_arrivals_{examples.front().object.contains("arrival_s")} {
    double last = 0;
    for (const example& e : examples) {
      const sim::file_position at{e.line, 1};
      const std::int64_t prompt = count(e, "prompt_tokens", "a member \"prompt_tokens\", which a trace needs", 1, path);
      const std::int64_t output = count(e, "output_tokens", "a member \"output_tokens\", which a trace needs", 1, path);
      const std::int64_t reasoning =
          e.object.contains("reasoning_tokens") ? count(e, "reasoning_tokens", "", 0, path) : 0;
      if (reasoning > output) {
        throw sim::input_error{path, at, fmt::format("\"reasoning_tokens\" of at most output_tokens = {}", output),
                               fmt::format("{}", reasoning)};
      }
      std::string arrival;
      if (e.object.contains("arrival_s") != with_arrivals_) {
        throw sim::input_error{path, at, "\"arrival_s\" in all lines or in none", "both"};
      }
      if (with_arrivals_) {
        const auto& s = e.object["arrival_s"];
        if (!s.is_number() || !(s.get<double>() >= last && s.get<double>() <= sim::max_trace_seconds)) {
          throw sim::input_error{path, at, fmt::format("an \"arrival_s\" in seconds, not before {}", last),
                                 sim::shown(s.dump())};
        }
        last = s.get<double>();
        arrival = fmt::format("{}", last);
      }
      rows_.push_back(fmt::format("{},{},{},{},{}", arrival, prompt, output, reasoning, output - reasoning));
    }
  }

  /// The line of request `i`, after the header if it is the first one.
  [[nodiscard]] std::string row(std::size_t i, float score) const {
    return fmt::format("{}{},{}\n",
                       i == 0 ? "arrival_s,prompt_tokens,output_tokens,reasoning_tokens,answer_tokens,score\n" : "",
                       rows_[i], score);
  }

 private:
  [[nodiscard]] static std::int64_t count(const example& e, const char* name, const char* expected, std::int64_t least,
                                          const std::string& path) {
    const sim::file_position at{e.line, 1};
    const auto& value = member(e.object, name, expected, path, at);
    if (!value.is_number_integer() || value.get<std::int64_t>() < least ||
        value.get<std::int64_t>() > sim::max_trace_tokens) {
      throw sim::input_error{path, at,
                             fmt::format("a whole number, {} to {}, as \"{}\"", least, sim::max_trace_tokens, name),
                             sim::shown(value.dump())};
    }
    return value.get<std::int64_t>();
  }

  std::vector<std::string> rows_{};
  bool with_arrivals_ = false;
};

/// The rows of an embedding file: one per example, in the same order.
class embeddings {
 public:
  embeddings() = default;
  embeddings(const std::string& path, std::size_t dimension, std::size_t examples) : bytes_{sim::read_file(path)} {
    rows_ = rank::dense_rows::over(std::as_bytes(std::span{bytes_}), dimension);
    if (!rows_.valid() || rows_.size() != examples) {
      throw sim::input_error{
          path,
          {},
          fmt::format("{} rows of {} float32, {} bytes", examples, dimension, examples * dimension * 4),
          fmt::format("{} bytes", bytes_.size())};
    }
  }
  embeddings(const embeddings&) = delete;
  embeddings& operator=(const embeddings&) = delete;

  [[nodiscard]] std::vector<float> row(std::size_t i) const {
    std::vector<float> out(rows_.dimension());
    rows_.read(i, out);
    return out;
  }

 private:
  std::string bytes_{};
  rank::dense_rows rows_{};
};

/// Writes "1.25" as 1.25, and values that are not finite as null.
inline nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace rank_tool
