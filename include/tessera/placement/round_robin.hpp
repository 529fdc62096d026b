// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/placement/concepts.hpp>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// The instances one after the other, whatever they hold.
/// When to use: as a baseline, for similar requests on equal instances.
/// Holds the next position: one value per router. O(1), no allocation. `nowhere` for an empty range. If the number of
/// instances changes, it continues from its position, or from the first instance if that one is gone.
struct round_robin {
  std::size_t next = 0;  ///< The next position.

  /// The index of the chosen instance. Advances the position.
  template <instance_views V>
  [[nodiscard]] constexpr std::size_t operator()(const V& instances) noexcept {
    const std::size_t n = instances.size();
    if (n == 0) return nowhere;
    const std::size_t chosen = next < n ? next : 0;
    next = chosen + 1;
    return chosen;
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
