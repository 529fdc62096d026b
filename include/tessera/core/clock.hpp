// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <compare>
#include <concepts>
#include <cstdint>
#include <limits>

/// @file
/// Time as the caller counts it. The library never reads a clock: every call that needs the time takes `now`.
///
/// A *clock policy* names the representation. `seconds_clock`: double seconds, the default, for simulators.
/// `nanoseconds_clock`: 64-bit integer ticks, for engines that must repeat a run bit for bit.

TESSERA_NAMESPACE_BEGIN

/// Chooses how time is represented.
/// Requires: (1) `C::rep` is a signed arithmetic type; (2) `C::ticks_per_second` is a positive constant.
/// Not checked: time never runs backwards between two calls to one object.
/// Models: `seconds_clock`, `nanoseconds_clock`.
template <class C>
concept clock_policy = (std::floating_point<typename C::rep> || std::signed_integral<typename C::rep>)&&requires {
  { C::ticks_per_second } -> std::convertible_to<double>;
  requires C::ticks_per_second > 0;
};

/// Double seconds.
struct seconds_clock {
  using rep = double;                              ///< What ticks are counted in.
  static constexpr double ticks_per_second = 1.0;  ///< One tick is one second.
};

/// Integer nanoseconds: exact sums, 292 years of range.
struct nanoseconds_clock {
  using rep = std::int64_t;                        ///< What ticks are counted in.
  static constexpr double ticks_per_second = 1e9;  ///< 10^9 ticks.
};

/// A span of time in ticks of `Clock`.
template <clock_policy Clock>
class basic_duration {
 public:
  using rep = typename Clock::rep;  ///< What ticks are counted in.

  constexpr basic_duration() noexcept = default;
  /// From a number of the clock's ticks.
  constexpr explicit basic_duration(rep ticks) noexcept : ticks_{ticks} {}

  /// Rounded to the nearest tick, so that 1.001 s is 1,001,000,000 ns whatever its double is. Requires a result that
  /// the representation can hold.
  [[nodiscard]] static constexpr basic_duration from_seconds(double s) noexcept {
    const double ticks = s * Clock::ticks_per_second;
    if constexpr (std::floating_point<rep>) {
      return basic_duration{static_cast<rep>(ticks)};
    } else {
      return basic_duration{static_cast<rep>(ticks < 0 ? ticks - 0.5 : ticks + 0.5)};
    }
  }
  /// Longer than any other duration.
  [[nodiscard]] static constexpr basic_duration forever() noexcept {
    if constexpr (std::numeric_limits<rep>::has_infinity) {
      return basic_duration{std::numeric_limits<rep>::infinity()};
    } else {
      return basic_duration{std::numeric_limits<rep>::max()};
    }
  }

  /// The number of ticks.
  [[nodiscard]] constexpr rep ticks() const noexcept { return ticks_; }
  /// The same in seconds; rounded if `double` is coarser than the clock.
  [[nodiscard]] constexpr double seconds() const noexcept {
    return static_cast<double>(ticks_) / Clock::ticks_per_second;
  }

  /// Exact if `rep` is an integer.
  constexpr basic_duration& operator+=(basic_duration d) noexcept {
    ticks_ += d.ticks_;
    return *this;
  }
  /// Exact if `rep` is an integer.
  constexpr basic_duration& operator-=(basic_duration d) noexcept {
    ticks_ -= d.ticks_;
    return *this;
  }
  /// The sum.
  friend constexpr basic_duration operator+(basic_duration a, basic_duration b) noexcept {
    return basic_duration{a.ticks_ + b.ticks_};
  }
  /// The difference; may be negative.
  friend constexpr basic_duration operator-(basic_duration a, basic_duration b) noexcept {
    return basic_duration{a.ticks_ - b.ticks_};
  }
  /// A multiple.
  friend constexpr basic_duration operator*(basic_duration a, rep k) noexcept { return basic_duration{a.ticks_ * k}; }
  /// A multiple.
  friend constexpr basic_duration operator*(rep k, basic_duration a) noexcept { return basic_duration{a.ticks_ * k}; }
  /// Memberwise.
  friend constexpr bool operator==(basic_duration, basic_duration) noexcept = default;
  /// In numeric order.
  friend constexpr auto operator<=>(basic_duration, basic_duration) noexcept = default;

