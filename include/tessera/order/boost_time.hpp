// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/clock.hpp>

TESSERA_NAMESPACE_BEGIN
namespace order {
namespace detail {

/// `t` moved by so many seconds, forwards or back, rounded to the clock's ticks. Where the clock cannot tell that time:
/// `never()` for a later one, and for an earlier one the time as long before the origin.
template <clock_policy Clock>
[[nodiscard]] constexpr basic_time_point<Clock> moved_by(basic_time_point<Clock> t, double seconds) noexcept {
  using time_point = basic_time_point<Clock>;
  const double most = time_point::never().seconds();
  const double there = t.seconds() + seconds;
  // A second less than the most: what is rounded here must not overflow there.
  if (!(there < most - 1.0) || !(seconds < most - 1.0)) return time_point::never();
  if (!(there > 1.0 - most) || !(seconds > 1.0 - most)) return time_point{} - time_point::never().since_origin();
  return t + basic_duration<Clock>::from_seconds(seconds);
}

}  // namespace detail
}  // namespace order
TESSERA_NAMESPACE_END
