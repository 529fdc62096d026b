// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/preempt/cheapest.hpp>

#include <cstddef>
#include <limits>

TESSERA_NAMESPACE_BEGIN
namespace preempt {

/// Among the last few residents of the order, evicts the one that loses least time per block that becomes free.
/// `cheapest` decides between swap and recompute. The loss is the time to restore the KV: two transfers if the host has
/// room, or a prefill of all computed tokens. Tokens that other requests hold, and that it may find again, are
/// subtracted. So requests with much progress, or with mostly shared blocks, are spared.
///
/// When to use: memory binds, lengths vary, and the order leaves a choice (see `preemption_policy`): `fcfs`, `ranked`,
/// `least_slack` within its margin. The latency of a request that is chosen repeatedly may suffer. A small `window`
/// bounds how many requests overtake a victim.
/// Source: the rule is ours. InferCept observed that victims differ in the cost of their return, by sharing, length and
/// host memory. It weighs preserving, swapping and discarding KV (Abhyankar et al. 2024, "InferCept: efficient
/// intercept support for augmented large language model inference", section 4).
struct least_lost : cheapest {
  static constexpr bool chooses = true;  ///< The policy chooses the victim.

  std::size_t window = 8;  ///< The number of residents compared for each victim. 1: no choice.

  /// Whether the parameters are valid. A scheduler asserts this at construction.
  [[nodiscard]] constexpr bool is_possible() const noexcept { return window >= 1 && cheapest::is_possible(); }

  /// Seconds to restore the KV, per block that becomes free. Infinite if none becomes free. O(1).
  template <schedulable R>
  [[nodiscard]] constexpr double loss(const R& r, const victim_view& v) const noexcept {
    if (v.frees <= blocks{}) return std::numeric_limits<double>::infinity();
    const double all = static_cast<double>(r.state().computed.count());
    const double found = static_cast<double>((v.block_size * v.shared.count()).count());
    const double first = found < all ? found : all;
    // A prefill of the tokens behind those that are found: the difference of two prefills from the beginning.
    const double compute = (all - first) * seconds_per_token + (all * all - first * first) * seconds_per_token_squared;
    const double move = 2.0 * seconds_per_block * static_cast<double>(v.to_copy.count());
    const double least = v.to_copy <= v.host_free && move < compute ? move : compute;
    return least / static_cast<double>(v.frees.count());
  }
};

}  // namespace preempt
TESSERA_NAMESPACE_END
