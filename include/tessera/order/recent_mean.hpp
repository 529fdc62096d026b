// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

TESSERA_NAMESPACE_BEGIN
namespace order {

/// The mean of what came, in which what came long ago counts for less: of all at first, and from `memory` on each new
/// one counts for one in `memory`. All members O(1), no allocation.
class recent_mean {
 public:
  static constexpr double memory = 1000;  ///< How many it remembers, more or less.

  /// Remembers `x`, finite, and tells by how much it exceeds the mean, itself included. 0 if all were alike.
  double excess(double x) noexcept {
    if (count_ < memory) ++count_;
    mean_ += (x - mean_) / count_;
    return x - mean_;
  }
  /// The mean; 0 before anything has come.
  [[nodiscard]] double value() const noexcept { return mean_; }

 private:
  double mean_ = 0;
  double count_ = 0;
};

}  // namespace order
TESSERA_NAMESPACE_END
