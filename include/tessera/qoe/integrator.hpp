// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/units.hpp>
#include <tessera/pacing/config.hpp>
#include <tessera/qoe/start.hpp>

/// @file
/// Quality of experience of one answer (Andes; PASCAL, section II-C and figure 3), in closed form and incrementally.

TESSERA_NAMESPACE_BEGIN

/// The QoE below which an answer violates its SLO (PASCAL, section III).
inline constexpr double qoe_target = 0.95;

/// Whether a request with this QoE violates its SLO.
[[nodiscard]] constexpr bool violates_slo(double qoe, double target = qoe_target) noexcept { return qoe < target; }

/// QoE = area under the digested curve / area under the expected curve, both from the start to the moment the last
/// token is digested. In [0, 1].
///
/// **The curves** are continuous, since the expected one is: T(t) = min(length, (t - start) / tpot). The reader begins
/// at `start` and digests at the rate 1 / tpot while there is a token that is not fully digested, else waits. So token
/// i (from 0), delivered at g(i), is digested over [r(i), r(i) + tpot) with
///
///     r(i) = max(g(i), start, r(i-1) + tpot)
///
/// which is the token pacer's schedule. Tokens that come before the start wait for it. So being early never makes up
/// for being late, and A <= T everywhere. QoE is 1 exactly when g(i) <= start + i tpot for all i.
///
/// **The closed form.** The curves are one token high at each i, and d(i) = r(i) - (start + i tpot) >= 0 apart. With n
/// tokens, the last digested at D = start + n tpot + d(n-1):
///
///     area T - area A = sum of d(i)          area T = n (n tpot / 2 + d(n-1))
///
/// and d(i) = max(d(i-1), g(i) - (start + i tpot)). Only n, the latest d and the sum of d are kept. A token that is on
/// time adds an exact 0, so a perfect answer has exactly 1, with either clock. A lateness may be lost below the
/// rounding of the areas (one part in 10^16).
///
/// 48 bytes, trivially copyable. Every member is O(1) and allocates nothing; areas are in double, moments in ticks.
/// @tparam StartPolicy when `start` is (qoe/start.hpp). Not stored.
template <clock_policy Clock = seconds_clock, qoe_start_policy<Clock> StartPolicy = qoe_from_first_token>
class basic_qoe_integrator {
 public:
  using clock_type = Clock;                    ///< The clock of all time points and durations of the interface.
  using rep = typename Clock::rep;             ///< The type of a number of ticks.
  using start_policy = StartPolicy;            ///< When the reader begins to expect tokens.
  using duration = basic_duration<Clock>;      ///< A length of time on that clock.
  using time_point = basic_time_point<Clock>;  ///< A moment on that clock.
  using config = basic_pacing_config<Clock>;   ///< Parameters of the parts; each is described at its own type.

  /// Requires `c.tpot > 0` (asserted). `c.ttfat` is not used: the start policy decides.
  constexpr explicit basic_qoe_integrator(const config& c = {}, const StartPolicy& policy = StartPolicy{},
                                          time_point arrival = {}) noexcept
      : tpot_{c.tpot}, start_{policy.start(arrival)} {
    TESSERA_ASSERT(tpot_ > duration{}, "the time per output token must be positive");
  }

  /// `n` answering tokens came, all at `now`. Requires `n >= 1` and no `finish()` before (asserted). A `now` before
  /// that of an earlier token is allowed: it counts as on time or late by the same schedule.
  constexpr void on_token(time_point now, tokens n = tokens{1}) noexcept {
    TESSERA_ASSERT(n > tokens{}, "at least one token must be delivered");
    TESSERA_ASSERT(!finished_, "a token after the end of the answer");
    if (start_ == time_point::never()) start_ = now;
    const duration late = now - due(delivered_);
    if (delay_ < late) delay_ = late;
    lag_ += to_double(n) * to_double(delay_);
    delivered_ += n;
  }

  /// The answer is complete: its length is `delivered()`. Idempotent.
  constexpr void finish() noexcept { finished_ = true; }
  /// Whether `finish` was called.
  [[nodiscard]] constexpr bool finished() const noexcept { return finished_; }

  /// Tokens so far.
  [[nodiscard]] constexpr tokens delivered() const noexcept { return delivered_; }
  /// When the expected curve starts; `never()` while that waits for the first token.
  [[nodiscard]] constexpr time_point start() const noexcept { return start_; }
  /// How far the reader is behind the expected schedule with the latest token.
  [[nodiscard]] constexpr duration delay() const noexcept { return delay_; }
  /// When the last token there is has been digested: the end of both integrals for a finished answer. Before the first
  /// token, the start.
  [[nodiscard]] constexpr time_point digested_at() const noexcept {
    return delivered_ == tokens{} ? start_ : due(delivered_) + delay_;
  }

  /// QoE of the answer with the tokens there are as its whole length: final once finished. 1 without a token.
  [[nodiscard]] constexpr double value() const noexcept {
    if (delivered_ == tokens{}) return 1.0;
    const double n = to_double(delivered_);
    return ratio(lag_, n * (n * to_double(tpot_) / 2 + to_double(delay_)));
  }

  /// QoE so far: both areas from the start to `now`. While the answer runs, its length is unknown: the reader expects a
  /// token every `tpot` without end, and QoE falls while it waits. A finished answer's expectation ends at its length,
  /// and from `digested_at()` on this is `value()`. 1 up to the start. Requires a `now` that is not before the latest
  /// `on_token` (not checked).
  [[nodiscard]] constexpr double value(time_point now) const noexcept {
    if (!(start_ < now)) return 1.0;
    if (finished_ && !(now < digested_at())) return value();
    const double n = to_double(delivered_);
    const double tpot = to_double(tpot_);
    const double delay = to_double(delay_);
    // In tokens: expected by now without an end; digested by now.
    const double elapsed = to_double(now - start_);
    const double expected = elapsed / tpot;
    const double reached = (elapsed - delay) / tpot;
    const double digested = reached < 0 ? 0 : reached < n ? reached : n;
    // The gap between the curves. Below `digested` it is each token's delay; tokens not digested yet all have the
    // latest delay. Above `digested` it is a triangle with the reader's present delay as its side.
    const double missing = expected - digested;
    double gap = lag_ - (n - digested) * delay + missing * missing / 2 * tpot;
    double area = expected * expected / 2 * tpot;
    if (finished_ && n < expected) {  // Less the tip above the length.
      const double tip = (expected - n) * (expected - n) / 2 * tpot;
      gap -= tip;
      area -= tip;
    }
    return ratio(gap, area);
  }

 private:
  [[nodiscard]] static constexpr double to_double(tokens n) noexcept { return static_cast<double>(n.count()); }
  [[nodiscard]] static constexpr double to_double(duration d) noexcept { return static_cast<double>(d.ticks()); }
  /// When token `i` is due on the expected curve.
  [[nodiscard]] constexpr time_point due(tokens i) const noexcept {
    return start_ + tpot_ * static_cast<rep>(i.count());
  }
  /// 1 - gap / area, kept in [0, 1] against rounding.
  [[nodiscard]] static constexpr double ratio(double gap, double area) noexcept {
    if (!(gap > 0)) return 1.0;
    return gap < area ? 1.0 - gap / area : 0.0;
  }

  duration tpot_;
  time_point start_;
  tokens delivered_{};
  duration delay_{};
  double lag_ = 0;  ///< Sum of the delays of all tokens, in tick tokens: the area between the curves.
  bool finished_ = false;
};

using qoe_integrator = basic_qoe_integrator<>;  ///< On the default clock, from the first token.

TESSERA_NAMESPACE_END
