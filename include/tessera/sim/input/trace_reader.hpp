// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/input.hpp>
#include <tessera/sim/input/json_text.hpp>
#include <tessera/sim/input/trace_builder.hpp>
#include <tessera/sim/input/trace_data.hpp>
#include <tessera/sim/input/trace_format_of.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// Reads records from the text of a trace: rows of CSV, or objects of JSON, wherever they are.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

/// Reads the rows of a CSV file.
class trace_csv {
 public:
  trace_csv(std::string_view text, trace_builder& rows) : text_{text}, rows_{rows} {}

  /// Passes all rows to the builder.
  void run() {
    read_header();
    while (at_ < text_.size()) read_row();
  }

 private:
  struct field {
    std::string_view text;
    std::size_t at;
  };

  [[nodiscard]] static bool blank(char c) noexcept { return c == ' ' || c == '\t'; }
  [[nodiscard]] static bool line_end(char c) noexcept { return c == '\n' || c == '\r'; }

  /// Reads the next record into `fields_`. A field in double quotes may span lines.
  void split() {
    fields_.clear();
    begin_ = at_;
    for (;;) {
      while (at_ < text_.size() && blank(text_[at_])) ++at_;
      field f{.text = {}, .at = at_};
      if (at_ < text_.size() && text_[at_] == '"') {
        std::size_t quote = at_ + 1;
        for (;; quote += 2) {
          quote = text_.find('"', quote);
          if (quote == text_.npos) rows_.fail(at_, "a closing double quote", shown(text_.substr(at_)));
          if (quote + 1 >= text_.size() || text_[quote + 1] != '"') break;
        }
        f.text = text_.substr(at_ + 1, quote - at_ - 1);
        at_ = quote + 1;
        while (at_ < text_.size() && blank(text_[at_])) ++at_;
        if (at_ < text_.size() && text_[at_] != ',' && !line_end(text_[at_])) {
          std::size_t line = at_;
          rows_.fail(at_, "a comma after the closing double quote", shown(take_line(text_, line)));
        }
      } else {
        std::size_t end = at_;
        while (end < text_.size() && text_[end] != ',' && !line_end(text_[end])) ++end;
        f.text = text_.substr(at_, end - at_);
        while (!f.text.empty() && blank(f.text.back())) f.text.remove_suffix(1);
        at_ = end;
      }
      fields_.push_back(f);
      if (at_ >= text_.size() || text_[at_] != ',') break;
      ++at_;
    }
    end_ = at_;
    static_cast<void>(take_line(text_, at_));  // the end of the line
  }
  [[nodiscard]] bool empty() const noexcept { return fields_.size() == 1 && fields_[0].text.empty() && begin_ == end_; }

  void read_header() {
    split();
    std::vector<std::string> names;
    for (const field& f : fields_) names.push_back(normalised(f.text));
    const std::string_view line = text_.substr(begin_, end_ - begin_);
    rows_.use(format_of(
        "a header", names, [](const trace_format& f) { return f.within.empty() && !f.table; },
        [&](std::string_view expected) {
          for (const char other : {';', '\t', '|'}) {
            if (line.find(',') != line.npos || line.find(other) == line.npos) continue;
            rows_.fail(line.find(other), "names separated by commas", shown(line.substr(line.find(other))));
          }
          rows_.fail(begin_, expected, empty() ? std::string{"an empty line"} : shown(line));
        }));
    // If several names stand for one column, the first of the format counts.
    std::array<const trace_name*, column_count> best{};
    for (const field& f : fields_) {
      const trace_name& name = rows_.know(f.text);
      known_.push_back(&name);
      if (name.is == nullptr) continue;
      const trace_name*& b = best[static_cast<std::size_t>(name.is->is)];
      if (b == nullptr || name.rank < b->rank) b = &name;
    }
    for (std::size_t i = 0; i != known_.size(); ++i) {
      const trace_name*& known = known_[i];
      for (std::size_t k = 0; k != i && known->is != nullptr; ++k) {
        if (known_[k] != nullptr && known_[k]->is != nullptr && known_[k]->rank == known->rank) {
          rows_.fail(fields_[i].at, fmt::format("the column {} once", known->name), "it again");
        }
      }
      const bool taken = known->is != nullptr && (reads_all(known->is->is) ||
                                                  best[static_cast<std::size_t>(known->is->is)]->rank == known->rank);
      if (taken) continue;
      rows_.not_used(fields_[i].text);
      known = nullptr;
    }
  }
  /// Whether several columns may have this meaning, and each counts.
  [[nodiscard]] static bool reads_all(column c) noexcept {
    return c == column::status || c == column::error || c == column::succeeded;
  }

