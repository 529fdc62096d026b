// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/block_chain.hpp>
#include <tessera/sim/input/input.hpp>
#include <tessera/sim/input/json_text.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <vector>

/// @file
/// Traces: one request per row of a CSV file, or per line of JSON.
///
/// In CSV the first line is a header, and columns are found by name, in any order. In JSON lines each line is an object
/// with these names for keys, in any order; a key that is missing, or `null`, is an empty field:
///
/// | column | | |
/// |---|---|---|
/// | `prompt_tokens` | needed | 1 to 10^9 |
/// | `output_tokens` | needed | 1 to 10^9; may be empty where both of the next two are given |
/// | `reasoning_tokens`, `answer_tokens` | optional | of the output; may be empty, without both all is answer |
/// | `arrival_s` | optional | seconds, never falling; empty in all rows or in none; later turns may go without |
/// | `score` | optional | predicted length rank, higher = longer; may be empty |
/// | `session` | optional | any text: rows with the same are the turns of one session, in their order; may be empty |
/// | `think_s` | optional | of a later turn: seconds from the last token of the turn before; empty: 0 |
/// | `hash_ids` | optional | as `[1, 2, 3]`: for each 512 tokens of the prompt a whole number |
///
/// Equal `hash_ids` after equal ones are equal tokens (Mooncake's traces). Reasoning and answer add up to the output.
///
/// Mooncake's own names do as well: with `input_length`, `output_length` and `timestamp`, which is in milliseconds, in
/// place of `prompt_tokens`, `output_tokens` and `arrival_s`. Other columns are not used; `trace::unused` says which.
///
/// Fields of CSV are separated by commas; a field in double quotes may hold commas and doubled quotes, but no line end.
/// Lines end in a newline, the last one too, so that a truncated file is seen.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// One request of a workload.
struct trace_row {
  double arrival_s = 0;               ///< Seconds from the start of the trace; NaN while the trace has no arrivals.
  std::int64_t prompt_tokens = 1;     ///< At least 1.
  std::int64_t output_tokens = 1;     ///< At least 1: reasoning and answer.
  std::int64_t reasoning_tokens = 0;  ///< Of the output; 0: the model answers at once.
  std::int64_t answer_tokens = 1;     ///< Of the output; 0: it was cut off while it reasoned.
  float score = std::numeric_limits<float>::quiet_NaN();  ///< Predicted rank of the length; NaN: none.
  std::int64_t session = -1;  ///< Rows with the same number are the turns of one session, in their order; -1: of none.
  /// Of a later turn: seconds from the last token of the turn before to this one, which comes no earlier than at
  /// `arrival_s`.
  double think_s = 0;
  std::vector<text_run> runs{};  ///< What the prompt begins with, as far as others may share it; see `turns`.
};

/// What a trace file holds.
struct trace {
  std::string name;                   ///< The path, or what the caller called the text.
  std::vector<trace_row> rows;        ///< At least one; in order of arrival if there are arrivals.
  bool has_arrivals = false;          ///< Else every `arrival_s` is NaN: see `schedule_arrivals` (workload.hpp).
  bool has_reasoning = false;         ///< At least one row has reasoning tokens.
  bool has_scores = false;            ///< At least one row has a score.
  bool has_sessions = false;          ///< At least one row is a later turn of a session.
  bool has_prefixes = false;          ///< At least one row names runs of its prompt.
  std::vector<std::string> unused{};  ///< Columns that the reader has no use for, in their order; at most 64 of them.
};

/// What a reader of traces must be told.
struct trace_options {
  std::int64_t hash_tokens = 512;  ///< Tokens that each of the `hash_ids` stands for. At least 1.
};

/// Most tokens in one field of a trace.
inline constexpr std::int64_t max_trace_tokens = 1'000'000'000;
/// Latest arrival in a trace, in seconds: enough for Unix time.
inline constexpr double max_trace_seconds = 1e12;
/// Most rows in a trace.
inline constexpr std::size_t max_trace_rows = 20'000'000;
/// Longest line of JSON in a trace, in bytes: with a number for each 16 tokens, prompts of more than 10^6 tokens.
inline constexpr std::size_t max_json_line_bytes = std::size_t{1} << 20;

