// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/split_mix.hpp>
#include <tessera/placement/concepts.hpp>

#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// A uniformly random instance. The same seed gives the same choices on every machine (SplitMix64).
/// When to use: as a baseline, and for routers that cannot share a round-robin position.
/// Holds the state of the generator: one value per router, each with a seed of its own. O(1), no allocation. `nowhere`
/// for an empty range; then nothing is drawn.
struct random {
  std::uint64_t state = 1;  ///< The seed; then the state.

  /// The index of the chosen instance. Advances the generator.
  template <instance_views V>
  [[nodiscard]] constexpr std::size_t operator()(const V& instances) noexcept {
    const std::uint64_t n = instances.size();
    if (n == 0) return nowhere;
    // Numbers below 2^64 mod n are drawn again, so that each instance has the same share of those that count.
    const std::uint64_t uneven = (0 - n) % n;
    std::uint64_t drawn = draw();
    while (drawn < uneven) drawn = draw();
    return static_cast<std::size_t>(drawn % n);
  }

  /// A number that is at least 0 and less than 1. Advances the generator.
  [[nodiscard]] constexpr double part() noexcept { return static_cast<double>(draw() >> 11U) * 0x1p-53; }

 private:
  constexpr std::uint64_t draw() noexcept {
    return tessera::detail::split_mix(state += tessera::detail::split_mix_step);
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
