// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/formats/formats.hpp>
#include <tessera/sim/input/input.hpp>
#include <tessera/sim/input/json_text.hpp>
#include <tessera/sim/input/trace_clock.hpp>
#include <tessera/sim/input/trace_data.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

/// @file
/// Turns the fields of records, from any file, into the rows of a trace.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

/// One record: its fields by meaning.
struct trace_record {
  std::array<trace_field, column_count> fields{};
  std::size_t at = 0;   ///< Its offset in the text.
  std::size_t end = 0;  ///< One past it.
  bool failed = false;  ///< Its status says so.
  bool other = false;   ///< It is not a request.

  [[nodiscard]] trace_field& operator[](column c) noexcept { return fields[static_cast<std::size_t>(c)]; }
  [[nodiscard]] const trace_field& operator[](column c) const noexcept { return fields[static_cast<std::size_t>(c)]; }
};

/// Makes rows from records. Offsets of fields are in the text given at construction, for messages.
class trace_builder {
 public:
  trace_builder(std::string_view text, const trace_options& options, trace& result)
      : text_{text}, options_{options}, result_{result}, clock_{text, result.name} {
    if (options.hash_tokens && (*options.hash_tokens < 1 || *options.hash_tokens > max_trace_tokens)) {
      throw usage_error{fmt::format("each of the hash_ids stands for 1 to {} tokens, not {}", max_trace_tokens,
                                    *options.hash_tokens)};
    }
  }

  /// Records have this format from now on.
  void use(const trace_format& f) {
    format_ = &f;
    hash_tokens_ = options_.hash_tokens.value_or(f.hash_tokens);
    result_.read_as = f.whose;
    known_.clear();
  }

  /// The meaning of a name in the file: a column of the format, or nothing. The reference stays valid.
  [[nodiscard]] const trace_name& know(std::string_view name) {
    const auto at = known_.find(name);
    if (at != known_.end()) return at->second;
    trace_name known{.name = std::string{name}};
    const std::string plain = normalised(name);
    for (std::size_t i = 0; i != format_->names.size() && known.is == nullptr; ++i) {
      if (format_->names[i].name == plain) {
        known.is = &format_->names[i];
        known.rank = i;
      }
    }
    return known_.emplace(std::string{name}, std::move(known)).first->second;
  }

  /// Records that the column with this name is not used.
  void not_used(std::string_view name) {
    constexpr std::size_t most = 64;
    if (result_.unused.size() == most) return;
    if (std::find(result_.unused.begin(), result_.unused.end(), name) != result_.unused.end()) return;
    result_.unused.emplace_back(name);
  }

  /// Adds a field to a record; an empty field says where it would be. `index`: its place in an array, or -1.
  void put(trace_record& r, const trace_name& name, std::string_view text, std::size_t at, std::int64_t index = -1) {
    using enum column;
    switch (name.is->is) {
      case status: r.failed = r.failed || is_failure(text); return;
      case span_status: r.failed = r.failed || text == "2" || is_failure(text); return;
      case error: r.failed = r.failed || !is_nothing(text); return;
      case succeeded: r.failed = r.failed || (!text.empty() && is_nothing(text)); return;
      case kind: r.other = r.other || !is_request(text); return;
      default: break;
    }
    trace_field& f = r[name.is->is];
    if (f.name != nullptr && f.name->rank == name.rank && index < 0) {
      fail(f.at < at ? at : f.at, fmt::format("{} once", name.name), "it again");
    }
    if (f.name != nullptr && f.present && (text.empty() || f.name->rank < name.rank)) return not_used(name.name);
    if (f.present) not_used(f.name->name);
    f = {.text = text, .at = at, .name = &name, .index = index, .present = !text.empty()};
  }