namespace detail {

/// Reads one trace. Keeps the position for the messages.
class trace_parser {
 public:
  trace_parser(std::string_view text, std::string_view name, const trace_options& options)
      : text_{text}, name_{name}, options_{options} {}

  [[nodiscard]] trace run() {
    if (options_.hash_tokens < 1 || options_.hash_tokens > max_trace_tokens) {
      throw usage_error{fmt::format("each of the hash_ids stands for 1 to {} tokens, not {}", max_trace_tokens,
                                    options_.hash_tokens)};
    }
    const bool json = text_.find_first_not_of(" \t\n") != text_.npos && text_[text_.find_first_not_of(" \t\n")] == '{';
    require_plain_text(text_, name_, "a header with at least the columns prompt_tokens and output_tokens",
                       json ? max_json_line_bytes : max_line_bytes);
    if (text_.back() != '\n') {
      const file_position end = position_of(text_, text_.size());
      throw input_error{name_, end, "a newline at the end of the last line (add it if the row is complete)",
                        "the end of the file: is it truncated?"};
    }
    trace result;
    result.name = name_;
    if (!json) {
      next_line();
      read_header(result);
    }
    while (at_ < text_.size()) {
      next_line();
      if (result.rows.size() == max_trace_rows) {
        fail(1, fmt::format("at most {} rows", max_trace_rows), "another one");
      }
      result.rows.push_back(read_row(json ? split_object(result) : split_row(), result));
    }
    if (result.rows.empty()) {
      throw input_error{name_, {line_ + 1, 1}, "at least one row after the header", "the end of the file"};
    }
    return result;
  }

 private:
  enum column : std::size_t { arrival, prompt, output, reasoning, answer, score, session, think, hashes, column_count };
  using column_names = std::array<std::string_view, column_count>;
  static constexpr column_names own_names{"arrival_s",        "prompt_tokens", "output_tokens",
                                          "reasoning_tokens", "answer_tokens", "score",
                                          "session",          "think_s",       "hash_ids"};
  static constexpr column_names mooncake_names{"timestamp",        "input_length",  "output_length",
                                               "reasoning_tokens", "answer_tokens", "score",
                                               "session",          "think_s",       "hash_ids"};
  static constexpr std::size_t most_unused = 64;

  struct field {
    std::string_view text;
    std::uint64_t at = 1;  ///< Column in the line.
    bool present = false;  ///< The file has this column, and the field is not empty.
  };
  using row_fields = std::array<field, column_count>;

  [[noreturn]] void fail(std::uint64_t column_at, std::string_view expected, std::string_view found) const {
    throw input_error{name_, {line_, column_at}, expected, found};
  }

  /// Which column has this name, if any; the first needed one decides whose names they are.
  [[nodiscard]] std::size_t column_of(std::string_view name) const noexcept {
    std::size_t c = 0;
    while (c != column_count && names_[c] != name) ++c;
    return c;
  }
  static void not_used(trace& result, std::string_view name) {
    if (result.unused.size() == most_unused) return;
    if (std::find(result.unused.begin(), result.unused.end(), name) != result.unused.end()) return;
    result.unused.emplace_back(name);
  }

  void next_line() {
    const std::size_t newline = text_.find('\n', at_);
    row_ = text_.substr(at_, newline - at_);
    at_ = newline + 1;
    ++line_;
  }

