// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/clock.hpp>
#include <tessera/core/units.hpp>

#include <cmath>
#include <cstdint>

/// @file
/// The cost of a prompt, and the capacity of a prefill worker before a prompt is late. The numerator and the
/// denominator of Phasor's time-bound freeness (section 3.1, equation 2; appendix B).

TESSERA_NAMESPACE_BEGIN
namespace headroom {

/// Longest prompt that the load sums allow: its square has 64 bits.
inline constexpr tokens longest_prompt{(std::int64_t{1} << 32) - 1};

/// Cost of a prompt of l tokens in FLOP-equivalents: alpha l^2 + beta P_m l. Attention is the square, all else is
/// linear. Coefficients come from `calibrate`, fitted to prefill times of the stack in use.
struct prefill_cost {
  double alpha = 0;        ///< FLOP per token squared. At least 0.
  double beta = 0;         ///< FLOP per token of the reference model. At least 0.
  double model_scale = 1;  ///< P_m: parameters of the model over those of the reference model. Above 0.

  /// The remaining cost of a prompt with `computed` tokens in the KV cache already (chunked prefill, shared prefixes).
  /// It is cost(prompt) - cost(computed), since the remaining tokens attend to all before them. O(1).
  [[nodiscard]] constexpr double flops(tokens prompt, tokens computed = {}) const noexcept {
    const auto l = static_cast<double>(prompt.count());
    const auto c = static_cast<double>(computed.count());
    return (alpha * (l + c) + beta * model_scale) * (l - c);
  }

  /// The inverse: the number of further tokens of a prompt, with `computed` in the KV cache already, that cost at most
  /// `budget` FLOP. The rest of a step with a time limit is such a budget: P_peak times the time left. 0 if not even
  /// one fits; `longest_prompt` if it costs nothing. Requires `budget` not to be NaN. O(1).
  [[nodiscard]] tokens within(double budget, tokens computed = {}) const noexcept {
    TESSERA_ASSERT(budget == budget, "a budget is a number");
    if (!(budget > 0)) return {};
    const double linear = 2 * alpha * static_cast<double>(computed.count()) + beta * model_scale;
    const double root = linear + std::sqrt(linear * linear + 4 * alpha * budget);
    const auto most = static_cast<double>((longest_prompt - computed).count());
    if (!(root > 0) || !(2 * budget / root < most)) return max(longest_prompt - computed, tokens{});
    tokens n{static_cast<std::int64_t>(2 * budget / root)};
    // Rounding may be one off.
    while (n > tokens{} && flops(computed + n, computed) > budget) n -= tokens{1};
    while (computed + n < longest_prompt && flops(computed + n + tokens{1}, computed) <= budget) n += tokens{1};
    return n;
  }
};

/// P_m for a model with this many parameters (the active ones of a mixture of experts). Requires both above 0.
[[nodiscard]] constexpr double model_scale(double parameters, double reference_parameters) noexcept {
  TESSERA_ASSERT(parameters > 0 && reference_parameters > 0, "a model has parameters");
  return parameters / reference_parameters;
}

/// P_peak T_SLO: the capacity of a worker within the promised time to first token.
struct prefill_budget {
  double peak_flops = 0;  ///< Measured on the stack in use, FLOP per second. Above 0.
  duration ttft{};        ///< The target. Above 0.

  /// C: FLOP that can be computed within the TTFT.
  [[nodiscard]] constexpr double flops() const noexcept { return peak_flops * ttft.seconds(); }
};

/// The coefficients as Phasor prints them (table 4), for comparison only. They name no unit, and no power of a thousand
/// makes them fit. A prompt of 1,024 tokens costs 51.5 of them. At 121 TFLOP/s that is 0.43 s if they are TFLOP and
/// 0.43 ms if they are GFLOP; the paper measures 0.116 s. Their shape is off as well: the square outweighs the linear
/// term from 160 tokens on. The arithmetic of a model with 7 billion parameters puts that point at some 75,000.
inline constexpr prefill_cost phasor_printed_cost{.alpha = 4.25e-5, .beta = 6.80e-3, .model_scale = 1};

/// Phasor's effective peak of a V100 in half precision (appendix B.1), FLOP per second.
inline constexpr double phasor_printed_peak_flops = 121e12;

}  // namespace headroom
TESSERA_NAMESPACE_END
