// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/preempt/cheapest.hpp>

#include <cstddef>
#include <limits>

TESSERA_NAMESPACE_BEGIN
namespace preempt {

/// Of the last few by the order, whoever loses least time for each block that becomes free; it gives its blocks up by
/// `cheapest`. What is lost is what it costs to have the KV back: two transfers, if the host has room for it, or the
/// prefill of what has been computed, prompt and output alike, less what others hold and it may find again. So one that
/// has come far, or shares most of what it holds, is spared for one that has not.
///
/// When to use: memory binds, lengths vary, and the order has nothing against it (`preemption_policy` says whose
/// victims can be chosen): `fcfs`, `ranked`, `least_slack` within its margin. Latencies of those that are chosen again
/// and again may suffer: a small `window` bounds by how many others a victim is overtaken.
/// Source: ours as a rule. That victims differ in what it costs to bring them back, by sharing, length and the room on
/// the host, is from InferCept (Abhyankar et al. 2024, "InferCept: efficient intercept support for augmented large
/// language model inference", section 4), which weighs preserving, swapping and discarding a request's KV.
struct least_lost : cheapest {
  static constexpr bool chooses = true;  ///< Which request is the victim.

  std::size_t window = 8;  ///< So many residents are looked at for each victim. 1: no choice.

  /// Whether its values can be meant: a scheduler asserts it when it is made.
  [[nodiscard]] constexpr bool is_possible() const noexcept { return window >= 1 && cheapest::is_possible(); }

  /// Seconds that it takes to have the KV back, for each block that becomes free. Infinite if none does. O(1).
  template <schedulable R>
  [[nodiscard]] constexpr double loss(const R& r, const victim_view& v) const noexcept {
    if (v.frees <= blocks{}) return std::numeric_limits<double>::infinity();
    const double all = static_cast<double>(r.state().computed.count());
    const double found = static_cast<double>((v.block_size * v.shared.count()).count());
    const double first = found < all ? found : all;
    // The prefill of the tokens behind those that are found: the difference of two prefills from the beginning.
    const double compute = (all - first) * seconds_per_token + (all * all - first * first) * seconds_per_token_squared;
    const double move = 2.0 * seconds_per_block * static_cast<double>(v.to_copy.count());
    const double least = v.to_copy <= v.host_free && move < compute ? move : compute;
    return least / static_cast<double>(v.frees.count());
  }
};

}  // namespace preempt
TESSERA_NAMESPACE_END
