// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/placement/turn.hpp>

#include <cstddef>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// `from`, `to`: the instance serves requests with at least `from` and fewer than `to` KV blocks.
template <class View>
concept shows_range = requires(const View& v) {
  { v.from } -> std::convertible_to<blocks>;
  { v.to } -> std::convertible_to<blocks>;
};

/// Chooses the instance on which a request continues in a cluster of stages by length. It stays while its length is
/// below the end of its instance's range. Then it goes to the instance with the least KV among those with its length in
/// their range; ties go round-robin. If there is none, it stays. It never goes back to a shorter stage.
///
/// When to use: a router that knows lengths decides for all instances. If instances trade among themselves, use
/// `cascade_instance`.
/// Source: CascadeInfer, section 3.1. There a market chooses the instance of the next stage (section 4.4). Holds the
/// round-robin position for ties: one value per router. O(instances), no allocation.
struct stay_in_range {
  turn ties{};  ///< Round-robin position among possible targets.

  /// @param current the instance it is on.
  /// @param moves blocks that it needs on another instance: its length.
  template <instance_views V>
    requires shows_range<view_t<V>> && shows_kv_held<view_t<V>>
  [[nodiscard]] constexpr std::size_t operator()(const V& instances, std::size_t current, blocks /*grows*/,
                                                 blocks moves) noexcept {
    TESSERA_ASSERT(current < instances.size(), "the request is on one of the instances");
    if (moves < blocks{instances[current].to}) return current;
    const std::size_t best = ties.least(
        0, instances.size(), [&](std::size_t i) noexcept { return blocks{instances[i].kv_held}; },
        [&](std::size_t i) noexcept {
          return i != current && blocks{instances[i].from} <= moves && moves < blocks{instances[i].to};
        });
    return best == nowhere ? current : best;
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
