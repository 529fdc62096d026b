// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/cluster_options.hpp>
#include <tessera/sim/cluster/cluster_size.hpp>
#include <tessera/sim/input/trace_row.hpp>
#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/policies/policy.hpp>

#include <span>
#include <string>
#include <vector>

/// @file
/// Remarks on an experiment that its numbers do not show.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The objectives that an idle instance misses; empty if there are none, or if there are instances of several kinds.
[[nodiscard]] std::string describe_idle(std::span<const machines> cluster, const cluster_options& options,
                                        std::span<const trace_row> rows, std::span<const slo_bound> slo);

/// Remarks on a load on these instances before any run, a line each. They are about objectives that an idle instance
/// misses, prompts beyond the model's context, arrivals in ticks, and profiles that were not measured.
/// @param has_times rows have arrivals of their own, and no sessions: only then are ticks looked for.
[[nodiscard]] std::string describe_load(std::span<const machines> cluster, const cluster_options& options,
                                        const std::vector<trace_row>& rows, std::span<const slo_bound> slo,
                                        bool has_times);

/// The policies that divide the instances by a rule, without a plan. Empty if there are none. @param pools as
/// requested.
[[nodiscard]] std::string name_unplanned(std::span<const policy> policies, const std::string& pools, bool has_slo);

}  // namespace sim
TESSERA_NAMESPACE_END
