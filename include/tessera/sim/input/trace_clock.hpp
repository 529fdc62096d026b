// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/formats/format.hpp>
#include <tessera/sim/input/input.hpp>
#include <tessera/sim/input/trace_data.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

/// @file
/// The arrivals of a trace, and their unit.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

/// A name in the file, and its meaning.
struct trace_name {
  std::string name;                 ///< As in the file; in JSON the path of the member.
  const column_name* is = nullptr;  ///< Null: not used.
  std::size_t rank = 0;             ///< Among the names of the format.
};

/// One field of a record.
struct trace_field {
  std::string_view text{};
  std::size_t at = 0;                ///< Offset in the text of the file.
  const trace_name* name = nullptr;  ///< Null: the record has no such field.
  std::int64_t index = -1;           ///< Its place in an array.
  bool present = false;              ///< It is there, and not empty.

  /// Its name in messages. Requires a name.
  [[nodiscard]] std::string said() const { return index < 0 ? name->name : fmt::format("{}[{}]", name->name, index); }
};

/// Reads arrivals, all dates or all numbers, and determines their unit when all have been read.
class trace_clock {
 public:
  trace_clock(std::string_view text, std::string_view file) noexcept : text_{text}, file_{file} {}

  /// Seconds since 1970 for a date; a number unchanged. @param name for messages. @param at its place, or where it
  /// would be.
  /// @throws input_error neither, or not as in the rows above
  [[nodiscard]] double read(const trace_field& f, const std::string& name, std::size_t at) {
    const auto fail = [&](std::string_view expected) {
      throw input_error{file_, position_of(text_, at), fmt::format("{}, {}", name, expected), shown(f.text)};
    };
    const double unit = f.name != nullptr ? f.name->is->unit : 0;
    if (const auto when = read_moment(f.text)) {
      if (any_ && !dates_) fail("a number, as in the rows above");
      if (any_ && zone_ != when->zone) {
        fail(zone_ ? "a date and a time with a zone, as in the rows above"
                   : "a date and a time without a zone, as in the rows above");
      }
      dates_ = true;
      zone_ = when->zone;
      take(when->seconds, unit, at, f.text, name);
      return when->seconds;
    }
    if (dates_) fail("a date and a time, as in the rows above");
    double value = 0;
    const char* const end = f.text.data() + f.text.size();
    const auto [stop, failure] = std::from_chars(f.text.data(), end, value);
    // Written so that NaN fails.
    if (!f.present || failure != std::errc{} || stop != end || !(value >= 0 && value <= 5e18)) {
      fail(fmt::format("a number from 0 to {:g} or a date and a time as 2023-11-16T18:17:03.97+01:00",
                       max_trace_seconds * (unit == 0 ? 1 : unit)));
    }
    if (any_ && unit != unit_) fail(fmt::format("in the unit of {}, as in the rows above", name_));
    take(value, unit, at, f.text, name);
    return value;
  }

  /// The number of units that are a second.
  /// @param asked given by the user. @param whole_unit the format's unit for whole numbers; 0: unknown.
  /// @throws input_error the unit is unknown, or the latest arrival is too late. @throws usage_error a unit is given
  /// for dates
  [[nodiscard]] double unit(time_unit asked, double whole_unit, trace& result) const {
    if (dates_) {
      if (asked == time_unit::told) return 1;
      throw usage_error{fmt::format("--time-unit goes with numbers, and the arrivals of {} are dates", file_)};
    }
    const double found = asked != time_unit::told ? per_second(asked) : infer(whole_unit, result);
    if (latest_ > max_trace_seconds * found) {
      throw input_error{file_, position_of(text_, latest_at_),
                        fmt::format("{}, a number from 0 to {:g}", name_, max_trace_seconds * found),
                        shown(latest_text_)};
    }
    return found;
  }

 private:
  void take(double value, double unit, std::size_t at, std::string_view text, const std::string& name) {
    if (!any_) {
      name_ = name;
      unit_ = unit;
      first_at_ = at;
      first_text_ = text;
      least_ = latest_ = value;
      latest_at_ = at;
      latest_text_ = text;
    }
    any_ = true;
    ++count_;
    fraction_ = fraction_ || value != std::floor(value);
    least_ = std::min(least_, value);
    if (value <= latest_) return;
    latest_ = value;
    latest_at_ = at;
    latest_text_ = text;
  }

  [[nodiscard]] double infer(double whole_unit, trace& result) const {
    if (unit_ > 1) return unit_;
    if (const auto unit = unix_time_unit(least_, latest_)) return per_second(*unit);
    if (unit_ == 1) return 1;
    if (fraction_) {
      if (whole_unit != 1) result.unit_said = fmt::format("{} has fractions, so it is read as seconds", name_);
      return 1;
    }
    if (whole_unit != 0) return whole_unit;
    if (latest_ == least_) return 1;
    const double rate = static_cast<double>(count_ - 1) / (latest_ - least_);
    throw input_error{
        file_, position_of(text_, first_at_),
        fmt::format("{} in a unit that can be told: say --time-unit s ({:.4g} requests per second) or --time-unit ms "
                    "({:.4g})",
                    name_, rate, rate * 1000),
        shown(first_text_)};
  }

  std::string_view text_;
  std::string_view file_;
  std::string name_;
  double unit_ = 0;
  std::size_t first_at_ = 0;
  std::string_view first_text_;
  double least_ = 0;
  double latest_ = 0;
  std::size_t latest_at_ = 0;
  std::string_view latest_text_;
  std::size_t count_ = 0;
  bool any_ = false;
  bool dates_ = false;
  bool zone_ = false;
  bool fraction_ = false;
};

}  // namespace sim::detail
TESSERA_NAMESPACE_END