  /// Completes a record. @param json its names may be missing.
  void add(const trace_record& r, bool json) {
    using enum column;
    if (r.other) return void(++result_.left_out.others);
    if (r.failed) return void(++result_.left_out.failed);
    if (result_.rows.size() == max_trace_rows)
      fail(r.at, fmt::format("at most {} rows", max_trace_rows), "another one");
    trace_row row;
    trace_record parts;
    std::array<std::string, 3> sums;
    if (r[usage].present && !r[prompt].present && !r[output].present) {
      parts = r;
      add_up(parts, sums);
    }
    const trace_record& all = parts.end != 0 ? parts : r;
    const bool no_output = !all[output].present && !(all[reasoning].present && all[answer].present);
    if (format_->sparse && !all[prompt].present && no_output) return void(++result_.left_out.others);
    const bool none = !all[output].present && is_zero(all[reasoning]) && is_zero(all[answer]);
    if (is_zero(all[output]) || none) return void(++result_.left_out.no_output);
    if (is_zero(all[prompt])) return void(++result_.left_out.no_prompt);
    if (json) {
      require_key(all, prompt, all[prompt].present);
      require_key(all, output, !no_output);
    }
    read_lengths(all, row);
    read_session(all, row);
    if (all[hashes].present) read_hashes(all[hashes], row);
    if (all[score].present) {
      row.score = static_cast<float>(real(all[score], score, -1e30, 1e30));
      result_.has_scores = true;
    }
    if (result_.rows.empty()) result_.has_arrivals = all[arrival].present;
    row.arrival_s = read_arrival(all, row.session);
    result_.rows.push_back(std::move(row));
  }

  /// Counts `n` failed records, which are left out.
  void add_failed(std::size_t n) noexcept { result_.left_out.failed += n; }

  /// Ends the trace. @throws input_error there is no record, or the unit of the arrivals is unknown
  void finish() {
    if (result_.rows.empty()) {
      const std::string out = describe(result_.left_out);
      fail(text_.size(), "at least one request",
           out.empty() ? "the end of the file" : fmt::format("only rows that are left out: {}", out));
    }
    if (result_.has_arrivals) {
      const double unit = clock_.unit(options_.unit, format_->whole_unit, result_);
      for (trace_row& row : result_.rows) row.arrival_s /= unit;
      for (row_origin& o : origins_) o.ended /= unit;
      fill_later_turns();
      sort_by_arrival();
    } else if (options_.unit != time_unit::told) {
      throw usage_error{fmt::format("--time-unit goes with arrivals, and {} has none", result_.name)};
    }
    link_sessions();
    number_sessions();
  }

  [[noreturn]] void fail(std::size_t at, std::string_view expected, std::string_view found) const {
    throw input_error{result_.name, position_of(text_, at), expected, found};
  }

 private:
  /// A row's references to other rows; kept if the format has such columns.
  struct row_origin {
    double ended = std::numeric_limits<double>::quiet_NaN();
    std::int64_t id = -1;
    std::int64_t parent = -1;
    bool begins = false;  ///< It begins a session.
  };