 private:
  rep ticks_ = 0;
};

/// A moment on the caller's time line, in ticks of `Clock` since an origin of the caller's choice. No moment that is
/// passed to a component may lie before the origin.
template <clock_policy Clock>
class basic_time_point {
 public:
  using rep = typename Clock::rep;         ///< What ticks are counted in.
  using duration = basic_duration<Clock>;  ///< A length of time on that clock.

  constexpr basic_time_point() noexcept = default;
  /// From the time since the origin of the caller's time line.
  constexpr explicit basic_time_point(duration since_origin) noexcept : since_origin_{since_origin} {}

  /// `s` seconds after the origin, rounded to the clock's ticks.
  [[nodiscard]] static constexpr basic_time_point at_seconds(double s) noexcept {
    return basic_time_point{duration::from_seconds(s)};
  }
  /// Later than any other moment.
  [[nodiscard]] static constexpr basic_time_point never() noexcept { return basic_time_point{duration::forever()}; }

  /// The time since the origin.
  [[nodiscard]] constexpr duration since_origin() const noexcept { return since_origin_; }
  /// The same in seconds.
  [[nodiscard]] constexpr double seconds() const noexcept { return since_origin_.seconds(); }

  /// Moves it forwards, or back if `d` is negative.
  constexpr basic_time_point& operator+=(duration d) noexcept { return *this = *this + d; }
  /// `d` later. `never()` if `d` is `forever()` or the moment is `never()`.
  friend constexpr basic_time_point operator+(basic_time_point t, duration d) noexcept {
    if constexpr (std::integral<rep>) {
      if (d == duration::forever() || t == never()) return never();
    }
    return basic_time_point{t.since_origin_ + d};
  }
  /// `d` earlier.
  friend constexpr basic_time_point operator-(basic_time_point t, duration d) noexcept {
    return basic_time_point{t.since_origin_ - d};
  }
  /// The time from `b` to `a`.
  friend constexpr duration operator-(basic_time_point a, basic_time_point b) noexcept {
    return a.since_origin_ - b.since_origin_;
  }
  /// Memberwise.
  friend constexpr bool operator==(basic_time_point, basic_time_point) noexcept = default;
  /// In numeric order.
  friend constexpr auto operator<=>(basic_time_point, basic_time_point) noexcept = default;

 private:
  duration since_origin_{};
};

namespace detail {
/// Defaults for member initialisers of class templates, which must not call `from_seconds` themselves. With g++ 12 the
/// compiler crashes on that call if a default member initialiser of a user's class is the first to need it.
///
///     struct my_request { token_pacer pacer{{.tpot = 50_ms}}; };
template <clock_policy Clock, int Count>
inline constexpr basic_duration<Clock> milliseconds = basic_duration<Clock>::from_seconds(Count / 1e3);
}  // namespace detail

using duration = basic_duration<seconds_clock>;      ///< Double seconds.
using time_point = basic_time_point<seconds_clock>;  ///< Double seconds since the origin of your time line.

inline namespace literals {

/// Seconds.
constexpr duration operator""_s(long double s) noexcept { return duration{static_cast<double>(s)}; }
/// Seconds.
constexpr duration operator""_s(unsigned long long s) noexcept { return duration{static_cast<double>(s)}; }
/// Milliseconds.
constexpr duration operator""_ms(long double ms) noexcept { return duration{static_cast<double>(ms) / 1e3}; }
/// Milliseconds.
constexpr duration operator""_ms(unsigned long long ms) noexcept { return duration{static_cast<double>(ms) / 1e3}; }

}  // namespace literals
TESSERA_NAMESPACE_END
