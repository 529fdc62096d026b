// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/placement/turn.hpp>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// Where a request goes on after its phase change: where it is while there is `headroom` to spare; otherwise where the
/// least KV is held, device and host together, if that is less than what its own instance would be left with.
///
/// Counts memory where PASCAL's Algorithm 2 counts requests, so the instance with the fewest reasoning requests does
/// not collect all the answers, and whoever moves leaves both instances more alike than they were. Ties: it stays; then
/// in turn.
///
/// When to use: with `pascal_paced`, or whenever a move should be the exception.
/// Holds whose turn it is among equals: one value per router. O(instances), no allocation.
struct migrate_when_tight {
  /// Blocks that must be free besides those of its next token for it to stay without a look around. A good value is one
  /// quantum.
  blocks headroom{};
  turn ties{};  ///< Whose turn it is among the instances that it could move to.

  /// @param current the instance it is on.
  /// @param grows blocks that it will take next where it is.
  /// @param moves blocks that it needs on another instance.
  template <instance_views V>
    requires shows_kv_held<view_t<V>> && shows_free_blocks<view_t<V>>
  [[nodiscard]] constexpr std::size_t operator()(const V& instances, std::size_t current, blocks grows,
                                                 blocks moves) noexcept {
    TESSERA_ASSERT(current < instances.size(), "the request is on one of the instances");
    TESSERA_ASSERT(headroom >= blocks{}, "headroom is not negative");
    if (instances[current].free_blocks - grows >= headroom) return current;
    turn next = ties;
    const std::size_t best = next.least(
        0, instances.size(), [&](std::size_t i) noexcept { return blocks{instances[i].kv_held}; },
        [current](std::size_t i) noexcept { return i != current; });
    if (best == nowhere || instances[best].kv_held >= instances[current].kv_held - moves) return current;
    ties = next;  // to stay takes no turn
    return best;
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
