// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/input.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

/// @file
/// Traces: one request per row of a CSV file.
///
/// The first line is a header; columns are found by name, in any order, and others are ignored:
///
/// | column | | |
/// |---|---|---|
/// | `prompt_tokens` | needed | 1 to 10^9 |
/// | `output_tokens` | needed | 1 to 10^9; may be empty where both of the next two are given |
/// | `reasoning_tokens`, `answer_tokens` | optional | may be empty; one follows from the other, two must add up; none:
/// all answer | | `arrival_s` | optional | seconds, never falling; empty in all rows or in none | | `score` | optional
/// | predicted length rank, higher = longer; may be empty |
///
/// Fields are separated by commas; a field in double quotes may hold commas and doubled quotes, but no line end. Lines
/// end in a newline, the last one too, so that a truncated file is seen.

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
};

/// What a trace file holds.
struct trace {
  std::string name;             ///< The path, or what the caller called the text.
  std::vector<trace_row> rows;  ///< At least one; in order of arrival if there are arrivals.
  bool has_arrivals = false;    ///< Else every `arrival_s` is NaN: see `schedule_arrivals` (workload.hpp).
  bool has_reasoning = false;   ///< At least one row has reasoning tokens.
  bool has_scores = false;      ///< At least one row has a score.
};

/// Most tokens in one field of a trace.
inline constexpr std::int64_t max_trace_tokens = 1'000'000'000;
/// Latest arrival in a trace, in seconds: enough for Unix time.
inline constexpr double max_trace_seconds = 1e12;
/// Most rows in a trace.
inline constexpr std::size_t max_trace_rows = 20'000'000;

namespace detail {

/// Reads one trace. Keeps the position for the messages.
class trace_parser {
 public:
  trace_parser(std::string_view text, std::string_view name) : text_{text}, name_{name} {}

  [[nodiscard]] trace run() {
    require_plain_text(text_, name_, "a header with at least the columns prompt_tokens and output_tokens");
    if (text_.back() != '\n') {
      const file_position end = position_of(text_, text_.size());
      throw input_error{name_, end, "a newline at the end of the last line (add it if the row is complete)",
                        "the end of the file: is it truncated?"};
    }
    trace result;
    result.name = name_;
    next_line();
    read_header();
    while (at_ < text_.size()) {
      next_line();
      if (result.rows.size() == max_trace_rows) {
        fail(1, fmt::format("at most {} rows", max_trace_rows), "another one");
      }
      result.rows.push_back(read_row(result));
    }
    if (result.rows.empty()) {
      throw input_error{name_, {line_ + 1, 1}, "at least one row after the header", "the end of the file"};
    }
    return result;
  }

 private:
  enum column : std::size_t { arrival, prompt, output, reasoning, answer, score, column_count };
  static constexpr std::array<std::string_view, column_count> names{
      "arrival_s", "prompt_tokens", "output_tokens", "reasoning_tokens", "answer_tokens", "score"};

  struct field {
    std::string_view text;
    std::uint64_t at = 1;  ///< Column in the line.
    bool present = false;  ///< The file has this column, and the field is not empty.
  };