  void read_row() {
    split();
    if (fields_.size() < known_.size() || empty()) {
      rows_.fail(end_, fmt::format("{} fields, as in the header", known_.size()),
                 empty() ? std::string{"an empty line"} : fmt::format("the end of the line after {}", fields_.size()));
    }
    if (fields_.size() > known_.size()) {
      const field& f = fields_[known_.size()];
      rows_.fail(f.at, fmt::format("{} fields, as in the header", known_.size()), "another " + shown(f.text));
    }
    trace_record r;
    r.at = begin_;
    r.end = end_;
    for (std::size_t i = 0; i != fields_.size(); ++i) {
      if (known_[i] != nullptr) rows_.put(r, *known_[i], fields_[i].text, fields_[i].at);
    }
    rows_.add(r, false);
  }

  std::string_view text_;
  trace_builder& rows_;
  std::size_t at_ = 0;
  std::size_t begin_ = 0;  ///< Begin of the record.
  std::size_t end_ = 0;    ///< One past its last field.
  std::vector<field> fields_;
  std::vector<const trace_name*> known_;  ///< By field; null: not used.
};

/// Reads the records of JSON: an object on each line, objects or arrays of objects one after the other, or documents
/// that hold such arrays.
class trace_json {
 public:
  trace_json(std::string_view text, trace_builder& rows, const trace_options& options, trace& result)
      : text_{text}, rows_{rows}, options_{options}, result_{result}, places_{text} {}

  /// Passes all records to the builder.
  void run() {
    const std::size_t first = text_.find_first_not_of(" \t\r\n");
    std::size_t at = first;
    std::string_view line = take_line(text_, at);
    line = line.substr(0, line.find_last_not_of(" \t") + 1);
    // If the first line is incomplete, the text is a document.
    if (line.front() == '[' || std::string_view{"{[,:"}.find(line.back()) != std::string_view::npos) {
      read_documents(first);
    } else {
      read_lines();
    }
    if (format_ != nullptr && format_->runs) read_run();
  }

 private:
  using place = json_locator::place;

