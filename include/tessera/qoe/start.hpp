// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/clock.hpp>

#include <concepts>

/// @file
/// When a reader starts to expect tokens: the start policies of the QoE integrator.

TESSERA_NAMESPACE_BEGIN

/// Says when the expected curve starts.
/// Requires: (1) `p.start(arrival)` on a const policy is a `basic_time_point<Clock>`.
/// Not checked: it does not throw, and depends on nothing but the policy and `arrival`. `never()` means: when the first
/// answering token comes. Models: `qoe_from_first_token`, `qoe_from_arrival`.
template <class P, class Clock>
concept qoe_start_policy = clock_policy<Clock> && requires(const P& p, basic_time_point<Clock> arrival) {
  { p.start(arrival) } -> std::same_as<basic_time_point<Clock>>;
};

/// From the first answering token. For requests with a reasoning length that says nothing about their quality; TTFT is
/// then judged apart (PASCAL, section V-A).
struct qoe_from_first_token {
  /// Never before the first token: `never()`.
  template <clock_policy Clock>
  [[nodiscard]] constexpr basic_time_point<Clock> start(basic_time_point<Clock>) const noexcept {
    return basic_time_point<Clock>::never();
  }
};

/// A fixed time after a request's arrival (Andes: the target TTFT). With the phase change as `arrival` and the TTFAT
/// target as `target`, it judges answering by both of its targets (PASCAL, section III, figure 5).
template <clock_policy Clock = seconds_clock>
class basic_qoe_from_arrival {
 public:
  /// The reader allows `target` until the first token.
  constexpr explicit basic_qoe_from_arrival(basic_duration<Clock> target) noexcept : target_{target} {}

  /// `target` after arrival.
  [[nodiscard]] constexpr basic_time_point<Clock> start(basic_time_point<Clock> arrival) const noexcept {
    return arrival + target_;
  }

 private:
  basic_duration<Clock> target_;
};

using qoe_from_arrival = basic_qoe_from_arrival<>;  ///< On the default clock.

TESSERA_NAMESPACE_END
