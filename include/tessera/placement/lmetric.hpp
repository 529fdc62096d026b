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

/// The instance with the least product of two numbers: the tokens that it would compute for the request, and its batch
/// size. Equal products: fewer tokens to compute, then fewer requests, then round-robin.
///
/// A product needs no weight: scaling a factor does not change the order. With an empty batch it is 0, so an idle
/// instance is preferred to one that has the prefix. Among idle ones, the one with most of the prefix is chosen.
///
/// When to use: prompts share prefixes, and the worth of a cached prefix against an even load is not to be tuned.
/// Source: LMetric (arXiv 2603.15202). The tie-breaks, which it leaves open, are ours. A router that knows an
/// instance's pending prefill tokens of other prompts may add them to `new_prefill_tokens`.
/// Holds the round-robin position for ties: one value per router. O(instances), no allocation. `nowhere` for an empty
/// range.
struct lmetric {
  /// It reads what each instance has cached of the request. Finding that out costs the caller O(blocks of the request).
  static constexpr bool reads_prefixes = true;

  turn ties{};  ///< Round-robin position for ties.

  /// The index of the chosen instance. Advances the round-robin position.
  template <instance_views V>
    requires shows_new_prefill<view_t<V>> && shows_requests<view_t<V>>
  [[nodiscard]] constexpr std::size_t operator()(const V& instances) noexcept {
    return ties.least(0, instances.size(), [&](std::size_t i) noexcept {
      const std::int64_t fresh = tokens{instances[i].new_prefill_tokens}.count();
      const std::size_t batch{instances[i].requests};
      // No real product has 64 bits, but reports may say so.
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
