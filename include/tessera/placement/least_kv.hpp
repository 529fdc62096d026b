// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/placement/turn.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// The instance that holds the least KV, device and host together; then the one with fewer requests; then in turn.
///
/// It does not see who waits: a request that has no blocks yet counts for nothing but at a tie. While queues grow,
/// instances that all hold as much as they can differ by what they have just freed, whatever their queues are, and
/// arrivals herd. `least_load` counts what those who wait need.
///
/// When to use: the baseline placement of PASCAL's evaluation for FCFS and round-robin, below saturation.
/// Holds whose turn it is among equals: one value per router. O(instances), no allocation. `nowhere` for an empty
/// range.
struct least_kv {
  turn ties{};  ///< Whose turn it is.

  /// The index of the chosen instance. Moves the turn on.
  template <instance_views V>
    requires shows_kv_held<view_t<V>> && shows_requests<view_t<V>>
  [[nodiscard]] constexpr std::size_t operator()(const V& instances) noexcept {
    return ties.least(0, instances.size(), by(instances));
  }

  /// The first `best.size()` by that order, for a request whose first choice may refuse it: indices into `best`, and
  /// how many there are. The turn moves on as for one. One pass.
  template <instance_views V>
    requires shows_kv_held<view_t<V>> && shows_requests<view_t<V>>
  constexpr std::size_t rank(const V& instances, std::span<std::uint32_t> best) noexcept {
    return ties.least(0, instances.size(), best, by(instances));
  }

 private:
  template <class V>
  static constexpr auto by(const V& instances) noexcept {
    return [&](std::size_t i) noexcept {
      return std::pair{blocks{instances[i].kv_held}, std::size_t{instances[i].requests}};
    };
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
