// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/input.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// JSON as text: the output, and the places of values in the input for messages, which the parser does not give.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// A document as a file: indented, with a newline at its end. Bytes that are not UTF-8, as a path may have, become
/// U+FFFD.
[[nodiscard]] std::string json_page(const nlohmann::ordered_json& document);

namespace detail {

/// Accepts every JSON event, and keeps only the place where the text stops being JSON. Values nested too deeply are
/// rejected as well: writing such a value recurses once per level.
class json_checker : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return deeper("{"); }
  bool key(string_t&) override { return true; }
  bool end_object() override { return shallower(); }
  bool start_array(std::size_t) override { return deeper("["); }
  bool end_array() override { return shallower(); }
  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::detail::exception& failure) override {
    offset = position == 0 ? 0 : position - 1;
    token = last_token;
    overflow = failure.id == 406;
    return false;
  }

  /// The expected content; `json` if it is not JSON at all.
  [[nodiscard]] std::string expected(std::string_view json) const {
    if (depth_ > max_depth) return fmt::format("arrays and objects at most {} deep", max_depth);
    return std::string{overflow ? "a number that a double can hold" : json};
  }

  std::size_t offset = 0;  ///< 0 as well if the nesting is too deep.
  std::string token;
  bool overflow = false;

 private:
  static constexpr std::size_t max_depth = 512;

  bool deeper(const char* bracket) {
    token = bracket;
    return ++depth_ <= max_depth;
  }

  bool shallower() {
    --depth_;
    return true;
  }

  std::size_t depth_ = 0;
};

/// The same, with the path of the first repeated name within an object: a parser keeps one of the two.
class json_name_checker : public json_checker {
 public:
  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool start_object(std::size_t size) override { return begin(true) && json_checker::start_object(size); }
  bool end_object() override { return end() && json_checker::end_object(); }
  bool start_array(std::size_t size) override { return begin(false) && json_checker::start_array(size); }
  bool end_array() override { return end() && json_checker::end_array(); }
  bool key(string_t& name) override {
    open_.back().step = name;
    if (!open_.back().names.insert(name).second && twice.empty()) {
      for (const level& l : open_) twice.push_back(l.object ? l.step : std::to_string(l.values - 1));
    }
    return true;
  }

  std::vector<std::string> twice;  ///< Empty: no name is repeated.

 private:
  struct level {
    bool object;
    std::size_t values = 0;  ///< Values begun.
    std::string step{};      ///< For an object: the latest name.
    std::set<std::string> names{};
  };
  bool value() {
    if (!open_.empty()) ++open_.back().values;
    return true;
  }
  bool begin(bool object) {
    value();
    open_.push_back({.object = object});
    return true;
  }
  bool end() {
    open_.pop_back();
    return true;
  }
  std::vector<level> open_;
};

/// Finds the places of values in valid JSON text, for messages.
class json_locator {
 public:
  explicit json_locator(std::string_view text) noexcept : text_{text} {}

  struct place {
    std::size_t key = 0;  ///< Offset of the member's key; for other values, offset of the value.
    std::size_t value = 0;
    std::size_t end = 0;  ///< One past the value.
  };

  /// Calls `take(key, place)` for each member of the object that is the whole text, in order; `key` is as in the text,
  /// without its quotes.
  template <class Take>
  void members(Take&& take) const {
    const std::size_t begin = space(0);
    each({begin, begin, skip(begin)}, [&](std::size_t, const place& member) {
      const std::size_t key_end = skip(member.key);
      take(text_.substr(member.key + 1, key_end - member.key - 2), member);
    });
  }

  /// Calls `take(index, place)` for each element or member of an array or object.
  template <class Take>
  void each(const place& parent, Take&& take) const {
    const bool object = text_[parent.value] == '{';
    std::size_t at = space(parent.value + 1);
    for (std::size_t index = 0; at < parent.end && text_[at] != '}' && text_[at] != ']'; ++index) {
      place member{at, at, at};
      if (object) member.value = space(space(skip(at)) + 1);  // Past the colon.
      member.end = skip(member.value);
      take(index, member);
      at = space(member.end);
      if (at < parent.end && text_[at] == ',') at = space(at + 1);
    }
  }

  /// The value reached from the root by member names and array indices.
  [[nodiscard]] place find(const std::vector<std::string>& path) const {
    std::size_t at = space(0);
    place found{at, at, skip(at)};
    for (const std::string& step : path) found = child(found, step);
    return found;
  }

 private:
  [[nodiscard]] place child(const place& parent, const std::string& step) const {
    const bool object = text_[parent.value] == '{';
    place found = parent;
    each(parent, [&](std::size_t index, const place& member) {
      const std::string name =
          object ? nlohmann::json::parse(text_.substr(member.key, skip(member.key) - member.key)).get<std::string>()
                 : std::to_string(index);
      if (name == step) found = member;  // With equal keys the last counts, as in the parser.
    });
    return found;
  }

  [[nodiscard]] static bool blank(char c) noexcept { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
  [[nodiscard]] std::size_t space(std::size_t at) const noexcept {
    while (at < text_.size() && blank(text_[at])) ++at;
    return at;
  }

  /// One past the value that begins at `at`.
  [[nodiscard]] std::size_t skip(std::size_t at) const noexcept {
    std::size_t depth = 0;
    do {
      const char c = text_[at];
      if (c == '"') {
        for (++at; text_[at] != '"'; ++at) {
          if (text_[at] == '\\') ++at;
        }
        ++at;
      } else if (c == '{' || c == '[') {
        ++depth;
        ++at;
      } else if (c == '}' || c == ']') {
        --depth;
        ++at;
      } else if (depth > 0) {
        ++at;
      } else {
        while (at < text_.size() && !blank(text_[at]) && text_[at] != ',' && text_[at] != ']' && text_[at] != '}') ++at;
      }
    } while (depth > 0 && at < text_.size());
    return at;
  }

  std::string_view text_;
};

}  // namespace detail
}  // namespace sim
TESSERA_NAMESPACE_END
