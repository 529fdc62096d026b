// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/headroom/space.hpp>
#include <tessera/placement/turn.hpp>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// `capacity`: KV blocks that the instance has, used and free.
template <class View>
concept shows_capacity = requires(const View& v) {
  { v.capacity } -> std::convertible_to<blocks>;
};

/// Where a request goes on: where it is while its instance has freeness, the part of its memory that nobody holds or
/// waits for; otherwise where there would be the most with it, if that is more by `gain` than its instance has now.
///
/// So of the two instances the less free one is better off after each move, and while loads stand still no sequence of
/// moves comes back to where it began. Ties: in turn.
///
/// When to use: as `migrate_when_tight`, for instances of different sizes, which `kv_held` cannot compare.
/// Source: the freeness is Phasor's space-bound one (section 3.1), but for what is stranded: that comes and goes with a
/// few blocks, and requests would with it. The rule is ours.
/// Holds whose turn it is among equals: one value per router. O(instances), no allocation.
struct migrate_to_headroom {
  double below = 0.168;  ///< An instance with at least this freeness keeps what it has. Phasor's theta_frag.
  double gain = 0.1;     ///< Above 0.
  turn ties{};           ///< Whose turn it is among the instances that it could move to.

  /// @param current the instance it is on.
  /// @param moves blocks that it needs on another instance.
  template <instance_views V>
    requires shows_kv_held<view_t<V>> && shows_waiting_blocks<view_t<V>> && shows_capacity<view_t<V>>
  [[nodiscard]] constexpr std::size_t operator()(const V& instances, std::size_t current, blocks /*grows*/,
                                                 blocks moves) noexcept {
    TESSERA_ASSERT(current < instances.size(), "the request is on one of the instances");
    TESSERA_ASSERT(below == below, "a freeness is a number");
    TESSERA_ASSERT(gain > 0, "without a gain requests would go to and fro");
    const auto freeness = [&](std::size_t i, blocks more) noexcept {
      return headroom::space_freeness(blocks{instances[i].kv_held} + blocks{instances[i].waiting_blocks} + more, {},
                                      blocks{instances[i].capacity});
    };
    const double here = freeness(current, blocks{});
    if (here >= below) return current;
    const auto with_it = [&](std::size_t i) noexcept { return freeness(i, moves); };
    turn next = ties;
    const std::size_t best = next.least(
        0, instances.size(), [&](std::size_t i) noexcept { return -with_it(i); },
        [&](std::size_t i) noexcept { return i != current && blocks{instances[i].capacity} > blocks{}; });
    if (best == nowhere || with_it(best) < here + gain) return current;
    ties = next;  // to stay takes no turn
    return best;
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
