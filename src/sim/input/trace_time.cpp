// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/error.hpp>
#include <tessera/sim/input/trace_time.hpp>

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

TESSERA_NAMESPACE_BEGIN

namespace sim {

time_unit find_time_unit(std::string_view name) {
  constexpr std::array<std::string_view, 5> names{"", "s", "ms", "us", "ns"};
  for (std::size_t i = 0; i != names.size(); ++i) {
    if (name == names[i]) return static_cast<time_unit>(i);
  }
  throw usage_error{fmt::format("--time-unit is one of s, ms, us and ns, not {}", shown(name))};
}

}  // namespace sim

namespace sim {
namespace detail {

/// Seconds east of Greenwich: ``, `Z`, `UTC`, `+02:00`, `+0200` or `+02`, with a blank before it or without.
std::optional<moment> read_zone(std::string_view text) {
  if (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  if (text.empty()) return moment{};
  if (text == "Z" || text == "z" || text == "UTC" || text == "GMT") return moment{0, true};
  if (text.front() != '+' && text.front() != '-') return {};
  const double sign = text.front() == '-' ? -1 : 1;
  text.remove_prefix(1);
  std::array<char, 4> digits{'0', '0', '0', '0'};
  if (text.size() == 5 && text[2] == ':') {
    digits = {text[0], text[1], text[3], text[4]};
  } else if (text.size() == 4) {
    digits = {text[0], text[1], text[2], text[3]};
  } else if (text.size() == 2) {
    digits = {text[0], text[1], '0', '0'};
  } else {
    return {};
  }
  for (const char c : digits) {
    if (c < '0' || c > '9') return {};
  }
  const int hours = (digits[0] - '0') * 10 + (digits[1] - '0');
  const int minutes = (digits[2] - '0') * 10 + (digits[3] - '0');
  if (hours > 15 || minutes > 59) return {};
  return moment{sign * (hours * 3600 + minutes * 60), true};
}

std::optional<moment> read_moment(std::string_view text) {
  const auto part = [&](std::size_t at, std::size_t size, int& x) {
    if (text.size() < at + size) return false;
    const char* const from = text.data() + at;
    const auto [stop, failure] = std::from_chars(from, from + size, x);
    return failure == std::errc{} && stop == from + size && x >= 0;
  };
  int year = 0, month = 0, day = 0, hour = 0, minute = 0;
  const bool good = part(0, 4, year) && part(5, 2, month) && part(8, 2, day) && part(11, 2, hour) &&
                    part(14, 2, minute) && text.size() > 17 && text[4] == '-' && text[7] == '-' &&
                    (text[10] == ' ' || text[10] == 'T') && text[13] == ':' && text[16] == ':' && year >= 1970 &&
                    hour < 24 && minute < 60;
  if (!good) return {};
  double second = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data() + 17, end, second, std::chars_format::fixed);
  if (failure != std::errc{} || !(second >= 0 && second < 61)) return {};
  const std::chrono::year_month_day when{std::chrono::year{year}, std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  const std::optional<moment> zone = read_zone({stop, static_cast<std::size_t>(end - stop)});
  if (!when.ok() || !zone) return {};
  const auto days = std::chrono::sys_days{when}.time_since_epoch().count();
  const double local = static_cast<double>(days) * 86400 + hour * 3600 + minute * 60;
  const double seconds = local - zone->seconds + second;
  if (seconds < 0) return {};
  return moment{seconds, zone->zone};
}

}  // namespace detail
}  // namespace sim
TESSERA_NAMESPACE_END