  /// Calls `take(index, field)` for each field of the line; returns their number.
  template <class Take>
  std::size_t split(Take&& take) const {
    std::size_t index = 0;
    std::size_t begin = 0;
    for (;; ++index) {
      field f{.text = {}, .at = begin + 1, .present = true};
      std::size_t end = 0;
      if (begin < row_.size() && row_[begin] == '"') {
        std::size_t quote = begin + 1;
        for (;; quote += 2) {
          quote = row_.find('"', quote);
          if (quote == row_.npos) fail(begin + 1, "a closing double quote on the same line", shown(row_.substr(begin)));
          if (quote + 1 >= row_.size() || row_[quote + 1] != '"') break;
        }
        f.text = row_.substr(begin + 1, quote - begin - 1);
        end = quote + 1;
        if (end < row_.size() && row_[end] != ',') {
          fail(end + 1, "a comma after the closing double quote", shown(row_.substr(end)));
        }
      } else {
        end = row_.find(',', begin);
        if (end == row_.npos) end = row_.size();
        f.text = row_.substr(begin, end - begin);
      }
      f.present = !f.text.empty();
      take(index, f);
      if (end >= row_.size()) return index + 1;
      begin = end + 1;
    }
  }

  void read_header(trace& result) {
    names_ = own_names;
    split([this](std::size_t, const field& f) {
      if (f.text == mooncake_names[prompt]) names_ = mooncake_names;
    });
    std::array<bool, column_count> seen{};
    fields_ = split([&](std::size_t, const field& f) {
      const std::size_t c = column_of(f.text);
      column_at_.push_back(c);
      if (c == column_count) return not_used(result, f.text);
      if (seen[c]) fail(f.at, fmt::format("the column {} once", names_[c]), "it again");
      seen[c] = true;
    });
    for (const column needed : {prompt, output}) {
      if (seen[needed]) continue;
      fail(1, fmt::format("a header with the column {} (known columns: {})", names_[needed], fmt::join(names_, ", ")),
           row_.empty() ? std::string{"an empty line"} : shown(row_));
    }
  }

  [[nodiscard]] row_fields split_row() const {
    row_fields fields{};
    const std::size_t count = row_.empty() ? 0 : split([&](std::size_t index, const field& f) {
      if (index >= fields_) fail(f.at, fmt::format("{} fields, as in the header", fields_), "another " + shown(f.text));
      if (column_at_[index] != column_count) fields[column_at_[index]] = f;
    });
    if (count < fields_) {
      fail(row_.size() + 1, fmt::format("{} fields, as in the header", fields_),
           count == 0 ? std::string{"an empty line"} : fmt::format("the end of the line after {}", count));
    }
    return fields;
  }

  /// The values of an object as they are written, but texts without their quotes where any text will do.
  [[nodiscard]] row_fields split_object(trace& result) {
    json_checker checker;
    if (!nlohmann::json::sax_parse(row_, &checker)) {
      const bool at_end = checker.offset >= row_.size();
      fail((at_end ? row_.size() : checker.offset) + 1,
           checker.overflow ? "a number that a double can hold" : "a JSON object on each line",
           row_.empty() ? std::string{"an empty line"}
           : at_end     ? std::string{"the end of the line"}
                        : shown(checker.token));
    }
    if (const std::size_t first = row_.find_first_not_of(" \t"); row_[first] != '{') {
      fail(first + 1, "a JSON object on each line", shown(row_.substr(first)));
    }
    const json_locator object{row_};
    if (result.rows.empty()) {
      names_ = own_names;
      object.members([this](std::string_view key, const json_locator::place&) {
        if (key == mooncake_names[prompt]) names_ = mooncake_names;
      });
    }
    row_fields fields{};
    std::array<bool, column_count> seen{};
    object.members([&](std::string_view key, const json_locator::place& at) {
      const std::size_t c = column_of(key);
      if (c == column_count) return not_used(result, key);
      if (seen[c]) fail(at.key + 1, fmt::format("the key {} once", key), "it again");
      seen[c] = true;
      field f{.text = row_.substr(at.value, at.end - at.value), .at = at.value + 1, .present = true};
      if (c == session && f.text.front() == '"') f.text = f.text.substr(1, f.text.size() - 2);
      f.present = !f.text.empty() && f.text != "null";
      fields[c] = f;
    });
    for (const column needed : {prompt, output}) {
      const bool follows = needed == output && fields[reasoning].present && fields[answer].present;
      if (fields[needed].present || follows) continue;
      fail(1, fmt::format("an object with the key {} (known keys: {})", names_[needed], fmt::join(names_, ", ")),
           shown(row_));
    }
    return fields;
  }

