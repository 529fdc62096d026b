// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/pipeline/plan.hpp>

#include <cstddef>
#include <cstdint>

namespace tessera_test {

/// What a step may take: little, so that all of it binds now and then. @param below `below(n)` is a number below n.
template <class Below>
[[nodiscard]] tessera::step_limits random_limits(Below& below) {
  const auto of = [](std::size_t n) { return tessera::tokens{static_cast<std::int64_t>(n)}; };
  tessera::step_limits step;
  step.max_batch = 1 + below(6);
  step.token_budget = of(1 + below(60));
  step.max_chunk = of(below(3) == 0 ? 1 + below(12) : 0);
  step.lookahead = of(below(2) == 0 ? below(4) : 0);
  if (below(8) == 0) step.max_starts = below(2);
  return step;
}

}  // namespace tessera_test
