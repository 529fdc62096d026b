// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/preempt/concepts.hpp>

TESSERA_NAMESPACE_BEGIN
namespace preempt {

/// Chooses what costs less time for this victim: two transfers of its blocks, or one prefill of its tokens. The prefill
/// term has a quadratic part, so short contexts are recomputed and long ones swapped.
/// When to use: lengths vary widely. Measure the three rates once (the `replay` tool's profiles hold them).
struct cheapest {
  double seconds_per_block = 80e-6;         ///< One KV block over the host link, one way.
  double seconds_per_token = 60e-6;         ///< Prefill, linear part (GEMMs).
  double seconds_per_token_squared = 1e-9;  ///< Prefill, attention part.

  /// Whether the parameters are valid. A scheduler asserts this at construction.
  [[nodiscard]] constexpr bool is_possible() const noexcept {
    return seconds_per_block >= 0 && seconds_per_token >= 0 && seconds_per_token_squared >= 0;
  }

  /// Whether this victim is swapped or recomputed. O(1).
  template <schedulable R>
  [[nodiscard]] constexpr preemption_mode mode(const R& victim, blocks written) const noexcept {
    const auto n = static_cast<double>(victim.state().computed.count());
    const double move = 2.0 * seconds_per_block * static_cast<double>(written.count());
    const double compute = n * seconds_per_token + n * n * seconds_per_token_squared;
    return move <= compute ? preemption_mode::swap : preemption_mode::recompute;
  }
};

}  // namespace preempt
TESSERA_NAMESPACE_END
