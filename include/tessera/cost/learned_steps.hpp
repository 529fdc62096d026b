// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>
#include <tessera/cost/least_squares.hpp>
#include <tessera/cost/prefill_budget.hpp>

#include <cstddef>

TESSERA_NAMESPACE_BEGIN
namespace cost {

/// Learns from steps that have run how long a step takes, and gives `prefill_in_time` its coefficients.
///
/// When to use: nothing is known of the model and its device before it serves. Each step counts by its relative error,
/// so a step that took long for another reason (a compilation, a pause) counts little. It counts half as much after
/// 700 further steps, so that a change of the load or of a clock is followed. A time linear in the step's content is
/// assumed: what a chunk reads of a long prompt before it counts as its tokens' time.
/// 200 bytes; allocates nothing.
class learned_steps {
 public:
  /// A step with `decodes` decodes over `context` tokens in all and with `prefill` prompt tokens took this long. Times
  /// that are not positive are ignored. O(1): some hundred nanoseconds, and microseconds for each 16th step.
  void ran(std::size_t decodes, tokens context, tokens prefill, double seconds) noexcept {
    if (!(seconds > 0 && seconds < 1e6)) return;
    const double weight = 1 / seconds;
    squares_.fade(0.9995);
    squares_.add({weight, weight * static_cast<double>(decodes), weight * static_cast<double>(context.count()),
                  weight * static_cast<double>(prefill.count())},
                 1);
    if (++steps_ % 16 == 0) found_ = squares_.solve_nonnegative();
  }

  /// The bound for steps that take at most `target_s`. It bounds nothing before prompts have been seen.
  [[nodiscard]] prefill_in_time budget(double target_s, tokens least = tokens{64}) const noexcept {
    return {.target_s = target_s,
            .step_s = found_[0],
            .per_decode_s = found_[1],
            .per_context_s = found_[2],
            .per_prefill_s = found_[3],
            .least = least};
  }

 private:
  least_squares<4> squares_;
  least_squares<4>::vector found_{};
  std::size_t steps_ = 0;
};

}  // namespace cost
TESSERA_NAMESPACE_END
