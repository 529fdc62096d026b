// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/placement/turn.hpp>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// Chooses the instance on which a request continues after its phase change. It stays while there is `headroom` to
/// spare. Otherwise it goes to the instance with the least KV, device and host together, if its own instance would be
/// left with more.
///
/// It counts memory where PASCAL's Algorithm 2 counts requests. So the instance with the fewest reasoning requests does
/// not collect all answers, and each move makes the two instances more alike. Ties: the request stays; otherwise
/// round-robin.
///
/// When to use: with `pascal_paced`, or if moves should be rare.
/// Holds the round-robin position for ties: one value per router. O(instances), no allocation.
struct migrate_when_tight {
  /// Blocks that must be free, besides those of its next token, for the request to stay without a comparison. A good
  /// value is one quantum.
  blocks headroom{};
  turn ties{};  ///< Round-robin position among possible targets.

  /// @param current the instance it is on.
  /// @param grows blocks that it takes next if it stays.
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
    ties = next;  // staying does not advance the position
    return best;
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
