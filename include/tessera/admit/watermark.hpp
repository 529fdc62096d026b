// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/admit/concepts.hpp>

TESSERA_NAMESPACE_BEGIN
namespace admit {

/// Admits every request that fits.
/// When to use: with orders that time-share anyway, or to reproduce a paper that specifies no admission.
struct always {
  /// True.
  template <schedulable R>
  [[nodiscard]] constexpr bool admits(const R&, const admission_view<R>&) const noexcept {
    return true;
  }
};

/// Keeps a fraction of the blocks free for the growth of running requests (vLLM's watermark, default 1 %).
/// When to use: the default. It prevents the worst storms of preemption at no cost.
struct watermark {
  double fraction = 0.01;  ///< Fraction of the capacity, in [0, 1].

  /// Whether the parameters are valid. A scheduler asserts this at construction.
  [[nodiscard]] constexpr bool is_possible() const noexcept { return fraction >= 0 && fraction <= 1; }

  /// Whether the reserve stays free. O(1).
  template <schedulable R>
  [[nodiscard]] constexpr bool admits(const R&, const admission_view<R>& view) const noexcept {
    return (view.residents.empty() && view.admitted.empty()) ||
           static_cast<double>(view.free_after.count()) >= fraction * static_cast<double>(view.capacity.count());
  }
};

}  // namespace admit
TESSERA_NAMESPACE_END
