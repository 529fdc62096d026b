// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

/// @file
/// What passes by of an engine's answer, read byte by byte as it passes.

namespace endpoint_picker {

/// Reads an answer, whole or as server-sent events, in pieces that may end anywhere. Keeps no text: some dozen bytes
/// whatever comes, and whatever comes is fine. A name followed by a colon is a key, also in JSON that is cut into lines
/// of `data:`. Quotes inside a text are escaped there, so no text that a model writes is mistaken for a key.
///
/// O(1) a byte.
class answer_scan {
 public:
  /// Reads on.
  void read(std::string_view piece) noexcept {
    for (const char c : piece) step(c);
  }

  /// Events so far, without the one that says that all has come: an engine sends about one a token.
  [[nodiscard]] std::uint64_t events() const noexcept { return events_; }
  /// Tokens generated, where the answer says so (`usage`): the last of what it says.
  [[nodiscard]] std::optional<std::uint64_t> generated() const noexcept { return generated_; }
  /// Tokens of the prompt, likewise.
  [[nodiscard]] std::optional<std::uint64_t> prompt() const noexcept { return prompt_; }
  /// Whether some of its reasoning has come.
  [[nodiscard]] bool reasoned() const noexcept { return reasoned_; }
  /// Whether some of what is not its reasoning has come.
  [[nodiscard]] bool answered() const noexcept { return answered_; }
  /// Events before the first with some of what is not its reasoning.
  [[nodiscard]] std::uint64_t thoughts() const noexcept { return thoughts_; }

 private:
  enum class at : std::uint8_t { between, in_text, after_text, at_value, in_number };
  enum class name : std::uint8_t { other, prompt_tokens, completion_tokens, reasoning, content };

  void step(char c) noexcept {
    if (c == '\n') {  // no text of JSON has one as it is: whatever was, it is over
      end_number();
      where_ = at::between;
      line_ = 0;
      return;
    }
    if (line_ < line_begin.size()) begin_line(c);
    switch (where_) {
      case at::between: open(c); break;
      case at::in_text: text(c); break;
      case at::after_text:
        if (c == ':') {
          where_ = at::at_value;
        } else if (c != ' ' && c != '\t') {
          where_ = at::between;
          open(c);
        }
        break;
      case at::at_value:
        if (c == ' ' || c == '\t') break;
        if (is_digit(c)) {
          number_ = 0;
          where_ = at::in_number;
          digit(c);
        } else {
          where_ = at::between;
          of_key_ = c == '"' ? key_ : name::other;
          open(c);
        }
        break;
      case at::in_number:
        if (is_digit(c)) {
          digit(c);
        } else {
          end_number();
          where_ = at::between;
          open(c);
        }
        break;
    }
  }

  /// Counts lines that begin with `data:` and say something else than that it is done.
  void begin_line(char c) noexcept {
    if (c == line_begin[line_]) {
      if (++line_ == line_begin.size()) {
        data_ = true;
        ++line_;
      }
    } else {
      line_ = line_begin.size() + 1;
    }
  }
  void open(char c) noexcept {
    if (data_ && c == '{') {
      ++events_;
      data_ = false;
    }
    if (c == '[') data_ = false;
    if (c != '"') return;
    where_ = at::in_text;
    length_ = 0;
    escaped_ = false;
  }
  void text(char c) noexcept {
    if (c == '"' && !escaped_) {
      where_ = at::after_text;
      key_ = named();
      if (length_ != 0 && of_key_ == name::reasoning) reasoned_ = true;
      if (length_ != 0 && of_key_ == name::content && !answered_) {
        answered_ = true;
        thoughts_ = events_ == 0 ? 0 : events_ - 1;
      }
      of_key_ = name::other;
      return;
    }
    escaped_ = c == '\\' && !escaped_;
    if (length_ < held_.size()) held_[length_] = c;
    if (length_ <= held_.size()) ++length_;
  }
  [[nodiscard]] name named() const noexcept {
    if (length_ > held_.size()) return name::other;
    const std::string_view said{held_.data(), length_};
    if (said == "prompt_tokens" || said == "input_tokens") return name::prompt_tokens;
    if (said == "completion_tokens" || said == "output_tokens") return name::completion_tokens;
    if (said == "reasoning_content" || said == "reasoning") return name::reasoning;
    if (said == "content") return name::content;
    return name::other;
  }
  void digit(char c) noexcept {
    if (number_ < most) number_ = number_ * 10 + static_cast<std::uint64_t>(c - '0');
  }
  void end_number() noexcept {
    if (where_ != at::in_number) return;
    if (number_ > most) return;
    if (key_ == name::completion_tokens) generated_ = number_;
    if (key_ == name::prompt_tokens) prompt_ = number_;
  }
  static constexpr bool is_digit(char c) noexcept { return '0' <= c && c <= '9'; }

  static constexpr std::string_view line_begin = "data:";
  static constexpr std::uint64_t most = 1'000'000'000;  // Tokens: what is more is no number of tokens.

  std::array<char, 20> held_{};
  std::size_t length_ = 0;
  std::size_t line_ = 0;  // This line has as many characters of `line_begin`; more than all: it is another.
  std::uint64_t number_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t thoughts_ = 0;
  std::optional<std::uint64_t> generated_{};
  std::optional<std::uint64_t> prompt_{};
  at where_ = at::between;
  name key_ = name::other;
  name of_key_ = name::other;
  bool escaped_ = false;
  bool data_ = false;
  bool reasoned_ = false;
  bool answered_ = false;
};

}  // namespace endpoint_picker
