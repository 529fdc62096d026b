// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/cost/qoe_model.hpp>
#include <tessera/partition/range_refiner.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// The rules by which stages of a simulated cluster divide the lengths anew.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// How the ranges of the stages follow the lengths that there are (CascadeInfer, figure 15).
enum class refinement : std::uint8_t {
  none,     ///< As planned.
  quality,  ///< The least predicted Q: CascadeInfer's.
  count,    ///< As many requests on both sides.
  memory,   ///< As many tokens of KV on both sides.
};

/// A `partition::split_rule` that is chosen at run time.
struct refinement_rule {
  refinement kind = refinement::quality;  ///< Which rule.
  cost::qoe_model model{};                ///< For the rule by quality.

  /// The split that `kind` says.
  [[nodiscard]] std::size_t operator()(std::span<const cost::request_lengths> sorted) const noexcept {
    switch (kind) {
      case refinement::count: return partition::by_count{}(sorted);
      case refinement::memory: return partition::by_memory{}(sorted);
      case refinement::none:
      case refinement::quality: break;
    }
    return partition::by_quality{model}(sorted);
  }
};

}  // namespace sim
TESSERA_NAMESPACE_END