  [[nodiscard]] trace_row read_row(const row_fields& fields, trace& result) {
    trace_row row;
    row.prompt_tokens = number(fields[prompt], prompt, 1);
    if (fields[reasoning].present) row.reasoning_tokens = number(fields[reasoning], reasoning, 0);
    if (fields[answer].present) row.answer_tokens = number(fields[answer], answer, 0);
    const bool both = fields[reasoning].present && fields[answer].present;
    if (both && !fields[output].present) {
      row.output_tokens = row.reasoning_tokens + row.answer_tokens;
      if (row.output_tokens < 1 || row.output_tokens > max_trace_tokens) {
        fail(fields[answer].at, fmt::format("reasoning_tokens + answer_tokens from 1 to {}", max_trace_tokens),
             fmt::format("{}", row.output_tokens));
      }
    } else {
      row.output_tokens = number(fields[output], output, 1);
    }
    if (both) {
      if (row.reasoning_tokens + row.answer_tokens != row.output_tokens) {
        fail(fields[answer].at, fmt::format("reasoning_tokens + answer_tokens = output_tokens = {}", row.output_tokens),
             fmt::format("{} + {}", row.reasoning_tokens, row.answer_tokens));
      }
    } else if (fields[reasoning].present) {
      row.answer_tokens = rest(fields[reasoning], reasoning, row.output_tokens, row.reasoning_tokens);
    } else if (fields[answer].present) {
      row.reasoning_tokens = rest(fields[answer], answer, row.output_tokens, row.answer_tokens);
    } else {
      row.answer_tokens = row.output_tokens;
    }
    const bool later = read_session(fields, row, result);
    read_arrival(fields[arrival], later, row, result);
    if (fields[hashes].present) read_hashes(fields[hashes], row, result);
    if (fields[score].present) {
      row.score = static_cast<float>(real(fields[score], score, -1e30, 1e30));
      result.has_scores = true;
    }
    result.has_reasoning = result.has_reasoning || row.reasoning_tokens > 0;
    return row;
  }

  /// Whether the row is a later turn.
  [[nodiscard]] bool read_session(const row_fields& fields, trace_row& row, trace& result) {
    bool later = false;
    if (fields[session].present) {
      const auto number = static_cast<std::int64_t>(sessions_.size());
      const auto [at, first] = sessions_.try_emplace(std::string{fields[session].text}, number);
      row.session = at->second;
      later = !first;
      result.has_sessions = result.has_sessions || later;
    }
    if (fields[think].present) {
      if (!fields[session].present) fail(fields[think].at, "a session beside think_s", shown(fields[think].text));
      row.think_s = real(fields[think], think, 0, max_trace_seconds);
    }
    return later;
  }

  void read_arrival(const field& f, bool later, trace_row& row, trace& result) const {
    if (result.rows.empty()) result.has_arrivals = f.present;
    if (!result.has_arrivals) {
      if (f.present) fail(f.at, fmt::format("an empty {}, as in the rows above", names_[arrival]), shown(f.text));
      row.arrival_s = std::numeric_limits<double>::quiet_NaN();
      return;
    }
    const double before_s = result.rows.empty() ? 0 : result.rows.back().arrival_s;
    if (later && !f.present) {
      row.arrival_s = before_s;
      return;
    }
    const double unit = names_ == mooncake_names ? 1000 : 1;
    row.arrival_s = real(f, arrival, 0, max_trace_seconds * unit) / unit;
    if (row.arrival_s < before_s) {
      fail(f.at,
           fmt::format("{} {} not before that of the row above, {}", unit == 1 ? "an" : "a", names_[arrival],
                       before_s * unit),
           shown(f.text));
    }
  }