  [[noreturn]] void fail(std::uint64_t column_at, std::string_view expected, std::string_view found) const {
    throw input_error{name_, {line_, column_at}, expected, found};
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

  void read_header() {
    where_.fill(absent);
    fields_ = split([this](std::size_t index, const field& f) {
      for (std::size_t c = 0; c < column_count; ++c) {
        if (f.text != names[c]) continue;
        if (where_[c] != absent) fail(f.at, fmt::format("the column {} once", names[c]), "it again");
        where_[c] = index;
      }
    });
    for (const column needed : {prompt, output}) {
      if (where_[needed] != absent) continue;
      fail(1, fmt::format("a header with the column {} (known columns: {})", names[needed], fmt::join(names, ", ")),
           row_.empty() ? std::string{"an empty line"} : shown(row_));
    }
    column_at_.assign(fields_, column_count);
    for (std::size_t c = 0; c < column_count; ++c) {
      if (where_[c] != absent) column_at_[where_[c]] = c;
    }
  }

  [[nodiscard]] trace_row read_row(trace& result) {
    std::array<field, column_count> fields{};
    const std::size_t count = row_.empty() ? 0 : split([&](std::size_t index, const field& f) {
      if (index >= fields_) fail(f.at, fmt::format("{} fields, as in the header", fields_), "another " + shown(f.text));
      if (column_at_[index] != column_count) fields[column_at_[index]] = f;
    });
    if (count < fields_) {
      fail(row_.size() + 1, fmt::format("{} fields, as in the header", fields_),
           count == 0 ? std::string{"an empty line"} : fmt::format("the end of the line after {}", count));
    }
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
    read_arrival(fields[arrival], row, result);
    if (fields[score].present) {
      row.score = static_cast<float>(real(fields[score], score, -1e30, 1e30));
      result.has_scores = true;
    }
    result.has_reasoning = result.has_reasoning || row.reasoning_tokens > 0;
    return row;
  }

  void read_arrival(const field& f, trace_row& row, trace& result) const {
    if (result.rows.empty()) result.has_arrivals = f.present;
    if (!result.has_arrivals) {
      if (f.present) fail(f.at, "an empty arrival_s, as in the rows above", shown(f.text));
      row.arrival_s = std::numeric_limits<double>::quiet_NaN();
      return;
    }
    row.arrival_s = real(f, arrival, 0, max_trace_seconds);
    if (!result.rows.empty() && row.arrival_s < result.rows.back().arrival_s) {
      fail(f.at, fmt::format("an arrival_s not before that of the row above, {}", result.rows.back().arrival_s),
           shown(f.text));
    }
  }

  [[nodiscard]] std::int64_t rest(const field& f, column c, std::int64_t whole, std::int64_t part) const {
    if (part > whole) fail(f.at, fmt::format("{} of at most output_tokens = {}", names[c], whole), shown(f.text));
    return whole - part;
  }

  [[nodiscard]] std::int64_t number(const field& f, column c, std::int64_t least) const {
    std::int64_t value = 0;
    const char* const end = f.text.data() + f.text.size();
    const auto [stop, failure] = std::from_chars(f.text.data(), end, value);
    if (!f.present || failure != std::errc{} || stop != end || value < least || value > max_trace_tokens) {
      fail(f.at, fmt::format("{}, a whole number from {} to {}", names[c], least, max_trace_tokens), shown(f.text));
    }
    return value;
  }

  [[nodiscard]] double real(const field& f, column c, double least, double most) const {
    double value = 0;
    const char* const end = f.text.data() + f.text.size();
    const auto [stop, failure] = std::from_chars(f.text.data(), end, value);
    // Written so that NaN fails.
    if (!f.present || failure != std::errc{} || stop != end || !(value >= least && value <= most)) {
      fail(f.at, fmt::format("{}, a number from {:g} to {:g}", names[c], least, most), shown(f.text));
    }
    return value;
  }

  static constexpr std::size_t absent = static_cast<std::size_t>(-1);

  std::string_view text_;
  std::string_view name_;
  std::string_view row_;
  std::size_t at_ = 0;
  std::uint64_t line_ = 0;
  std::size_t fields_ = 0;
  std::array<std::size_t, column_count> where_{};
  std::vector<std::size_t> column_at_;  ///< For each field of a row: its column, or `column_count` for an extra one.
};

}  // namespace detail

/// Reads a trace from memory. O(size); allocates the rows.
/// @param name what messages call it.
/// @throws input_error at the first thing that is not as the file comment says.
[[nodiscard]] inline trace parse_trace(std::string_view text, std::string_view name) {
  return detail::trace_parser{text, name}.run();
}

/// Reads a trace file.
/// @throws input_error as `parse_trace`, and when the file cannot be read.
[[nodiscard]] inline trace read_trace(const std::string& path) { return parse_trace(read_file(path), path); }

}  // namespace sim
TESSERA_NAMESPACE_END
