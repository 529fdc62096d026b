// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

TESSERA_NAMESPACE_BEGIN
namespace cost {

/// The most prompt tokens that a step may compute so that its decodes have their next token in time. The time that a
/// step without them leaves of the target, over the prefill time of a token. For `step_limits::prefill_budget`.
///
/// When to use: long prompts come while others decode, and a time between tokens is promised. The coefficients are
/// those of a step's time, linear in its content (`cost/fit.hpp` fits them).
/// Source: the formula is ours. Sarathi-Serve derives the tokens in a step from the time between tokens (Agrawal et al.
/// 2024, "Taming throughput-latency tradeoff in LLM inference", section 4.3).
struct prefill_in_time {
  double target_s = 0.05;    ///< Seconds between two tokens of a decoding request.
  double step_s = 0;         ///< Seconds of an empty step.
  double per_decode_s = 0;   ///< Seconds per decode.
  double per_context_s = 0;  ///< Seconds per token of KV that decodes read.
  double per_prefill_s = 0;  ///< Seconds per prompt token.
  tokens least{64};          ///< The least number in any case, so that every prompt ends. At least 1.

  /// The budget of a step with this many decodes over `context` tokens in all. O(1).
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
