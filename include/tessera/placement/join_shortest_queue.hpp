// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/placement/turn.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// The instance with the fewest live requests, those on their way included. Ties go round-robin.
/// When to use: as a baseline; lengths are unknown and similar.
/// Holds the round-robin position for ties: one value per router. O(instances), no allocation. `nowhere` for an empty
/// range.
struct join_shortest_queue {
  turn ties{};  ///< Round-robin position for ties.

  /// The index of the chosen instance. Advances the round-robin position.
  template <instance_views V>
    requires shows_requests<view_t<V>>
  [[nodiscard]] constexpr std::size_t operator()(const V& instances) noexcept {
    return ties.least(0, instances.size(), by(instances));
  }

  /// Writes the indices of the first `best.size()` by that order into `best`, for requests that the first choice may
  /// refuse. Returns how many there are. Advances the round-robin position as for one choice. One pass.
  template <instance_views V>
    requires shows_requests<view_t<V>>
  constexpr std::size_t rank(const V& instances, std::span<std::uint32_t> best) noexcept {
    return ties.least(0, instances.size(), best, by(instances));
  }

 private:
  template <class V>
  static constexpr auto by(const V& instances) noexcept {
    return [&](std::size_t i) noexcept { return std::size_t{instances[i].requests}; };
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
