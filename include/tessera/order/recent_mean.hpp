// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

TESSERA_NAMESPACE_BEGIN
namespace order {

/// The mean of what came, in which what came long ago counts for less: of all at first, and from `memory` on each new
/// one counts for one in `memory`. It falls at once, and rises no faster than it may. All members O(1), no allocation.
class recent_mean {
 public:
  static constexpr double memory = 1000;  ///< How many it remembers, more or less.

  /// Remembers `x`, finite, that has come at `now`, in seconds, and tells by how much it exceeds the mean, itself
  /// included. The mean rises by at most `rise`, not negative, a second: who comes earlier than another before it
  /// raises nothing. The first is the mean.
  double excess(double x, double now, double rise) noexcept {
    if (count_ < memory) ++count_;
    double step = (x - mean_) / count_;
    if (count_ > 1) {
      const double most = now > heard_ ? rise * (now - heard_) : 0;
      if (step > most) step = most;
    }
    if (count_ == 1 || now > heard_) heard_ = now;
    mean_ += step;
    return x - mean_;
  }
  /// The mean; 0 before anything has come.
  [[nodiscard]] double value() const noexcept { return mean_; }

 private:
  double mean_ = 0;
  double count_ = 0;
  double heard_ = 0;
};

}  // namespace order
TESSERA_NAMESPACE_END