  /// Numbers between brackets, or none, with commas or spaces between them.
  void read_hashes(const field& f, trace_row& row, trace& result) const {
    const std::int64_t expected = (row.prompt_tokens - 1) / options_.hash_tokens + 1;
    const auto wrong = [&](std::size_t at, std::string_view found) {
      fail(f.at + at,
           fmt::format("hash_ids, {} whole numbers: one for each {} of {} tokens", expected, options_.hash_tokens,
                       row.prompt_tokens),
           found);
    };
    std::string_view list = f.text;
    std::size_t at = 0;
    if (!list.empty() && list.front() == '[') {
      if (list.back() != ']') wrong(0, shown(list));
      list = list.substr(0, list.size() - 1);
      at = 1;
    }
    for (std::int64_t left = row.prompt_tokens; (at = list.find_first_not_of(", \t", at)) != list.npos;) {
      std::uint64_t id = 0;
      const char* const end = list.data() + list.size();
      const auto [stop, failure] = std::from_chars(list.data() + at, end, id);
      if (failure != std::errc{} || (id >> 63U) != 0 ||
          (stop != end && *stop != ',' && *stop != ' ' && *stop != '\t')) {
        wrong(at, shown(list.substr(at)));
      }
      if (left <= 0) wrong(at, "another");
      row.runs.push_back({id, left < options_.hash_tokens ? left : options_.hash_tokens});
      left -= options_.hash_tokens;
      at = static_cast<std::size_t>(stop - list.data());
    }
    if (static_cast<std::int64_t>(row.runs.size()) != expected) wrong(0, fmt::format("{}", row.runs.size()));
    result.has_prefixes = true;
  }

  [[nodiscard]] std::int64_t rest(const field& f, column c, std::int64_t whole, std::int64_t part) const {
    if (part > whole) fail(f.at, fmt::format("{} of at most output_tokens = {}", names_[c], whole), shown(f.text));
    return whole - part;
  }

  [[nodiscard]] std::int64_t number(const field& f, column c, std::int64_t least) const {
    std::int64_t value = 0;
    const char* const end = f.text.data() + f.text.size();
    const auto [stop, failure] = std::from_chars(f.text.data(), end, value);
    if (!f.present || failure != std::errc{} || stop != end || value < least || value > max_trace_tokens) {
      fail(f.at, fmt::format("{}, a whole number from {} to {}", names_[c], least, max_trace_tokens), shown(f.text));
    }
    return value;
  }

  [[nodiscard]] double real(const field& f, column c, double least, double most) const {
    double value = 0;
    const char* const end = f.text.data() + f.text.size();
    const auto [stop, failure] = std::from_chars(f.text.data(), end, value);
    // Written so that NaN fails.
    if (!f.present || failure != std::errc{} || stop != end || !(value >= least && value <= most)) {
      fail(f.at, fmt::format("{}, a number from {:g} to {:g}", names_[c], least, most), shown(f.text));
    }
    return value;
  }

  std::string_view text_;
  std::string_view name_;
  std::string_view row_;
  std::size_t at_ = 0;
  std::uint64_t line_ = 0;
  std::size_t fields_ = 0;
  trace_options options_;
  column_names names_ = own_names;
  std::vector<std::size_t> column_at_;  ///< For each field of a row: its column, or `column_count` for an extra one.
  std::unordered_map<std::string, std::int64_t> sessions_;
};

}  // namespace detail

/// Reads a trace from memory: JSON lines if it begins with a brace, else CSV. O(size); allocates the rows.
/// @param name what messages call it.
/// @throws input_error at the first thing that is not as the file comment says.
[[nodiscard]] inline trace parse_trace(std::string_view text, std::string_view name,
                                       const trace_options& options = {}) {
  return detail::trace_parser{text, name, options}.run();
}

/// Reads a trace file.
/// @throws input_error as `parse_trace`, and when the file cannot be read.
[[nodiscard]] inline trace read_trace(const std::string& path, const trace_options& options = {}) {
  return parse_trace(read_file(path), path, options);
}

/// A sentence that names the columns of a trace that nothing is made of, ending in a newline; empty if there are none.
[[nodiscard]] inline std::string describe_unused(const trace& t) {
  if (t.unused.empty()) return {};
  std::vector<std::string> names;
  for (const std::string& name : t.unused) names.push_back(shown(name));
  return fmt::format("Columns of {} that are not used: {}\n", t.name, fmt::join(names, ", "));
}

}  // namespace sim
TESSERA_NAMESPACE_END
