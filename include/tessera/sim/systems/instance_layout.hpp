// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/pool_sizes.hpp>
#include <tessera/sim/systems/cascade.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// How instances share the work.
enum class layout_kind : std::uint8_t {
  colocated,  ///< Each does everything.
  stages,     ///< By length: `cascade`.
  pools,      ///< Prompts and decodes disaggregated: `disaggregated`.
};

/// As tables call it.
[[nodiscard]] constexpr std::string_view to_string(layout_kind k) noexcept {
  switch (k) {
    case layout_kind::colocated: return "headroom";
    case layout_kind::stages: return "stages";
    case layout_kind::pools: return "pools";
  }
  return "?";
}

/// A layout of all instances, and why it was chosen.
struct instance_layout {
  layout_kind kind = layout_kind::colocated;  ///< Which of the following is read.
  cascade::config stages{};                   ///< For `layout_kind::stages`.
  pool_sizes pools{};                         ///< For `layout_kind::pools`.
  std::vector<tokens> bounds{};  ///< By instance: bounds of the prompts in a step. Empty: the usual bounds, in
                                 ///< stages none. In pools only for requests that were there before.
  bool tried = true;             ///< False: too little was known to try pools.
  std::string why{};             ///< In words.
};

/// Whether two layouts are so alike that a change is not worth it. Pools are alike if their sizes are the same. Other
/// layouts must have the same bounds. Stages must also have the same backlog weight and the same number; each boundary
/// may differ by a quarter, and each stage by one instance.
[[nodiscard]] inline bool alike(const instance_layout& a, const instance_layout& b) {
  if (a.kind != b.kind) return false;
  // In pools, bounds hold only for requests that were there before.
  if (a.kind == layout_kind::pools) return a.pools == b.pools;
  if (a.bounds != b.bounds) return false;
  if (a.kind == layout_kind::colocated) return true;
  if (a.stages.backlog_weight != b.stages.backlog_weight) return false;
  return std::equal(a.stages.stages.begin(), a.stages.stages.end(), b.stages.stages.begin(), b.stages.stages.end(),
                    [](const partition::stage& x, const partition::stage& y) {
                      const auto from_x = static_cast<double>(x.from.count());
                      const auto from_y = static_cast<double>(y.from.count());
                      const std::size_t most = std::max(x.instances, y.instances);
                      return from_x <= 1.25 * from_y && from_y <= 1.25 * from_x &&
                             most - std::min(x.instances, y.instances) <= 1;
                    });
}

/// Whether the present layout stays until the next plan gives it up, too. One plan is not enough, because near
/// saturation plans differ. Two are, even if they know too little for a trial, as under overload: `colocated` needs no
/// knowledge. Pools are given up at once by a plan that cannot wait and has tried them.
/// @param doubted the plan before would have given it up. @param urgent the plan was made because the queue grows or
/// more requests come.
[[nodiscard]] inline bool stays_once(const instance_layout& now, const instance_layout& next, bool doubted,
                                     bool urgent) noexcept {
  return now.kind != layout_kind::colocated && next.kind != now.kind && !doubted &&
         !(urgent && next.tried && now.kind == layout_kind::pools);
}

}  // namespace sim
TESSERA_NAMESPACE_END
