// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/clock.hpp>

TESSERA_NAMESPACE_BEGIN
namespace order {
namespace detail {

/// `t` moved by `seconds`, forwards or back, rounded to the clock's ticks. If the clock cannot represent the result:
/// `never()` for a later time, and the opposite of `never()` for an earlier one.
template <clock_policy Clock>
[[nodiscard]] constexpr basic_time_point<Clock> moved_by(basic_time_point<Clock> t, double seconds) noexcept {
  using time_point = basic_time_point<Clock>;
  const double most = time_point::never().seconds();
  const double there = t.seconds() + seconds;
  // One second less than the largest value, so that the rounded value does not overflow.
  if (!(there < most - 1.0) || !(seconds < most - 1.0)) return time_point::never();
  if (!(there > 1.0 - most) || !(seconds > 1.0 - most)) return time_point{} - time_point::never().since_origin();
  return t + basic_duration<Clock>::from_seconds(seconds);
}

}  // namespace detail
}  // namespace order
TESSERA_NAMESPACE_END
