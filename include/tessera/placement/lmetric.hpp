// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/placement/turn.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// The instance where the product of the tokens that the request would make it compute and of its batch size is the
/// least; of equal products the one with fewer tokens to compute, then with fewer requests, then in turn.
///
/// A product needs no weight: whatever each factor is scaled by, the order is the same. Where the batch is empty it is
/// 0, so an idle instance is preferred to one that has the prefix; of several idle ones it is that which has most of
/// it.
///
/// When to use: prompts share prefixes, and nobody is to tune how much that is worth against an even load.
/// Source: LMetric (arXiv 2603.15202). The tie-breaks, which it leaves open, are ours. A router that knows how much of
/// other prompts an instance has yet to compute may add that to `new_prefill_tokens`.
/// Holds whose turn it is among equals: one value per router. O(instances), no allocation. `nowhere` for an empty
/// range.
struct lmetric {
  /// It looks at what each instance has of the request at hand, which costs the caller O(blocks of that) to tell.
  static constexpr bool reads_prefixes = true;

  turn ties{};  ///< Whose turn it is.

  /// The index of the chosen instance. Moves the turn on.
  template <instance_views V>
    requires shows_new_prefill<view_t<V>> && shows_requests<view_t<V>>
  [[nodiscard]] constexpr std::size_t operator()(const V& instances) noexcept {
    return ties.least(0, instances.size(), [&](std::size_t i) noexcept {
      const std::int64_t fresh = tokens{instances[i].new_prefill_tokens}.count();
      const std::size_t batch{instances[i].requests};
      // Nobody has a product of 64 bits, but reports may say so.
      constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
      constexpr std::int64_t half = std::int64_t{1} << 31U;  // A division is not needed where both are usual.
      const bool usual = fresh < half && batch < std::size_t{half};
      const bool fits =
          usual || batch == 0 || fresh <= most / static_cast<std::int64_t>(std::min(batch, std::size_t{1} << 62U));
      return std::tuple{fits ? fresh * static_cast<std::int64_t>(batch) : most, fresh, batch};
    });
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
