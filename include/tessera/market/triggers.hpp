// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/units.hpp>

#include <cstddef>
#include <span>

/// @file
/// When an instance offers requests on the market (CascadeInfer, section 4.4).

TESSERA_NAMESPACE_BEGIN
namespace market {

/// Hand-over to the next stage: a sequence has outgrown the range [.., end) of its stage.
[[nodiscard]] constexpr bool outgrows(tokens length, tokens range_end) noexcept { return length >= range_end; }

/// Rebalancing within a stage: for an instance with a demand above the mean of its stage by more than a factor.
struct rebalance {
  double threshold = 1.25;  ///< At least 1.

  /// The demand of `self` above the mean of its stage, itself included, if it exceeds the threshold, else 0: how much
  /// it should offer. The mean is rounded up. O(instances). Requires: `self < demands.size()`, no demand is negative.
  [[nodiscard]] constexpr tokens excess(std::span<const tokens> demands, std::size_t self) const noexcept {
    TESSERA_ASSERT(self < demands.size(), "the instance is in its stage");
    TESSERA_ASSERT(threshold >= 1, "load below the mean is not offered");
    tokens sum{};
    for (const tokens d : demands) sum += d;
    const auto n = static_cast<std::int64_t>(demands.size());
    const bool out = static_cast<double>(demands[self].count()) * static_cast<double>(n) >
                     threshold * static_cast<double>(sum.count());
    return out ? demands[self] - (sum + tokens{n - 1}) / n : tokens{};
  }
};

}  // namespace market
TESSERA_NAMESPACE_END