  void read_lines() {
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t begin = at;
      const std::string_view line = take_line(text_, at);
      json_checker checker;
      if (!nlohmann::json::sax_parse(line, &checker)) {
        const bool at_end = checker.offset >= line.size();
        rows_.fail(begin + (at_end ? line.size() : checker.offset), checker.expected("a JSON object on each line"),
                   line.empty() ? std::string{"an empty line"}
                   : at_end     ? std::string{"the end of the line"}
                                : shown(checker.token));
      }
      const std::size_t value = line.find_first_not_of(" \t");
      if (line[value] != '{') rows_.fail(begin + value, "a JSON object on each line", shown(line.substr(value)));
      read_object({begin + value, begin + value, begin + line.size()});
    }
  }

  void read_documents(std::size_t at) {
    while (at < text_.size()) {
      if (text_[at] != '{' && text_[at] != '[') {
        rows_.fail(at, "a JSON object or an array of objects", shown(text_.substr(at)));
      }
      const std::size_t end = end_of_value(at);
      const std::string_view value = text_.substr(at, end - at);
      json_checker checker;
      if (!nlohmann::json::sax_parse(value, &checker)) {
        const bool at_end = checker.offset >= value.size() && end == text_.size();
        rows_.fail(at + checker.offset, checker.expected("JSON"),
                   at_end ? "the end of the file: is it truncated?" : shown(checker.token));
      }
      read_value({at, at, end});
      at = std::min(text_.find_first_not_of(" \t\r\n", end), text_.size());
    }
  }

  /// One past the value that begins here, if it is JSON.
  [[nodiscard]] std::size_t end_of_value(std::size_t at) const noexcept {
    std::size_t depth = 0;
    bool quoted = false;
    for (; at < text_.size(); ++at) {
      const char c = text_[at];
      if (quoted) {
        if (c == '\\') ++at;
        quoted = c != '"';
      } else if (c == '"') {
        quoted = true;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (c == '}' || c == ']') {
        if (--depth == 0) return at + 1;
      }
    }
    return text_.size();
  }

  void read_value(const place& value) {
    if (text_[value.value] == '{') return read_object(value);
    places_.each(value, [&](std::size_t, const place& element) { read_object(element); });
  }

  void read_object(const place& object) {
    if (text_[object.value] != '{') rows_.fail(object.value, "a JSON object", shown(said(object)));
    if (format_ == nullptr) use(object);
    if (format_->table) {
      runs_.push_back(object);
    } else if (!format_->within.empty()) {
      walk(object, format_->within, 0);
    } else if (listed_) {
      walk(object, "data", 0);
    } else if (format_->runs) {
      runs_.push_back(object);
    } else {
      read_record(object);
    }
  }

  /// The format of a file that begins with this object.
  void use(const place& object) {
    place record = object;
    const place* data = text_of(object, "data");
    listed_ = data != nullptr && text_[data->value] == '[';
    if (listed_) {
      const place list = *data;
      bool any = false;
      places_.each(list, [&](std::size_t, const place& element) {
        if (!std::exchange(any, true)) record = element;
      });
      if (!any) rows_.fail(list.value, "an array of objects", "an empty one");
      listed_ = text_[record.value] == '{';
      if (!listed_) record = object;  // the request's own data
    }
    std::vector<std::string> names;
    if (text_[record.value] == '{') collect(record, "", names);
    const auto holds = [&](const trace_format& f) {
      return f.within.empty() || text_of(object, first_step(f.within)) != nullptr;
    };
    format_ = &format_of("an object", names, holds,
                         [&](std::string_view expected) { rows_.fail(record.value, expected, shown(said(record))); });
    rows_.use(*format_);
  }

  [[nodiscard]] static std::string_view first_step(std::string_view path) noexcept {
    return path.substr(0, path.find('.'));
  }
  [[nodiscard]] std::string_view said(const place& p) const noexcept { return text_.substr(p.value, p.end - p.value); }

  /// The member of an object; null if there is none of that name.
  [[nodiscard]] const place* text_of(const place& object, std::string_view name) {
    const place* found = nullptr;
    places_.each(object, [&](std::size_t, const place& member) {
      if (key_of(member) != name) return;
      member_ = member;
      found = &member_;
    });
    return found;
  }
  /// The key of a member, as in the text, without its quotes.
  [[nodiscard]] std::string_view key_of(const place& member) const noexcept {
    const std::size_t end = text_.find('"', member.key + 1);
    return text_.substr(member.key + 1, end - member.key - 1);
  }

  /// Follows a path, through arrays, and reads what is there. Elements of the first array are the runs of a file.
  void walk(const place& value, std::string_view path, std::size_t depth) {
    if (text_[value.value] == '[') {
      places_.each(value, [&](std::size_t, const place& element) {
        if (format_->runs && depth == 1) {
          runs_.push_back(element);
        } else {
          walk(element, path, depth);
        }
      });
    } else if (path.empty()) {
      read_record(value);
    } else if (text_[value.value] == '{') {
      const place* next = text_of(value, first_step(path));
      const std::size_t dot = path.find('.');
      if (next != nullptr) walk(place{*next}, dot == path.npos ? std::string_view{} : path.substr(dot + 1), depth + 1);
    }
  }

  void read_run() {
    if (runs_.empty()) return;
    const std::size_t asked = options_.run == 0 ? runs_.size() : options_.run;
    if (asked > runs_.size()) {
      throw usage_error{fmt::format("--run is from 1 to {} of {}, not {}", runs_.size(), result_.name, asked)};
    }
    result_.runs = runs_.size();
    result_.run = asked;
    const place run = runs_[asked - 1];
    if (format_->within.empty()) {
      use(run);
      if (!format_->table) {
        rows_.fail(run.value, format_->refusal.empty() ? "a run of a benchmark" : format_->refusal, shown(said(run)));
      }
      return read_table(run);
    }
    std::size_t failed = 0;
    for (const std::string_view path : format_->failed) count(run, path, failed);
    rows_.add_failed(failed);
    walk(run, format_->within.substr(format_->within.find('.') + 1), 2);
  }

  void count(const place& value, std::string_view path, std::size_t& n) {
    if (text_[value.value] == '[') {
      places_.each(value, [&](std::size_t, const place&) { ++n; });
    } else if (!path.empty() && text_[value.value] == '{') {
      const place* next = text_of(value, first_step(path));
      const std::size_t dot = path.find('.');
      if (next != nullptr) count(place{*next}, dot == path.npos ? std::string_view{} : path.substr(dot + 1), n);
    }
  }

  /// A record for each index of the arrays of an object.
  void read_table(const place& object) {
    struct column_place {
      const trace_name* name;
      std::vector<place> cells;
    };
    std::vector<column_place> columns;
    places_.each(object, [&](std::size_t, const place& member) {
      const trace_name& name = rows_.know(key_of(member));
      const bool list = text_[member.value] == '[';
      if (name.name == "request_throughput") {
        const auto rate = nlohmann::json::parse(said(member));
        if (rate.is_number()) result_.own_rate = rate.get<double>();
      }
      if (name.is == nullptr) {
        if (list) rows_.not_used(name.name);
        return;
      }
      if (said(member) == "null") return;
      if (!list) rows_.fail(member.value, fmt::format("{}, an array", name.name), shown(said(member)));
      for (const column_place& c : columns) {
        if (c.name == &name) rows_.fail(member.key, fmt::format("{} once", name.name), "it again");
      }
      columns.push_back({.name = &name, .cells = {}});
      places_.each(member, [&](std::size_t, const place& cell) { columns.back().cells.push_back(cell); });
    });
    // The errors of a run without errors may be an empty list.
    std::erase_if(columns, [](const column_place& c) { return c.cells.empty() && c.name->is->is == column::error; });
    if (columns.empty()) rows_.fail(object.value, "an array input_lens", shown(said(object)));
    const std::size_t n = columns.front().cells.size();
    for (const column_place& c : columns) {
      if (c.cells.size() == n) continue;
      rows_.fail(object.value, fmt::format("as many {} as {}, {}", c.name->name, columns.front().name->name, n),
                 fmt::format("{}", c.cells.size()));
    }
    for (std::size_t i = 0; i != n; ++i) {
      trace_record r;
      r.at = object.value;
      r.end = object.end;
      for (const column_place& c : columns) put(r, *c.name, c.cells[i], static_cast<std::int64_t>(i));
      rows_.add(r, false);
    }
    if (result_.has_arrivals) result_.own_rate = 0;
  }

  void read_record(const place& object) {
    if (text_[object.value] != '{') rows_.fail(object.value, "a JSON object", shown(said(object)));
    trace_record r;
    r.at = object.value;
    r.end = object.end;
    fields(r, object, "");
    rows_.add(r, true);
  }

  /// Reads the fields of an object and of nested ones by their paths. Returns whether any is used.
  bool fields(trace_record& r, const place& object, const std::string& path) {
    bool any = false;
    members(object, path, [&](const std::string& name, const place& member) {
      const trace_name& known = rows_.know(name);
      bool used = known.is != nullptr;
      if (used) {
        put(r, known, member, -1);
      } else if (nested(member)) {
        used = fields(r, member, name);
      }
      if (!used && (path.empty() || normalised(name).find("cache") != std::string::npos)) rows_.not_used(known.name);
      any = any || used;
    });
    return any;
  }

  void put(trace_record& r, const trace_name& name, const place& value, std::int64_t index) {
    std::string_view text = said(value);
    if (text == "null") return;
    const bool quoted = text.front() == '"';
    if (quoted) text = text.substr(1, text.size() - 2);
    rows_.put(r, name, text, value.value + (quoted ? 1 : 0), index);
  }

  void collect(const place& object, const std::string& path, std::vector<std::string>& names) const {
    members(object, path, [&](const std::string& name, const place& member) {
      names.push_back(normalised(name));
      if (nested(member)) collect(member, name, names);
    });
  }

  /// An object, or a list of attributes as in OTLP.
  [[nodiscard]] bool nested(const place& member) const noexcept {
    return text_[member.value] == '{' || (text_[member.value] == '[' && key_of(member) == "attributes");
  }

  /// Calls `take(path, place)` for each member; for OTLP's `[{"key": "a", "value": {"intValue": "1"}}]` with `a`.
  template <class Take>
  void members(const place& object, const std::string& path, Take&& take) const {
    const std::string before = path.empty() ? path : path + ".";
    const bool list = text_[object.value] == '[';
    places_.each(object, [&](std::size_t, const place& member) {
      if (!list) return take(before + std::string{key_of(member)}, member);
      if (text_[member.value] != '{') return;
      std::string_view key;
      place value = member;
      bool found = false;
      places_.each(member, [&](std::size_t, const place& part) {
        if (key_of(part) == "key") key = said(part);
        if (key_of(part) != "value" || text_[part.value] != '{') return;
        places_.each(part, [&](std::size_t, const place& typed) {
          value = typed;
          found = true;
        });
      });
      if (found && key.size() > 2 && key.front() == '"')
        take(before + std::string{key.substr(1, key.size() - 2)}, value);
    });
  }

  std::string_view text_;
  trace_builder& rows_;
  const trace_options& options_;
  trace& result_;
  json_locator places_;
  const trace_format* format_ = nullptr;
  bool listed_ = false;  ///< The records are in an array `data`.
  place member_{};
  std::vector<place> runs_;
};

/// Reads one trace.
[[nodiscard]] inline trace read_trace_text(std::string_view text, std::string_view name, const trace_options& options) {
  trace result;
  result.name = name;
  text = without_mark(text);
  require_plain_text(text, name, "a header with at least the columns prompt_tokens and output_tokens",
                     std::numeric_limits<std::size_t>::max());
  trace_builder rows{text, options, result};
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != text.npos && (text[begin] == '{' || text[begin] == '[')) {
    trace_json{text, rows, options, result}.run();
  } else {
    trace_csv{text, rows}.run();
  }
  if (options.run > result.runs) {
    throw usage_error{fmt::format("--run goes with the file of a benchmark that holds several, unlike {}", name)};
  }
  rows.finish();
  return result;
}

}  // namespace sim::detail
TESSERA_NAMESPACE_END
