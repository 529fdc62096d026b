// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/preempt/concepts.hpp>

TESSERA_NAMESPACE_BEGIN
namespace preempt {

/// Always to host memory (PASCAL, section II-B; vLLM's swap mode).
/// When to use: contexts are long, or the interconnect to the host is fast, so that moving KV costs less than a
/// prefill.
struct swap {
  /// Always `swap`. O(1).
  template <schedulable R>
  [[nodiscard]] constexpr preemption_mode mode(const R&, blocks) const noexcept {
    return preemption_mode::swap;
  }
};

}  // namespace preempt
TESSERA_NAMESPACE_END