  [[nodiscard]] static bool is_nothing(std::string_view text) {
    for (const std::string_view none : {"", "0", "false", "null", "none", "nan", "no", "{}", "[]"}) {
      if (text.size() == none.size() && normalised(text) == none) return true;
    }
    return false;
  }
  /// An HTTP status of 400 or more, or a word for a failure.
  [[nodiscard]] static bool is_failure(std::string_view text) {
    int code = 0;
    const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), code);
    if (failure == std::errc{} && stop == text.data() + text.size()) return code >= 400;
    const std::string plain = normalised(text);
    for (const std::string_view word : {"fail", "error", "cancel", "abort", "timeout", "timed_out", "reject"}) {
      if (plain.find(word) != plain.npos) return true;
    }
    return false;
  }
  [[nodiscard]] bool is_request(std::string_view text) const {
    const std::string plain = normalised(text);
    if (!format_->kinds.empty()) {
      return std::find(format_->kinds.begin(), format_->kinds.end(), plain) != format_->kinds.end();
    }
    return std::find(format_->others.begin(), format_->others.end(), plain) == format_->others.end();
  }
  [[nodiscard]] static bool is_zero(const trace_field& f) noexcept {
    return f.present && f.text.front() == '0' && f.text.find_first_not_of("0.") == f.text.npos;
  }

  /// The names that the format has for a column.
  [[nodiscard]] std::string names_of(column c) const {
    std::vector<std::string_view> names;
    for (const column_name& n : format_->names) {
      if (n.is == c) names.push_back(n.name);
    }
    return fmt::format("{}", fmt::join(names, " or "));
  }
  void require_key(const trace_record& r, column c, bool there) const {
    if (there) return;
    fail(r.at, fmt::format("an object with the key {}", names_of(c)), shown(text_.substr(r.at, r.end - r.at)));
  }
  /// The name in the file, or the first name of the format.
  [[nodiscard]] std::string name_of(const trace_field& f, column c) const {
    if (f.name != nullptr) return f.said();
    for (const column_name& n : format_->names) {
      if (n.is == c) return std::string{n.name};
    }
    return "a field";
  }

  /// Prompt, output and reasoning from an object of parts, as `{"input": 5, "input_cached_tokens": 3, "output": 7}`.
  void add_up(trace_record& r, std::array<std::string, 3>& sums) const {
    const trace_field whole = r[column::usage];
    std::string object{whole.text};
    const bool doubled = object.rfind("{\"\"", 0) == 0;  // as in CSV
    for (std::size_t quote = 0; doubled && (quote = object.find("\"\"", quote)) != object.npos; ++quote) {
      object.erase(quote, 1);
    }
    const auto parsed = nlohmann::json::parse(object, nullptr, false);
    if (!parsed.is_object()) fail(whole.at, fmt::format("{}, an object of counts", whole.said()), shown(whole.text));
    std::array<double, 3> sum{};
    std::array<bool, 3> has{};
    for (const auto& [key, value] : parsed.items()) {
      const std::string plain = normalised(key);
      if (!value.is_number()) continue;
      const std::array<bool, 3> part{plain.rfind("input", 0) == 0, plain.rfind("output", 0) == 0,
                                     plain.rfind("output_reasoning", 0) == 0};
      for (std::size_t i = 0; i != 3; ++i) {
        if (part[i]) sum[i] += value.get<double>();
        has[i] = has[i] || part[i];
      }
    }
    constexpr std::array<column, 3> columns{column::prompt, column::output, column::reasoning};
    for (std::size_t i = 0; i != 3; ++i) {
      if (!has[i]) continue;
      sums[i] = fmt::format("{:.0f}", sum[i]);
      r[columns[i]] = {.text = sums[i], .at = whole.at, .name = whole.name, .index = -1, .present = true};
    }
  }

  void read_lengths(const trace_record& r, trace_row& row) {
    using enum column;
    row.prompt_tokens = number(r[prompt], prompt, 1);
    const trace_field& thought = r[reasoning];
    const trace_field& said = r[answer];
    if (thought.present) row.reasoning_tokens = number(thought, reasoning, 0);
    if (said.present) row.answer_tokens = number(said, answer, 0);
    const bool both = thought.present && said.present;
    if (both && !r[output].present) {
      row.output_tokens = row.reasoning_tokens + row.answer_tokens;
      if (row.output_tokens > max_trace_tokens) {
        fail(said.at, fmt::format("reasoning_tokens + answer_tokens from 1 to {}", max_trace_tokens),
             fmt::format("{}", row.output_tokens));
      }
    } else {
      row.output_tokens = number(r[output], output, 1);
    }
    if (both) {
      if (row.reasoning_tokens + row.answer_tokens != row.output_tokens) {
        fail(said.at, fmt::format("reasoning_tokens + answer_tokens = output_tokens = {}", row.output_tokens),
             fmt::format("{} + {}", row.reasoning_tokens, row.answer_tokens));
      }
    } else if (thought.present) {
      row.answer_tokens = rest(thought, reasoning, row.output_tokens, row.reasoning_tokens);
    } else if (said.present) {
      row.reasoning_tokens = rest(said, answer, row.output_tokens, row.answer_tokens);
    } else {
      const double part = r[ratio].present ? real(r[ratio], ratio, 0, 1) : 0;
      row.reasoning_tokens = std::llround(part * static_cast<double>(row.output_tokens));
      row.answer_tokens = row.output_tokens - row.reasoning_tokens;
    }
    result_.has_reasoning = result_.has_reasoning || row.reasoning_tokens > 0;
  }

  void read_session(const trace_record& r, trace_row& row) {
    using enum column;
    if (r[session].present) {
      const auto next = static_cast<std::int64_t>(sessions_.size());
      row.session = sessions_.try_emplace(std::string{r[session].text}, next).first->second;
    }
    if (r[think].present) {
      if (row.session < 0) fail(r[think].at, fmt::format("a session beside {}", r[think].said()), shown(r[think].text));
      const double unit = r[think].name->is->unit;
      row.think_s = real(r[think], think, 0, max_trace_seconds) / unit;
    }
    if (r[tool].present) {
      if (row.session < 0) fail(r[tool].at, "a session beside calls_tool", shown(r[tool].text));
      const std::string_view said = r[tool].text;
      row.calls_tool = said == "1" || said == "true";
      if (!row.calls_tool && said != "0" && said != "false") fail(r[tool].at, "calls_tool, 0 or 1", shown(said));
    }
    if (r[tenant].present) {
      const auto number = static_cast<std::int32_t>(tenants_.size());
      row.tenant = tenants_.try_emplace(std::string{r[tenant].text}, number).first->second;
      if (row.tenant == max_tenants) {
        fail(r[tenant].at, fmt::format("at most {} tenants", max_tenants), shown(r[tenant].text));
      }
      result_.has_tenants = true;
    }
    if (!r[id].present && !r[ended].present && !r[turn].present) return;
    origins_.resize(result_.rows.size() + 1);
    row_origin& o = origins_.back();
    const auto named = [&](const trace_field& f) {
      return ids_.try_emplace(std::string{f.text}, static_cast<std::int64_t>(ids_.size())).first->second;
    };
    if (r[id].present) o.id = named(r[id]);
    if (r[parent].present) o.parent = named(r[parent]);
    if (r[ended].present) o.ended = real(r[ended], ended, 0, 5e18);
    if (r[turn].present) o.begins = number(r[turn], turn, 0) == 0;
  }

  /// In the unit of the file; NaN if there is none.
  [[nodiscard]] double read_arrival(const trace_record& r, std::int64_t session) {
    const trace_field& f = r[column::arrival];
    const auto at = static_cast<std::size_t>(session);
    if (session >= 0 && at >= begun_.size()) begun_.resize(at + 1, false);
    const bool later = session >= 0 && begun_[at];
    if (session >= 0) begun_[at] = true;
    if (!result_.has_arrivals) {
      if (f.present) fail(f.at, fmt::format("an empty {}, as in the rows above", f.said()), shown(f.text));
      return std::numeric_limits<double>::quiet_NaN();
    }
    if (later && !f.present) return std::numeric_limits<double>::quiet_NaN();
    return clock_.read(f, name_of(f, column::arrival), f.name != nullptr ? f.at : r.at);
  }

  /// A later turn without an arrival may come at any time after the row above, and after its session's last turn.
  void fill_later_turns() {
    std::vector<double> last(begun_.size(), 0.0);
    double before = 0;
    for (trace_row& row : result_.rows) {
      if (row.session >= 0) {
        double& turn_before = last[static_cast<std::size_t>(row.session)];
        if (std::isnan(row.arrival_s)) row.arrival_s = std::max(before, turn_before);
        turn_before = std::max(turn_before, row.arrival_s);
      }
      before = row.arrival_s;
    }
  }

  void sort_by_arrival() {
    std::vector<trace_row>& rows = result_.rows;
    double latest = 0;
    for (const trace_row& row : rows) {
      if (row.arrival_s < latest) ++result_.out_of_order;
      latest = std::max(latest, row.arrival_s);
    }
    if (result_.out_of_order == 0) return;
    std::vector<std::size_t> order(rows.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return rows[a].arrival_s < rows[b].arrival_s; });
    std::vector<trace_row> sorted;
    std::vector<row_origin> origins;
    sorted.reserve(rows.size());
    origins_.resize(origins_.empty() ? 0 : rows.size());
    for (const std::size_t i : order) {
      sorted.push_back(std::move(rows[i]));
      if (!origins_.empty()) origins.push_back(origins_[i]);
    }
    rows = std::move(sorted);
    origins_ = std::move(origins);
  }

  /// Sets the sessions of rows that name their predecessor, or that count their turns, and the pauses if ends are
  /// known. If a row's parent has been continued already, it begins a session: two continuations of one answer do not
  /// wait for each other.
  void link_sessions() {
    if (origins_.empty()) return;
    origins_.resize(result_.rows.size());
    std::vector<std::int64_t> session_of(ids_.size(), -1);  // By id; -1 as well once it is continued.
    std::vector<std::int64_t> current(sessions_.size(), -1);
    std::unordered_map<std::int64_t, double> ended;
    std::int64_t next = 0;
    for (std::size_t i = 0; i != origins_.size(); ++i) {
      trace_row& row = result_.rows[i];
      const row_origin& o = origins_[i];
      if (o.id >= 0) {
        std::int64_t before = -1;
        if (o.parent >= 0) std::swap(before, session_of[static_cast<std::size_t>(o.parent)]);
        row.session = before >= 0 ? before : next++;
        session_of[static_cast<std::size_t>(o.id)] = row.session;
      } else if (row.session >= 0) {
        std::int64_t& is = current[static_cast<std::size_t>(row.session)];
        if (is < 0 || o.begins) is = next++;
        row.session = is;
      }
      if (row.session < 0 || std::isnan(o.ended)) continue;
      const auto [at, first] = ended.try_emplace(row.session, o.ended);
      if (!first) row.think_s = std::max(0.0, row.arrival_s - std::exchange(at->second, o.ended));
    }
  }

  /// Numbers the sessions in the order in which they begin.
  void number_sessions() {
    std::unordered_map<std::int64_t, std::int64_t> numbers;
    for (trace_row& row : result_.rows) {
      if (row.session < 0) continue;
      const auto [at, first] = numbers.try_emplace(row.session, static_cast<std::int64_t>(numbers.size()));
      row.session = at->second;
      result_.has_sessions = result_.has_sessions || !first;
    }
  }

  /// Numbers between brackets, or none, with commas or blanks between them.
  void read_hashes(const trace_field& f, trace_row& row) {
    const std::int64_t expected = (row.prompt_tokens - 1) / hash_tokens_ + 1;
    const auto wrong = [&](std::size_t at, std::string_view found) {
      fail(f.at + at,
           fmt::format("hash_ids, {} whole numbers: one for each {} of {} tokens (--hash-tokens says of how many)",
                       expected, hash_tokens_, row.prompt_tokens),
           found);
    };
    std::string_view list = f.text;
    std::size_t at = 0;
    if (!list.empty() && list.front() == '[') {
      if (list.back() != ']') wrong(0, shown(list));
      list = list.substr(0, list.size() - 1);
      at = 1;
    }
    for (std::int64_t left = row.prompt_tokens; (at = list.find_first_not_of(", \t\r\n", at)) != list.npos;) {
      std::uint64_t id = 0;
      const char* const end = list.data() + list.size();
      const auto [stop, failure] = std::from_chars(list.data() + at, end, id);
      const bool ends = stop == end || std::string_view{", \t\r\n"}.find(*stop) != std::string_view::npos;
      if (failure != std::errc{} || (id >> 63U) != 0 || !ends) wrong(at, shown(list.substr(at)));
      if (left <= 0) wrong(at, "another");
      row.runs.push_back({id, left < hash_tokens_ ? left : hash_tokens_});
      left -= hash_tokens_;
      at = static_cast<std::size_t>(stop - list.data());
    }
    if (static_cast<std::int64_t>(row.runs.size()) != expected) wrong(0, fmt::format("{}", row.runs.size()));
    result_.has_prefixes = true;
  }

  [[nodiscard]] std::int64_t rest(const trace_field& f, column c, std::int64_t whole, std::int64_t part) const {
    if (part > whole) fail(f.at, fmt::format("{} of at most output_tokens = {}", name_of(f, c), whole), shown(f.text));
    return whole - part;
  }

  /// A whole number, also as `12.0`.
  [[nodiscard]] std::int64_t number(const trace_field& f, column c, std::int64_t least) const {
    std::int64_t value = 0;
    const char* const end = f.text.data() + f.text.size();
    const auto [stop, failure] = std::from_chars(f.text.data(), end, value);
    const std::string_view behind{stop, static_cast<std::size_t>(end - stop)};
    const bool whole = behind.empty() || (behind.front() == '.' && behind.find_first_not_of(".0") == behind.npos);
    if (!f.present || failure != std::errc{} || !whole || value < least || value > max_trace_tokens) {
      fail(f.at, fmt::format("{}, a whole number from {} to {}", name_of(f, c), least, max_trace_tokens),
           shown(f.text));
    }
    return value;
  }

  [[nodiscard]] double real(const trace_field& f, column c, double least, double most) const {
    double value = 0;
    const char* const end = f.text.data() + f.text.size();
    const auto [stop, failure] = std::from_chars(f.text.data(), end, value);
    // Written so that NaN fails.
    if (!f.present || failure != std::errc{} || stop != end || !(value >= least && value <= most)) {
      fail(f.at, fmt::format("{}, a number from {:g} to {:g}", name_of(f, c), least, most), shown(f.text));
    }
    return value;
  }

  std::string_view text_;
  const trace_options& options_;
  trace& result_;
  trace_clock clock_;
  const trace_format* format_ = &own_format;
  std::int64_t hash_tokens_ = 512;
  std::map<std::string, trace_name, std::less<>> known_;
  std::unordered_map<std::string, std::int64_t> sessions_;
  std::unordered_map<std::string, std::int64_t> ids_;
  std::unordered_map<std::string, std::int32_t> tenants_;
  std::vector<bool> begun_;  ///< By session.
  std::vector<row_origin> origins_;
};

}  // namespace sim::detail
TESSERA_NAMESPACE_END
