// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/planning/due_first_config.hpp>
#include <tessera/sim/planning/layout_trials.hpp>
#include <tessera/sim/planning/pool_plan.hpp>
#include <tessera/sim/planning/staged_layout.hpp>
#include <tessera/sim/planning/steady_trial.hpp>
#include <tessera/sim/systems/instance_layout.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// @file
/// The planner of `due-first`: finds the layout that is expected to be best for the traffic seen.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The speed-up required for other sizes of the present pools. A change comes late, so it must pay well.
inline constexpr double least_size_gain = 1.1;
/// The speed-up required of pools over instances that do everything, if the queue grows with the latter.
inline constexpr double least_behind_gain = 1.1;
/// A trial of pools lasts at least this many times the latency of a request.
inline constexpr double trial_lengths = 3;
/// Pools have to pay on average over the rate that was seen and this many times that rate,
inline constexpr double busier = 1.15;
/// or the factor by which requests have come faster lately, up to this limit: it is known from few requests.
inline constexpr double busiest = 2;

namespace detail {}  // namespace detail

/// The layout that is expected to be best. Candidates are stages, with or without the bounds `usual_steps` (by
/// instance), and pools. A further one is all instances alike, with the usual bounds or some of `longer_steps`. Trials
/// decide, by the promises kept and then by the mean end-to-end latency. The present layout needs a smaller gain.
/// Either bounds may be empty: they are not tried.
[[nodiscard]] instance_layout best_layout(const cluster_options& o, const due_first_config& config,
                                          std::span<const tokens> usual_steps,
                                          std::span<const std::vector<tokens>> longer_steps, layout_trials& trials,
                                          const seen_traffic& seen, const instance_layout& now);

}  // namespace sim
TESSERA_NAMESPACE_END
