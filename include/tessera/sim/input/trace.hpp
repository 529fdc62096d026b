// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/input.hpp>
#include <tessera/sim/input/json_text.hpp>
#include <tessera/sim/input/trace_row.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
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
/// | `tenant` | optional | any text: whose request it is; at most 64 different ones; may be empty |
/// | `calls_tool` | optional | of a session: 1 if the turn ends with the call of a tool: its server knows that another
/// follows | | `hash_ids` | optional | as `[1, 2, 3]`: for each 512 tokens of the prompt a whole number |
///
/// Equal `hash_ids` after equal ones are equal tokens (Mooncake's traces). Reasoning and answer add up to the output.
///
/// What others publish is read as it is, by the names of its columns:
///
/// | whose | arrival | prompt and output | |
/// |---|---|---|---|
/// | Mooncake | `timestamp`, in milliseconds | `input_length`, `output_length` | and `hash_ids` |
/// | Azure's inference traces | `TIMESTAMP`, a date and a time | `ContextTokens`, `GeneratedTokens` | |
/// | BurstGPT | `Timestamp` | `Request tokens`, `Response tokens` | |
/// | ServeGen | `timestamp` | `input_tokens`, `output_tokens` | and `reason_ratio`, of the output |
/// | vLLM's benchmark, `--save-detailed` | `start_times`, if there | `input_lens`, `output_lens` | one JSON object |
///
/// Those of the last four are logs: rows come in any order, and those that generate nothing, because they failed, are
/// left out; `trace::failed` says how many. Other columns are not used; `trace::unused` says which.
///
/// Fields of CSV are separated by commas, with blanks around them or without; a field in double quotes may hold commas
/// and doubled quotes, but no line end.
/// Lines end in a newline, or in a carriage return and a newline; the last one may do without.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// What a trace file holds.
struct trace {
  std::string name;                   ///< The path, or what the caller called the text.
  std::vector<trace_row> rows;        ///< At least one; in order of arrival if there are arrivals.
  bool has_arrivals = false;          ///< Else every `arrival_s` is NaN: see `schedule_arrivals` (workload.hpp).
  bool has_reasoning = false;         ///< At least one row has reasoning tokens.
  bool has_scores = false;            ///< At least one row has a score.
  bool has_sessions = false;          ///< At least one row is a later turn of a session.
  bool has_tenants = false;           ///< At least one row says whose it is.
  bool has_prefixes = false;          ///< At least one row names runs of its prompt.
  std::vector<std::string> unused{};  ///< Columns that the reader has no use for, in their order; at most 64 of them.
  std::size_t failed = 0;             ///< Rows of a log that are left out, because they generate nothing.
  double own_rate = 0;                ///< Without arrivals: requests per second, if the file says; else 0.
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

/// What columns are called.
namespace trace_columns {

enum column : std::size_t {
  arrival,
  prompt,
  output,
  reasoning,
  answer,
  score,
  session,
  think,
  hashes,
  ratio,
  tenant,
  tool,
  column_count
};
using names = std::array<std::string_view, column_count>;
/// Whose names they are. A log may be out of order and have rows that failed.
struct format {
  trace_columns::names names;
  double unit = 1;  ///< So many of an arrival are a second.
  bool log = false;
  bool dates = false;  ///< Arrivals are dates and times.
};
/// Ours.
inline constexpr format own{.names = {"arrival_s", "prompt_tokens", "output_tokens", "reasoning_tokens",
                                      "answer_tokens", "score", "session", "think_s", "hash_ids", "", "tenant",
                                      "calls_tool"}};
/// Others than our own.
inline constexpr std::array<format, 4> published{
    format{.names = {"timestamp", "input_length", "output_length", "reasoning_tokens", "answer_tokens", "score",
                     "session", "think_s", "hash_ids", "", "tenant", "calls_tool"},
           .unit = 1000},
    format{.names = {"TIMESTAMP", "ContextTokens", "GeneratedTokens"}, .log = true, .dates = true},
    format{.names = {"Timestamp", "Request tokens", "Response tokens"}, .log = true},
    format{.names = {"timestamp", "input_tokens", "output_tokens", "", "", "", "", "", "", "reason_ratio"},
           .log = true}};

}  // namespace trace_columns

/// Reads one trace. Keeps the position for the messages.
class trace_parser {
 public:
  trace_parser(std::string_view text, std::string_view name, const trace_options& options)
      : text_{without_mark(text)}, name_{name}, options_{options} {}

