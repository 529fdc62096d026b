// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/placement/concepts.hpp>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// The instance with the fewest live requests, those on their way included; then the first.
/// When to use: as a baseline; lengths are unknown and about alike.
/// A pure function. O(instances), no allocation. `nowhere` for an empty range.
struct join_shortest_queue {
  /// The index of the chosen instance.
  template <instance_views V>
    requires shows_requests<view_t<V>>
  [[nodiscard]] constexpr std::size_t operator()(const V& instances) const noexcept {
    std::size_t best = nowhere;
    std::size_t fewest = 0;
    for (std::size_t i = 0; i != instances.size(); ++i) {
      const std::size_t requests = instances[i].requests;
      if (best != nowhere && requests >= fewest) continue;
      best = i;
      fewest = requests;
    }
    return best;
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
