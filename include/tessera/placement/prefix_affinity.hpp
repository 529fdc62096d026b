// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/placement/turn.hpp>

#include <cstddef>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// The instance that has most of the request's prefix cached, unless it is too busy. It is too busy if, with the
/// request, it would have more than `bound` times the mean number of requests, rounded up. Then, or if no instance has
/// any of the prefix, the instance with the fewest requests. Ties: fewer requests, then round-robin.
///
/// When to use: prompts share prefixes. A `bound` near 1 means an even load. A large one means affinity alone: a
/// popular prefix overloads the instance that has it, and no other instance ever gets it.
/// Source: the bound is that of consistent hashing with bounded loads (arXiv 1608.01350), without the hashing: the
/// caches are known.
/// Holds the round-robin position for ties: one value per router. O(instances), no allocation. `nowhere` for an empty
/// range.
struct prefix_affinity {
  /// It reads what each instance has cached of the request. Finding that out costs the caller O(blocks of the request).
  static constexpr bool reads_prefixes = true;

  double bound = 1.25;  ///< At least 1.
  turn ties{};          ///< Round-robin position for ties.

  /// The index of the chosen instance. Advances the round-robin position.
  template <instance_views V>
    requires shows_cached<view_t<V>> && shows_requests<view_t<V>>
  [[nodiscard]] constexpr std::size_t operator()(const V& instances) noexcept {
    TESSERA_ASSERT(bound >= 1, "below the mean there is not room for all");
    const std::size_t n = instances.size();
    const auto requests = [&](std::size_t i) noexcept { return std::size_t{instances[i].requests}; };
    std::size_t all = 1;  // with this request
    tokens most{};
    for (std::size_t i = 0; i != n; ++i) {
      all += requests(i);
      most = max(most, tokens{instances[i].cached_tokens});
    }
    if (most > tokens{}) {
      turn next = ties;
      const std::size_t best = next.least(
          0, n, requests, [&](std::size_t i) noexcept { return tokens{instances[i].cached_tokens} == most; });
      // For a whole number n, n + 1 is at most x rounded up exactly if n is less than x.
      if (static_cast<double>(requests(best)) < bound * static_cast<double>(all) / static_cast<double>(n)) {
        ties = next;
        return best;
      }
    }
    return ties.least(0, n, requests);
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
