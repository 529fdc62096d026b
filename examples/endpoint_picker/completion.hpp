// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// @file
/// What the body of an OpenAI-compatible request says that matters for where it goes.

namespace endpoint_picker {

/// A completion that is asked for.
struct completion {
  std::string model;                        ///< Empty: it does not say.
  std::uint64_t text_bytes = 0;             ///< Bytes of its prompt or messages, tools included; pictures are 0.
  std::uint64_t token_ids = 0;              ///< Token ids of a prompt that is given as such.
  std::optional<std::uint64_t> max_tokens;  ///< The most that is to be generated.
  bool streams = false;                     ///< Whether the answer comes token by token.
  std::optional<bool> reasons;              ///< Whether it says that it reasons first, or does not.
};

namespace detail {

/// Reads a body without building it in memory: of nesting it keeps one name.
class completion_reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit completion_reader(completion& out) noexcept : out_{out} {}

  bool null() override { return value(); }
  bool boolean(bool b) override {
    if (depth_ == 1 && top_ == "stream") out_.streams = b;
    if (depth_ == 2 && top_ == "chat_template_kwargs" && (key_ == "enable_thinking" || key_ == "thinking")) {
      out_.reasons = b;
    }
    return value();
  }
  bool number_integer(number_integer_t) override { return number(); }
  bool number_unsigned(number_unsigned_t n) override {
    if (depth_ == 1 && (top_ == "max_tokens" || top_ == "max_completion_tokens" || top_ == "max_output_tokens")) {
      out_.max_tokens = n;
    }
    return number();
  }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t& s) override {
    if (depth_ == 1 && top_ == "model") out_.model = s;
    if (depth_ == 1 && top_ == "reasoning_effort") out_.reasons = s != "none";
    if (counts_ && key_ != "url") out_.text_bytes += s.size();
    return value();
  }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override { return begin(); }
  bool key(string_t& k) override {
    key_ = k;
    if (depth_ == 1) {
      top_ = k;
      counts_ = k == "prompt" || k == "messages" || k == "tools" || k == "input" || k == "instructions" ||
                k == "system" || k == "suffix";
    }
    return true;
  }
  bool end_object() override { return end(); }
  bool start_array(std::size_t) override { return depth_ != 0 && begin(); }
  bool end_array() override { return end(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    offset = position == 0 ? 0 : position - 1;
    return false;
  }

  std::size_t offset = 0;  ///< Offset of what is wrong.

 private:
  bool value() const noexcept { return depth_ != 0; }
  bool number() noexcept {
    if (top_ == "prompt" && depth_ > 1) ++out_.token_ids;
    return value();
  }
  bool begin() noexcept {
    ++depth_;
    return true;
  }
  bool end() noexcept {
    --depth_;
    return true;
  }

  completion& out_;
  std::string top_;
  std::string key_;
  std::uint64_t depth_ = 0;
  bool counts_ = false;
};

}  // namespace detail

/// The body's request, or none and where it is no JSON object. O(body); its strings are the most that it holds.
[[nodiscard]] inline std::optional<completion> read_completion(std::string_view body, std::size_t& offset) {
  completion out;
  detail::completion_reader reader{out};
  if (nlohmann::json::sax_parse(body, &reader)) return out;
  offset = std::min(reader.offset, body.size());
  return std::nullopt;
}

}  // namespace endpoint_picker
