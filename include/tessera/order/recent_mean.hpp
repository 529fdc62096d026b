// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

TESSERA_NAMESPACE_BEGIN
namespace order {

/// A mean in which old values count for less. At first it is the mean of all values; from `memory` values on, each new
/// one counts for one in `memory`. It falls at once, and rises no faster than allowed. All members O(1), no allocation.
class recent_mean {
 public:
  static constexpr double memory = 1000;  ///< About how many values it remembers.

  /// Adds `x`, finite, at `now`, in seconds, and returns its excess over the mean, `x` included. The mean rises by at
  /// most `rise`, not negative, per second, towards its unbounded value. Values that come at the same time as an
  /// earlier one do not raise it. The first value is the mean.
  double excess(double x, double now, double rise) noexcept {
    const bool first = count_ == 0;
    if (count_ < memory) ++count_;
    all_ += (x - all_) / count_;
    const double most = now > heard_ ? mean_ + rise * (now - heard_) : mean_;
    mean_ = first || all_ < most ? all_ : most;
    if (first || now > heard_) heard_ = now;
    return x - mean_;
  }
  /// The mean; 0 before the first value.
  [[nodiscard]] double value() const noexcept { return mean_; }

 private:
  double mean_ = 0;
  double all_ = 0;  // the mean without a bound on its rise
  double count_ = 0;
  double heard_ = 0;
};

}  // namespace order
TESSERA_NAMESPACE_END