  [[nodiscard]] trace run() {
    if (options_.hash_tokens < 1 || options_.hash_tokens > max_trace_tokens) {
      throw usage_error{fmt::format("each of the hash_ids stands for 1 to {} tokens, not {}", max_trace_tokens,
                                    options_.hash_tokens)};
    }
    const std::size_t begin = text_.find_first_not_of(" \t\r\n");
    const bool json = begin != text_.npos && text_[begin] == '{';
    trace result;
    result.name = name_;
    if (json && text_.find("\"input_lens\"") != text_.npos) return read_benchmark(std::move(result));
    require_plain_text(text_, name_, "a header with at least the columns prompt_tokens and output_tokens",
                       json ? max_json_line_bytes : max_line_bytes);
    if (!json) {
      next_line();
      read_header(result);
    }
    while (at_ < text_.size()) {
      next_line();
      if (result.rows.size() == max_trace_rows) {
        fail(1, fmt::format("at most {} rows", max_trace_rows), "another one");
      }
      const row_fields fields = json ? split_object(result) : split_row();
      if (log_ && failed(fields)) {
        ++result.failed;
        continue;
      }
      result.rows.push_back(read_row(fields, result));
    }
    if (result.rows.empty()) {
      throw input_error{name_, position_of(text_, text_.size()), "at least one row after the header",
                        "the end of the file"};
    }
    if (log_ && result.has_arrivals) sort_by_arrival(result.rows);
    return result;
  }

 private:
  using enum trace_columns::column;
  using column = trace_columns::column;
  using column_names = trace_columns::names;
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
    while (c != column_count && (names_[c].empty() || names_[c] != name)) ++c;
    return c;
  }
  static void not_used(trace& result, std::string_view name) {
    if (result.unused.size() == most_unused) return;
    if (std::find(result.unused.begin(), result.unused.end(), name) != result.unused.end()) return;
    result.unused.emplace_back(name);
  }

  void next_line() {
    row_ = take_line(text_, at_);
    ++line_;
  }

  /// The names that the file's own column of prompts belongs to; ours, whatever else there is.
  void take_names_of(std::string_view column) noexcept {
    if (column == trace_columns::own.names[prompt]) {
      use(trace_columns::own);
      ours_ = true;
    }
    if (ours_) return;
    for (const trace_columns::format& f : trace_columns::published) {
      if (column == f.names[prompt]) use(f);
    }
  }
  void use(const trace_columns::format& f) noexcept {
    names_ = f.names;
    unit_ = f.unit;
    log_ = f.log;
    dates_ = f.dates;
  }
  [[nodiscard]] std::string known_names() const {
    std::vector<std::string_view> known;
    for (const std::string_view n : names_) {
      if (!n.empty()) known.push_back(n);
    }
    return fmt::format("{}", fmt::join(known, ", "));
  }

  /// Whether a row of a log has generated nothing, as far as that can be read.
  [[nodiscard]] static bool failed(const row_fields& fields) noexcept {
    const auto none = [](const field& f) { return f.present && f.text.find_first_not_of("0.") == f.text.npos; };
    return none(fields[output]) || none(fields[prompt]);
  }

