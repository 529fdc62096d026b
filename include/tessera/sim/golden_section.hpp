// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <cmath>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Multiples of the golden section without their whole parts: they fill the interval from 0 to 1 evenly, however many
/// there are.
class golden_section {
 public:
  /// The next one. O(1).
  [[nodiscard]] double next() noexcept {
    part_ += 0.6180339887498949;
    part_ -= std::floor(part_);
    return part_;
  }

 private:
  double part_ = 0;
};

}  // namespace sim
TESSERA_NAMESPACE_END
