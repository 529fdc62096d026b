// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/clock.hpp>
#include <tessera/core/units.hpp>
#include <tessera/fleet/report.hpp>
#include <tessera/headroom/prefill_load.hpp>

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

/// @file
/// What Python says, checked and in the types of the library.

namespace tessera_python {

namespace nb = nanobind;
namespace ts = tessera;
namespace fleet = tessera::fleet;

using ids = std::vector<std::int64_t>;

/// Above this no double of a count is exact enough, and no clock of seconds lasts.
inline constexpr double endless_seconds = 1e9;

[[noreturn]] inline void refuse(const std::string& why) { throw std::invalid_argument{why}; }

/// A whole number from `least` to `most`.
inline std::int64_t whole(std::int64_t n, const char* name, std::int64_t least, std::int64_t most) {
  if (n < least || n > most) {
    refuse(std::string{name} + " is from " + std::to_string(least) + " to " + std::to_string(most) + ", not " +
           std::to_string(n));
  }
  return n;
}
inline std::int64_t count(std::int64_t n, const char* name) { return whole(n, name, 0, fleet::greatest_count); }
inline ts::tokens prompt_of(std::int64_t n, const char* name) {
  return ts::tokens{whole(n, name, 0, ts::headroom::longest_prompt.count())};
}
inline double real(double x, const char* name, double least, double most) {
  if (!(x >= least && x <= most)) {
    refuse(std::string{name} + " is from " + nb::str(nb::float_(least)).c_str() + " to " +
           nb::str(nb::float_(most)).c_str() + ", not " + nb::str(nb::float_(x)).c_str());
  }
  return x;
}
inline ts::duration lasting(double s, const char* name, double least) {
  return ts::duration::from_seconds(real(s, name, least, endless_seconds));
}
inline ts::time_point at(double now) { return ts::time_point::at_seconds(real(now, "now", 0, endless_seconds)); }

/// One of several words.
template <class Value, std::size_t N>
Value word(const std::string& given, const char* name, const std::pair<std::string_view, Value> (&all)[N]) {
  std::string allowed;
  for (const auto& [text, value] : all) {
    if (text == given) return value;
    allowed += (allowed.empty() ? "" : ", ") + std::string{text};
  }
  refuse(std::string{name} + " is one of " + allowed + ", not " + given);
}

// A load, as Python has it: requests, kv_held, waiting_blocks, reasoning, fresh_answers, prefill.
using six = std::tuple<double, double, double, double, double, double>;

/// What a network says is not trusted: what is no count is -1, or no load at all, and the ledger says so.
inline std::optional<fleet::load> load_of(const six& s) {
  const auto n = [](double x) {
    return x >= 0 && x <= static_cast<double>(fleet::greatest_count) && x == std::floor(x)
               ? static_cast<std::int64_t>(x)
               : std::int64_t{-1};
  };
  const std::int64_t all[] = {n(std::get<0>(s)), n(std::get<1>(s)), n(std::get<2>(s)), n(std::get<3>(s)),
                              n(std::get<4>(s))};
  if (std::ranges::any_of(all, [](std::int64_t x) { return x < 0; })) return std::nullopt;
  return fleet::load{.requests = static_cast<std::size_t>(all[0]),
                     .kv_held = ts::blocks{all[1]},
                     .waiting_blocks = ts::blocks{all[2]},
                     .reasoning = static_cast<std::size_t>(all[3]),
                     .fresh_answers = static_cast<std::size_t>(all[4]),
                     .prefill_flops = std::get<5>(s)};
}
inline nb::tuple tuple_of(const fleet::load& l) {
  return nb::make_tuple(l.requests, l.kv_held.count(), l.waiting_blocks.count(), l.reasoning, l.fresh_answers,
                        l.prefill_flops);
}

}  // namespace tessera_python
