// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>

#include <cstddef>
#include <optional>

/// @file
/// Searches by trial: the largest load that a cluster carries, and the smallest cluster that carries a load.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The largest load factor at which `meets(factor)` is true, if it is true below some factor and false above. It is
/// first doubled from 1, or halved. Then it is narrowed until the failing factor is less than `1 + precision` times the
/// passing one.
/// @param at_one the value of `meets(1)`. @param least the lowest factor to try, at most 1. @param most the highest
/// factor to try, at least 1; tried itself only if it is a power of two.
/// @return 0 if no tried factor from `least` on passes; at most `most`. O(log) calls.
template <class Meets>
[[nodiscard]] double highest_load(bool at_one, double precision, Meets&& meets, double least = 1.0 / 64,
                                  double most = 64) {
  double good = at_one ? 1 : 0;
  double bad = at_one ? most : 1;
  if (at_one) {
    for (double next = 2; next <= most && good * 2 == next; next *= 2) (meets(next) ? good : bad) = next;
  } else {
    for (double next = 0.5; next >= least && good == 0; next /= 2) (meets(next) ? good : bad) = next;
  }
  while (good > 0 && good < most && bad / good > 1 + precision) {
    const double middle = (good + bad) / 2;
    (meets(middle) ? good : bad) = middle;
  }
  return good;
}

/// The smallest size from `least` to `most` for which `meets(size)` is true, if it is false below some size and true
/// from there on. Steps double from `least` on, and are then halved. None if `meets(most)` is false as well. At most
/// two calls for each doubling of the size.
template <class Meets>
[[nodiscard]] std::optional<std::size_t> smallest_size(std::size_t least, std::size_t most, Meets&& meets) {
  TESSERA_ASSERT(least > 0 && least <= most, "some sizes to try");
  std::size_t bad = least - 1;
  std::size_t good = least;
  for (std::size_t step = 1; !meets(good); step *= 2) {
    if (good == most) return std::nullopt;
    bad = good;
    good = good + step < most ? good + step : most;
  }
  while (good - bad > 1) {
    const std::size_t middle = bad + (good - bad) / 2;
    (meets(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace sim
TESSERA_NAMESPACE_END
