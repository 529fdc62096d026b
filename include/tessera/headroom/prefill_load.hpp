// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/headroom/prefill_cost.hpp>

#include <cstddef>
#include <cstdint>

/// @file
/// Time-bound freeness of a prefill worker, maintained as prompts come, progress and go.
///
/// Phi_T = 1 - sum over the queued r of (alpha l(r)^2 + beta P_m l(r)) / (P_peak T_SLO).
/// Source: Phasor, section 3.1, equation 2.

TESSERA_NAMESPACE_BEGIN
namespace headroom {

namespace detail {

/// An unsigned sum of 128 bits, so that no number of 64-bit terms overflows it.
class wide_sum {
 public:
  constexpr void add(std::uint64_t x) noexcept {
    low_ += x;
    high_ += low_ < x ? 1 : 0;
  }
  /// Requires: the sum is at least `x`.
  constexpr void subtract(std::uint64_t x) noexcept {
    high_ -= low_ < x ? 1 : 0;
    low_ -= x;
  }
  [[nodiscard]] constexpr bool at_least(std::uint64_t x) const noexcept { return high_ != 0 || low_ >= x; }
  [[nodiscard]] constexpr double value() const noexcept {
    return static_cast<double>(high_) * 18446744073709551616.0 + static_cast<double>(low_);
  }
  friend constexpr bool operator==(const wide_sum&, const wide_sum&) noexcept = default;

 private:
  std::uint64_t low_ = 0;
  std::uint64_t high_ = 0;
};

}  // namespace detail

/// The sums over a prefill queue that determine its cost: tokens left, and their squares.
///
/// The sums are integers, so leaving undoes joining exactly. A queue that is empty again costs exactly 0, and the cost
/// depends only on the present queue. No sum overflows. Every member is O(1); nothing allocates.
class prefill_load {
 public:
  /// A prompt joins, with `computed` tokens that need not be computed. Requires 0 <= computed <= prompt <=
  /// longest_prompt.
  constexpr void join(tokens prompt, tokens computed = {}) noexcept {
    TESSERA_ASSERT(tokens{} <= computed && computed <= prompt && prompt <= longest_prompt, "no such prompt");
    squares_.add(square(prompt) - square(computed));
    left_.add(static_cast<std::uint64_t>((prompt - computed).count()));
    ++requests_;
  }
  /// A prompt leaves: computed, cancelled, or sent elsewhere. `computed`: its latest value in `advance`. Requires: it
  /// joined and has not left.
  constexpr void leave(tokens prompt, tokens computed = {}) noexcept {
    TESSERA_ASSERT(tokens{} <= computed && computed <= prompt && prompt <= longest_prompt, "no such prompt");
    const std::uint64_t squares = square(prompt) - square(computed);
    const auto left = static_cast<std::uint64_t>((prompt - computed).count());
    TESSERA_ASSERT(requests_ != 0 && squares_.at_least(squares) && left_.at_least(left), "this prompt is not queued");
    squares_.subtract(squares);
    left_.subtract(left);
    --requests_;
  }
  /// A queued prompt went from `from` to `to` computed tokens. Fewer than before is legal: its KV was lost.
  constexpr void advance(tokens from, tokens to) noexcept {
    TESSERA_ASSERT(tokens{} <= from && tokens{} <= to && from <= longest_prompt && to <= longest_prompt,
                   "no such prompt");
    TESSERA_ASSERT(requests_ != 0, "no prompt is queued");
    if (to >= from) {
      TESSERA_ASSERT(squares_.at_least(square(to) - square(from)) &&
                         left_.at_least(static_cast<std::uint64_t>((to - from).count())),
                     "more is computed than was queued");
      squares_.subtract(square(to) - square(from));
      left_.subtract(static_cast<std::uint64_t>((to - from).count()));
    } else {
      squares_.add(square(from) - square(to));
      left_.add(static_cast<std::uint64_t>((from - to).count()));
    }
  }

  /// Requests in the queue, including those in progress. O(1).
  [[nodiscard]] constexpr std::size_t requests() const noexcept { return requests_; }
  /// The remaining cost in FLOP-equivalents. Three roundings, whatever the number of prompts.
  [[nodiscard]] constexpr double flops(const prefill_cost& cost) const noexcept {
    return cost.alpha * squares_.value() + cost.beta * cost.model_scale * left_.value();
  }
  /// Memberwise.
  friend constexpr bool operator==(const prefill_load&, const prefill_load&) noexcept = default;

 private:
  [[nodiscard]] static constexpr std::uint64_t square(tokens l) noexcept {
    const auto n = static_cast<std::uint64_t>(l.count());
    return n * n;
  }

  detail::wide_sum squares_;
  detail::wide_sum left_;
  std::size_t requests_ = 0;
};

/// Phi_T of a queue: 1 when it is empty, 0 when it takes all the time until the target, negative when it is late.
/// Requires a budget above 0.
[[nodiscard]] constexpr double time_freeness(const prefill_load& load, const prefill_cost& cost,
                                             const prefill_budget& budget) noexcept {
  TESSERA_ASSERT(budget.flops() > 0, "a worker has a budget");
  return 1.0 - load.flops(cost) / budget.flops();
}

}  // namespace headroom
TESSERA_NAMESPACE_END
