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
  /// included. The mean rises by at most `rise`, not negative, a second, to where it would be if it rose at once: who
  /// comes earlier than another before it raises nothing. The first is the mean.
  double excess(double x, double now, double rise) noexcept {
    const bool first = count_ == 0;
    if (count_ < memory) ++count_;
    all_ += (x - all_) / count_;
    const double most = now > heard_ ? mean_ + rise * (now - heard_) : mean_;
    mean_ = first || all_ < most ? all_ : most;
    if (first || now > heard_) heard_ = now;
    return x - mean_;
  }
  /// The mean; 0 before anything has come.
  [[nodiscard]] double value() const noexcept { return mean_; }

 private:
  double mean_ = 0;
  double all_ = 0;  // what it would be if it rose at once
  double count_ = 0;
  double heard_ = 0;
};

}  // namespace order
TESSERA_NAMESPACE_END
