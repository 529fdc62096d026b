// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/planning/cascade_plan.hpp>
#include <tessera/sim/planning/due_first_config.hpp>
#include <tessera/sim/planning/layout_trials.hpp>
#include <tessera/sim/planning/steady_trial.hpp>
#include <tessera/sim/systems/instance_layout.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

/// @file
/// The part of the planner of `due-first` for stages.

TESSERA_NAMESPACE_BEGIN
namespace sim {

namespace detail {

/// Tried stages.
struct tried_stages {
  cascade::config stages{};  ///< The stages.
  bool bounded = false;      ///< Whether prompts are bounded in them.
  trial_outcome outcome{};   ///< The result of the trial.
};

/// The best of three plans in the present trial, with or without bounds on prompts. Each must gain what `asked`
/// requires. Large stages. Small ones (may be null), which are faster if they hold up. Published ones, which carry
/// more, but first tokens wait longer. `usual_steps`: the bounds, by instance; may be empty.
[[nodiscard]] tried_stages try_stages(const due_first_config& asked, std::span<const tokens> usual_steps,
                                      layout_trials& trials, const cascade_plan& large, const cascade_plan* small,
                                      const cascade_plan& published);

/// Stages, if the planner expects enough gain and a trial confirms it; else colocated. `usual_steps` as for
/// `try_stages`; `without` is the outcome without stages in the present trial, if known. If no trial is possible, the
/// planner decides.
[[nodiscard]] instance_layout staged_layout(const cluster_options& o, const due_first_config& config,
                                            std::span<const tokens> usual_steps, layout_trials& trials,
                                            steady_trial trial, const std::optional<trial_outcome>& without,
                                            const seen_traffic& seen, const instance_layout& now);

}  // namespace detail

}  // namespace sim
TESSERA_NAMESPACE_END
