// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/planning/due_first_config.hpp>
#include <tessera/sim/planning/layout_trials.hpp>
#include <tessera/sim/planning/pool_plan.hpp>
#include <tessera/sim/planning/staged_layout.hpp>
#include <tessera/sim/planning/steady_trial.hpp>
#include <tessera/sim/systems/instance_layout.hpp>
#include <tessera/sim/systems/replanning.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// @file
/// The planner of `due-first`: which layout is expected to be best for the traffic that was seen.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// So many times as fast other sizes of the pools that there are have to be, for whoever changes over is late.
inline constexpr double least_size_gain = 1.1;
/// And so many times as fast as together those have to be in which the queue grows.
inline constexpr double least_behind_gain = 1.1;
/// A trial of pools lasts at least so many times as long as a request takes.
inline constexpr double trial_lengths = 3;
/// Pools have to pay on average of the rate that was seen and so many times that rate,
inline constexpr double busier = 1.15;
/// or as many times as requests have come faster lately, but no more than so many: that is known from few.
inline constexpr double busiest = 2;

namespace detail {}  // namespace detail

/// The layout that is expected to be best: stages, with or without the bounds `usual_steps`, by instance, or pools, or
/// all instances alike, with the usual bounds or some of `longer_steps`, where trials say so, by the promises that are
/// kept and then by the mean end-to-end latency. The layout that there is need not gain as much. Either bounds may be
/// empty: they are not tried.
[[nodiscard]] instance_layout best_layout(const cluster_options& o, const due_first_config& config,
                                          std::span<const tokens> usual_steps,
                                          std::span<const std::vector<tokens>> longer_steps, layout_trials& trials,
                                          const seen_traffic& seen, const instance_layout& now);

}  // namespace sim
TESSERA_NAMESPACE_END
