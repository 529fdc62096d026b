// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/units.hpp>
#include <tessera/pacing/config.hpp>

/// @file
/// The token pacer of one answer: buffers generated tokens and releases them at reading speed (PASCAL, section II-C and
/// figure 3). It keeps a few numbers, not a list of tokens.

TESSERA_NAMESPACE_BEGIN

/// Says how many of a request's answering tokens have been released to its reader, how many wait, and when the reader
/// runs dry. Meant to be a member of the engine's request: 48 bytes, trivially copyable.
///
/// **The schedule.** Token i (counted from 0), delivered at g(i), is released at
///
///     r(0) = g(0);   r(i) = max(g(i), r(i-1) + tpot)
///
/// So the first token goes out at once, no two are closer than `tpot`, and the reader takes [r(i), r(i) + tpot) over
/// token i. The reader is *dry* from r(i) + tpot on while token i+1 is not there. A token that comes to a dry reader is
/// released at once, and the pace starts again from that moment. Lost time is never made up by releasing faster.
/// Tokens released without a dry spell between them form a *run*: r(i) = run start + (i - first of the run) tpot. It is
/// computed in this form and not by repeated addition, so long answers gather no rounding error.
///
/// Time must not run backwards: `now` of a query is not before the `now` of the latest `on_token`. Durations are in
/// ticks of `Clock`. Every member is O(1) and allocates nothing.
template <clock_policy Clock = seconds_clock>
class basic_token_pacer {
 public:
  using clock_type = Clock;                    ///< The clock of all time points and durations of the interface.
  using rep = typename Clock::rep;             ///< The type of a number of ticks.
  using duration = basic_duration<Clock>;      ///< A length of time on that clock.
  using time_point = basic_time_point<Clock>;  ///< A moment on that clock.
  using config = basic_pacing_config<Clock>;   ///< Parameters of the parts; each is described at its own type.

  /// Requires `c.tpot > 0` (asserted).
  constexpr explicit basic_token_pacer(const config& c = {}) noexcept : tpot_{c.tpot} {
    TESSERA_ASSERT(tpot_ > duration{}, "the time per output token must be positive");
  }

  /// `n` answering tokens were generated, all at `now` (more than one: speculative decoding, or a late reader of the
  /// engine's output). Requires `n >= 1`, a `now` not before the previous one
  /// (asserted as far as the current run goes back), and no `finish()` before (asserted).
  constexpr void on_token(time_point now, tokens n = tokens{1}) noexcept {
    TESSERA_ASSERT(n > tokens{}, "at least one token must be delivered");
    TESSERA_ASSERT(!finished_, "a token after the end of the answer");
    if (delivered_ == tokens{}) {
      first_release_ = run_start_ = now;
    } else {
      TESSERA_ASSERT(!(now < run_start_), "time runs backwards");
      if (slot(delivered_) < now) {
        run_start_ = now;
        run_first_ = delivered_;
      }
    }
    delivered_ += n;
  }

  /// No more tokens will come. Idempotent.
  constexpr void finish() noexcept { finished_ = true; }
  /// Whether `finish` was called.
  [[nodiscard]] constexpr bool finished() const noexcept { return finished_; }

  /// The time in which a reader takes in one token.
  [[nodiscard]] constexpr duration tpot() const noexcept { return tpot_; }
  /// Tokens generated.
  [[nodiscard]] constexpr tokens delivered() const noexcept { return delivered_; }

  /// Tokens with a release time up to `now`. (If `now` is before the current run: the tokens before that run.)
  [[nodiscard]] constexpr tokens released(time_point now) const noexcept {
    if (delivered_ == tokens{}) return tokens{};
    if (!(now < slot(delivered_ - tokens{1}))) return delivered_;
    if (now < run_start_) return run_first_;
    // Below the last slot, so the quotient is small; in floating point it may be one off in either direction.
    tokens i = run_first_ + tokens{static_cast<tokens::rep>((now - run_start_).ticks() / tpot_.ticks())};
    if (now < slot(i)) {
      i -= tokens{1};
    } else if (!(now < slot(i + tokens{1}))) {
      i += tokens{1};
    }
    return i + tokens{1};
  }

  /// Tokens generated and not yet released: `delivered() - released(now)`.
  [[nodiscard]] constexpr tokens buffered(time_point now) const noexcept { return delivered_ - released(now); }

  /// When the next buffered token goes out, after `now`; `never()` if nothing is buffered.
  [[nodiscard]] constexpr time_point next_release(time_point now) const noexcept {
    const tokens out = released(now);
    return out < delivered_ ? slot(out) : time_point::never();
  }

  /// When the reader runs dry if nothing more comes: `tpot` after the release of the last token there is. A token
  /// delivered at this moment or before keeps the pace. `never()` before the first token and once finished. May lie in
  /// the past: then the reader has been dry since.
  [[nodiscard]] constexpr time_point starves_at() const noexcept {
    return delivered_ == tokens{} || finished_ ? time_point::never() : slot(delivered_);
  }

  /// Whether the reader is waiting for a token: dry, and the answer is not over. False before the first token: that
  /// wait is judged by TTFAT.
  [[nodiscard]] constexpr bool starving(time_point now) const noexcept { return starves_at() < now; }

  /// The reader's delay against a reader of the same answer that never ran dry: the sum of the dry spells since the
  /// first token. 0 before the first token.
  [[nodiscard]] constexpr duration behind(time_point now) const noexcept {
    if (delivered_ == tokens{}) return duration{};
    const duration past = run_start_ - (first_release_ + pace(run_first_));
    return starving(now) ? past + (now - slot(delivered_)) : past;
  }

  /// Whether the answer is over and all of it has been released.
  [[nodiscard]] constexpr bool drained(time_point now) const noexcept { return finished_ && buffered(now) == tokens{}; }

 private:
  [[nodiscard]] constexpr duration pace(tokens n) const noexcept { return tpot_ * static_cast<rep>(n.count()); }
  /// When token `i` of the current run, or the first one to come, is due.
  [[nodiscard]] constexpr time_point slot(tokens i) const noexcept { return run_start_ + pace(i - run_first_); }

  duration tpot_;
  time_point first_release_{};
  time_point run_start_{};
  tokens run_first_{};
  tokens delivered_{};
  bool finished_ = false;
};

using token_pacer = basic_token_pacer<>;  ///< On the default clock.

TESSERA_NAMESPACE_END
