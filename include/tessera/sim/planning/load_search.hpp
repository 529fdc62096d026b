// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>

#include <cstddef>
#include <optional>

/// @file
/// By trial: the most that a cluster carries, and the smallest cluster that carries it.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The largest load factor at which `meets(factor)` is true, if it is true below some factor and false above: first
/// doubled from 1, or halved, and then narrowed until what is not met is less than `1 + precision` times what is.
/// @param at_one what `meets(1)` says. @param least how far down it looks, at most 1. @param most how far up, at least
/// 1; looked at itself only if it is a power of two.
/// @return 0 if nothing that was looked at from `least` on is met; at most `most`. O(log) calls.
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
/// from there on: steps that double from `least` on, and then halves. None if `meets(most)` is false too. At most two
/// calls for each doubling of the size.
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
