// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/placement/concepts.hpp>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// The instance that holds the least KV, device and host together; then the one with fewer requests; then the first.
/// When to use: the baseline placement of PASCAL's evaluation for FCFS and round-robin.
/// A pure function. O(instances), no allocation. `nowhere` for an empty range.
struct least_kv {
  /// The index of the chosen instance.
  template <instance_views V>
    requires shows_kv_held<view_t<V>> && shows_requests<view_t<V>>
  [[nodiscard]] constexpr std::size_t operator()(const V& instances) const noexcept {
    std::size_t best = nowhere;
    for (std::size_t i = 0; i != instances.size(); ++i) {
      if (best == nowhere || instances[i].kv_held < instances[best].kv_held ||
          (instances[i].kv_held == instances[best].kv_held && instances[i].requests < instances[best].requests)) {
        best = i;
      }
    }
    return best;
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