  static void sort_by_arrival(std::vector<trace_row>& rows) {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const trace_row& a, const trace_row& b) { return a.arrival_s < b.arrival_s; });
  }

  /// The one object that vLLM's benchmark writes.
  [[nodiscard]] trace read_benchmark(trace result) const {
    json_checker checker;
    if (!nlohmann::json::sax_parse(text_, &checker)) {
      const std::size_t offset = std::min(checker.offset, text_.size());
      throw input_error{
          name_, position_of(text_, offset), checker.expected("one JSON object, as vLLM's benchmark saves it"),
          checker.offset >= text_.size() ? "the end of the file: is it truncated?" : shown(checker.token)};
    }
    const nlohmann::json all = nlohmann::json::parse(text_);
    const auto wrong = [&](std::string_view expected, std::string_view found) {
      return input_error{name_, {1, 1}, expected, found};
    };
    const auto column = [&](const char* key) -> const nlohmann::json& {
      const auto at = all.find(key);
      if (at == all.end() || !at->is_array()) {
        throw wrong(fmt::format("an array {} (say --save-detailed to vLLM's benchmark)", key), "none");
      }
      return *at;
    };
    const auto number = [&](const nlohmann::json& list, const char* key, std::size_t i, double most) {
      const nlohmann::json& x = list[i];
      if (!x.is_number() || !(x.get<double>() >= 0 && x.get<double>() <= most)) {
        throw wrong(fmt::format("{}[{}], a number from 0 to {:g}", key, i, most), shown(x.dump()));
      }
      return x.get<double>();
    };
    const nlohmann::json& prompts = column("input_lens");
    const nlohmann::json& outputs = column("output_lens");
    result.has_arrivals = all.contains("start_times");
    const nlohmann::json& starts = result.has_arrivals ? column("start_times") : prompts;
    if (prompts.size() != outputs.size() || prompts.size() != starts.size()) {
      throw wrong("as many output_lens and start_times as input_lens",
                  fmt::format("{}, {} and {}", outputs.size(), starts.size(), prompts.size()));
    }
    for (std::size_t i = 0; i != prompts.size(); ++i) {
      trace_row row;
      row.prompt_tokens = static_cast<std::int64_t>(number(prompts, "input_lens", i, max_trace_tokens));
      row.output_tokens = row.answer_tokens =
          static_cast<std::int64_t>(number(outputs, "output_lens", i, max_trace_tokens));
      row.arrival_s = std::numeric_limits<double>::quiet_NaN();
      if (result.has_arrivals) row.arrival_s = number(starts, "start_times", i, max_trace_seconds);
      if (row.prompt_tokens == 0 || row.output_tokens == 0) {
        ++result.failed;
      } else {
        result.rows.push_back(row);
      }
    }
    if (result.rows.empty()) throw wrong("a request that has generated something", "none");
    if (result.has_arrivals) {
      sort_by_arrival(result.rows);
    } else if (const auto rate = all.find("request_throughput"); rate != all.end() && rate->is_number()) {
      result.own_rate = rate->get<double>();
    }
    for (const auto& [key, value] : all.items()) {
      const bool read = key == "input_lens" || key == "output_lens" || key == "start_times";
      if (value.is_array() && !read) not_used(result, key);
    }
    return result;
  }

  [[nodiscard]] static bool blank(char c) noexcept { return c == ' ' || c == '\t'; }

  /// Calls `take(index, field)` for each field of the line; returns their number.
  template <class Take>
  std::size_t split(Take&& take) const {
    std::size_t index = 0;
    std::size_t begin = 0;
    for (;; ++index) {
      while (begin < row_.size() && blank(row_[begin])) ++begin;
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
        while (end < row_.size() && blank(row_[end])) ++end;
        if (end < row_.size() && row_[end] != ',') {
          fail(end + 1, "a comma after the closing double quote", shown(row_.substr(end)));
        }
      } else {
        end = row_.find(',', begin);
        if (end == row_.npos) end = row_.size();
        f.text = row_.substr(begin, end - begin);
        while (!f.text.empty() && blank(f.text.back())) f.text.remove_suffix(1);
      }
      f.present = !f.text.empty();
      take(index, f);
      if (end >= row_.size()) return index + 1;
      begin = end + 1;
    }
  }

  void read_header(trace& result) {
    split([this](std::size_t, const field& f) { take_names_of(f.text); });
    std::array<bool, column_count> seen{};
    fields_ = split([&](std::size_t, const field& f) {
      const std::size_t c = column_of(f.text);
      column_at_.push_back(c);
      if (c == column_count) return not_used(result, f.text);
      if (seen[c]) fail(f.at, fmt::format("the column {} once", names_[c]), "it again");
      seen[c] = true;
    });
    for (const column needed : {prompt, output}) {
      if (seen[needed] || (needed == output && seen[reasoning] && seen[answer])) continue;
      for (const char other : {';', '\t', '|'}) {
        if (row_.find(',') != row_.npos || row_.find(other) == row_.npos) continue;
        fail(row_.find(other) + 1, "names separated by commas", shown(row_.substr(row_.find(other))));
      }
      fail(1,
           fmt::format(
               "a header with the column {} (known columns: {}; or those of Azure, BurstGPT, ServeGen, Mooncake)",
               names_[needed], known_names()),
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
      fail((at_end ? row_.size() : checker.offset) + 1, checker.expected("a JSON object on each line"),
           row_.empty() ? std::string{"an empty line"}
           : at_end     ? std::string{"the end of the line"}
                        : shown(checker.token));
    }
    if (const std::size_t first = row_.find_first_not_of(" \t"); row_[first] != '{') {
      fail(first + 1, "a JSON object on each line", shown(row_.substr(first)));
    }
    const json_locator object{row_};
    if (result.rows.empty()) {
      object.members([this](std::string_view key, const json_locator::place&) { take_names_of(key); });
    }
    row_fields fields{};
    std::array<bool, column_count> seen{};
    object.members([&](std::string_view key, const json_locator::place& at) {
      const std::size_t c = column_of(key);
      if (c == column_count) return not_used(result, key);
      if (seen[c]) fail(at.key + 1, fmt::format("the key {} once", key), "it again");
      seen[c] = true;
      field f{.text = row_.substr(at.value, at.end - at.value), .at = at.value + 1, .present = true};
      const bool text = c == session || c == tenant || (c == arrival && dates_);
      if (text && f.text.front() == '"') f.text = f.text.substr(1, f.text.size() - 2);
      f.present = !f.text.empty() && f.text != "null";
      fields[c] = f;
    });
    for (const column needed : {prompt, output}) {
      const bool follows = needed == output && fields[reasoning].present && fields[answer].present;
      if (fields[needed].present || follows) continue;
      fail(1, fmt::format("an object with the key {} (known keys: {})", names_[needed], known_names()), shown(row_));
    }
    return fields;
  }

  [[nodiscard]] trace_row read_row(const row_fields& fields, trace& result) {
    trace_row row;
    row.prompt_tokens = number(fields[prompt], prompt, 1);
    if (fields[ratio].present) return read_with_ratio(fields, row, result);
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
    if (fields[tenant].present) read_tenant(fields[tenant], row, result);
    read_arrival(fields[arrival], later, row, result);
    if (fields[hashes].present) read_hashes(fields[hashes], row, result);
    if (fields[score].present) {
      row.score = static_cast<float>(real(fields[score], score, -1e30, 1e30));
      result.has_scores = true;
    }
    result.has_reasoning = result.has_reasoning || row.reasoning_tokens > 0;
    return row;
  }

  [[nodiscard]] trace_row read_with_ratio(const row_fields& fields, trace_row row, trace& result) const {
    row.output_tokens = number(fields[output], output, 1);
    const double part = real(fields[ratio], ratio, 0, 1);
    row.reasoning_tokens = std::llround(part * static_cast<double>(row.output_tokens));
    row.answer_tokens = row.output_tokens - row.reasoning_tokens;
    read_arrival(fields[arrival], false, row, result);
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
    if (fields[tool].present) {
      if (!fields[session].present) fail(fields[tool].at, "a session beside calls_tool", shown(fields[tool].text));
      const std::string_view said = fields[tool].text;
      row.calls_tool = said == "1" || said == "true";
      if (!row.calls_tool && said != "0" && said != "false") fail(fields[tool].at, "calls_tool, 0 or 1", shown(said));
    }
    return later;
  }

  void read_tenant(const field& f, trace_row& row, trace& result) {
    const auto number = static_cast<std::int32_t>(tenants_.size());
    row.tenant = tenants_.try_emplace(std::string{f.text}, number).first->second;
    if (row.tenant == max_tenants) fail(f.at, fmt::format("at most {} tenants", max_tenants), shown(f.text));
    result.has_tenants = true;
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
    row.arrival_s = dates_ ? date(f) : real(f, arrival, 0, max_trace_seconds * unit_) / unit_;
    if (!log_ && row.arrival_s < before_s) {
      fail(f.at,
           fmt::format("{} {} not before that of the row above, {}", unit_ == 1 ? "an" : "a", names_[arrival],
                       before_s * unit_),
           shown(f.text));
    }
  }

  /// `2023-11-16 18:17:03.9799600`, in seconds; a zone behind it is not looked at, as all rows have the same.
  [[nodiscard]] double date(const field& f) const {
    const auto part = [&](std::size_t at, std::size_t size, int& x) {
      if (f.text.size() < at + size) return false;
      const char* const from = f.text.data() + at;
      const auto [stop, failure] = std::from_chars(from, from + size, x);
      return failure == std::errc{} && stop == from + size && x >= 0;
    };
    int year = 0, month = 0, day = 0, hour = 0, minute = 0;
    bool good = part(0, 4, year) && part(5, 2, month) && part(8, 2, day) && part(11, 2, hour) && part(14, 2, minute) &&
                f.text[4] == '-' && f.text[7] == '-' && (f.text[10] == ' ' || f.text[10] == 'T') && f.text[13] == ':' &&
                f.text.size() > 17 && f.text[16] == ':' && year >= 1970 && hour < 24 && minute < 60;
    double second = 0;
    std::string_view rest;
    if (good) {
      const char* const end = f.text.data() + f.text.size();
      const auto [stop, failure] = std::from_chars(f.text.data() + 17, end, second, std::chars_format::fixed);
      rest = {stop, static_cast<std::size_t>(end - stop)};
      good = failure == std::errc{} && second >= 0 && second < 61;
    }
    const std::chrono::year_month_day when{std::chrono::year{year}, std::chrono::month{static_cast<unsigned>(month)},
                                           std::chrono::day{static_cast<unsigned>(day)}};
    const bool zone = rest.empty() || rest == "Z" || rest.front() == '+' || rest.front() == '-';
    if (!good || !when.ok() || !zone) {
      fail(f.at, fmt::format("{}, a date and a time as 2023-11-16 18:17:03.97", names_[arrival]), shown(f.text));
    }
    const auto days = std::chrono::sys_days{when}.time_since_epoch().count();
    return static_cast<double>(days) * 86400 + hour * 3600 + minute * 60 + second;
  }

  /// Numbers between brackets, or none, with commas or spaces between them.
  void read_hashes(const field& f, trace_row& row, trace& result) const {
    const std::int64_t expected = (row.prompt_tokens - 1) / options_.hash_tokens + 1;
    const auto wrong = [&](std::size_t at, std::string_view found) {
      fail(f.at + at,
           fmt::format("hash_ids, {} whole numbers: one for each {} of {} tokens (--hash-tokens says of how many)",
                       expected, options_.hash_tokens, row.prompt_tokens),
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
  column_names names_ = trace_columns::own.names;
  double unit_ = trace_columns::own.unit;
  bool log_ = trace_columns::own.log;
  bool dates_ = trace_columns::own.dates;
  bool ours_ = false;                   ///< The file has our own column of prompts.
  std::vector<std::size_t> column_at_;  ///< For each field of a row: its column, or `column_count` for an extra one.
  std::unordered_map<std::string, std::int64_t> sessions_;
  std::unordered_map<std::string, std::int32_t> tenants_;
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

/// Sentences about what nothing is made of, columns and rows, each ending in a newline; empty if there is nothing.
[[nodiscard]] inline std::string describe_unused(const trace& t) {
  std::string out;
  if (!t.unused.empty()) {
    std::vector<std::string> names;
    for (const std::string& name : t.unused) names.push_back(shown(name));
    out += fmt::format("Columns of {} that are not used: {}\n", t.name, fmt::join(names, ", "));
  }
  if (t.failed != 0) out += fmt::format("Rows of {} that generate nothing, and are left out: {}\n", t.name, t.failed);
  return out;
}

}  // namespace sim
TESSERA_NAMESPACE_END
