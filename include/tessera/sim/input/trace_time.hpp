// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

/// @file
/// Moments in files: dates and times with zones, and numbers with a unit that follows from their size.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// The unit of a trace's arrivals, if they are numbers.
enum class time_unit : std::uint8_t {
  told,          ///< Given by the file: its format, the column's name, or the size of the numbers.
  seconds,       ///< `s`
  milliseconds,  ///< `ms`
  microseconds,  ///< `us`
  nanoseconds,   ///< `ns`
};

/// The unit with this name: `s`, `ms`, `us` or `ns`; empty: as the file says. @throws usage_error another name
[[nodiscard]] time_unit find_time_unit(std::string_view name);

namespace detail {

/// The number of units that are a second.
[[nodiscard]] constexpr double per_second(time_unit unit) noexcept {
  constexpr std::array<double, 5> all{1, 1, 1e3, 1e6, 1e9};
  return all[static_cast<std::size_t>(unit)];
}

/// The unit in which all numbers from `least` to `most` are Unix times of the years 2001 to 2099, if there is one.
[[nodiscard]] constexpr std::optional<time_unit> unix_time_unit(double least, double most) noexcept {
  using enum time_unit;
  for (const time_unit unit : {seconds, milliseconds, microseconds, nanoseconds}) {
    if (least >= 978307200.0 * per_second(unit) && most < 4102444800.0 * per_second(unit)) return unit;
  }
  return {};
}

/// A date and a time.
struct moment {
  double seconds = 0;  ///< Since 1970, in UTC; without a zone, taken as UTC.
  bool zone = false;   ///< It has a zone.
};

/// Reads `2023-11-16 18:17:03.9799600+01:00`; a T between date and time, and the zone, are optional (ISO 8601).
[[nodiscard]] std::optional<moment> read_moment(std::string_view text);

}  // namespace detail
}  // namespace sim
TESSERA_NAMESPACE_END
