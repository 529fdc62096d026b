// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

TESSERA_NAMESPACE_BEGIN
namespace cost {

/// How many tokens of prompts a step may compute so that those who decode in it have their next token in time: what
/// a step of their own leaves of the target, over what a token of prefill takes. For `step_limits::prefill_budget`.
///
/// When to use: long prompts come while others decode, and the time between tokens is promised. The coefficients are
/// those of a step's time, linear in what is in it (`cost/fit.hpp` fits such).
/// Source: ours as a formula; that the tokens in a step follow from the time between tokens is from Sarathi-Serve
/// (Agrawal et al. 2024, "Taming throughput-latency tradeoff in LLM inference", section 4.3).
struct prefill_in_time {
  double target_s = 0.05;    ///< Seconds between two tokens of one who decodes.
  double step_s = 0;         ///< Of a step with nothing in it.
  double per_decode_s = 0;   ///< For each who decodes.
  double per_context_s = 0;  ///< For each token of KV that they read.
  double per_prefill_s = 0;  ///< For each token of a prompt.
  tokens least{64};          ///< So many in any case, or a prompt would never be done. At least 1.

  /// For a step in which so many decode over `context` tokens in all. O(1).
  [[nodiscard]] constexpr tokens operator()(std::size_t decodes, tokens context) const noexcept {
    const double left = target_s - step_s - per_decode_s * static_cast<double>(decodes) -
                        per_context_s * static_cast<double>(context.count());
    const double n = per_prefill_s > 0 ? left / per_prefill_s : 1e15;
    if (!(n > static_cast<double>(least.count()))) return max(least, tokens{1});
    return tokens{static_cast<std::int64_t>(n < 1e15 ? n : 1e15)};
  }
};

}  // namespace cost
TESSERA_NAMESPACE_END
