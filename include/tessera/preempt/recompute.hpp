// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/preempt/concepts.hpp>

TESSERA_NAMESPACE_BEGIN
namespace preempt {

/// Always drop and recompute (vLLM's default since V1).
/// When to use: prompts are short, there is no host memory to spare, or a prefix cache makes recomputing cheap.
struct recompute {
  /// Always `recompute`. O(1).
  template <schedulable R>
  [[nodiscard]] constexpr preemption_mode mode(const R&, blocks) const noexcept {
    return preemption_mode::recompute;
  }
};

}  // namespace preempt
TESSERA_NAMESPACE_END
