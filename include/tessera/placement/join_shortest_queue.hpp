// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/placement/turn.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// The instance with the fewest live requests, those on their way included; then in turn.
/// When to use: as a baseline; lengths are unknown and about alike.
/// Holds whose turn it is among equals: one value per router. O(instances), no allocation. `nowhere` for an empty
/// range.
struct join_shortest_queue {
  turn ties{};  ///< Whose turn it is.

  /// The index of the chosen instance. Moves the turn on.
  template <instance_views V>
    requires shows_requests<view_t<V>>
  [[nodiscard]] constexpr std::size_t operator()(const V& instances) noexcept {
    return ties.least(0, instances.size(), by(instances));
  }

  /// The first `best.size()` by that order, for a request whose first choice may refuse it: indices into `best`, and
  /// how many there are. The turn moves on as for one. One pass.
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
