// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/placement/turn.hpp>

#include <cstddef>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// The instance that has most of the request's prefix cached, unless it is too busy: with the request it would have
/// more than `bound` times the mean of all, rounded up. Then, or where nobody has any of it, the one with the fewest
/// requests. Equals: fewer requests, then in turn.
///
/// When to use: prompts share prefixes. A `bound` near 1 is an even load, a large one is affinity alone, with which a
/// popular prefix overloads the instance that has it, and no other ever gets it.
/// Source: the bound is that of consistent hashing with bounded loads (arXiv 1608.01350), without the hashing: what is
/// cached where is known.
/// Holds whose turn it is among equals: one value per router. O(instances), no allocation. `nowhere` for an empty
/// range.
struct prefix_affinity {
  /// It looks at what each instance has of the request at hand, which costs the caller O(blocks of that) to tell.
  static constexpr bool reads_prefixes = true;

  double bound = 1.25;  ///< At least 1.
  turn ties{};          ///< Whose turn it is.

  /// The index of the chosen instance. Moves the turn on.
  template <instance_views V>
    requires shows_cached<view_t<V>> && shows_requests<view_t<V>>
  [[nodiscard]] constexpr std::size_t operator()(const V& instances) noexcept {
    TESSERA_ASSERT(bound >= 1, "below the mean there is not room for all");
    const std::size_t n = instances.size();
    const auto requests = [&](std::size_t i) noexcept { return std::size_t{instances[i].requests}; };
    std::size_t all = 1;  // with this one
    tokens most{};
    for (std::size_t i = 0; i != n; ++i) {
      all += requests(i);
      most = max(most, tokens{instances[i].cached_tokens});
    }
    if (most > tokens{}) {
      turn next = ties;
      const std::size_t best = next.least(
          0, n, requests, [&](std::size_t i) noexcept { return tokens{instances[i].cached_tokens} == most; });
      // Of whole numbers, n + 1 is at most x rounded up exactly if n is less than x.
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
