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

/// Chooses the instance on which a request continues. Freeness is the part of an instance's memory that is neither held
/// nor waited for. The request stays while its instance has a freeness of at least `below`. Otherwise it goes to the
/// instance with the most freeness after the move, if that exceeds its present instance's by `gain`.
///
/// So after each move the less free of the two instances is better off. While loads stand still, no sequence of moves
/// returns to its start. Ties go round-robin.
///
/// When to use: as `migrate_when_tight`, for instances of different sizes, which `kv_held` cannot compare.
/// Source: the freeness is Phasor's space-bound one (section 3.1) without the stranded part. That part comes and goes
/// with a few blocks, and requests would move with it. The rule is ours.
/// Holds the round-robin position for ties: one value per router. O(instances), no allocation.
struct migrate_to_headroom {
  double below = 0.168;  ///< An instance with at least this freeness keeps what it has. Phasor's theta_frag.
  double gain = 0.1;     ///< Above 0.
  turn ties{};           ///< Round-robin position among possible targets.

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
    ties = next;  // staying does not advance the position
    return best;
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
