// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/planning/cascade_plan.hpp>
#include <tessera/sim/planning/due_first_config.hpp>
#include <tessera/sim/planning/layout_trials.hpp>
#include <tessera/sim/planning/steady_trial.hpp>
#include <tessera/sim/systems/instance_layout.hpp>
#include <tessera/sim/systems/replanning.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

/// @file
/// The planner of `due-first`, as far as stages are concerned.

TESSERA_NAMESPACE_BEGIN
namespace sim {

namespace detail {

/// Stages that were tried.
struct tried_stages {
  cascade::config stages{};  ///< Which.
  bool bounded = false;      ///< Whether prompts are bounded in them.
  trial_outcome outcome{};   ///< What the trial says.
};

/// The best of three plans in the present trial, and whether prompts are bounded in it by `usual_steps`, by instance
/// (may be empty), each if it gains what `asked` says: large stages, or small ones (may be null), which are faster
/// where they hold up; or published ones, which carry more, but first tokens wait longer.
[[nodiscard]] tried_stages try_stages(const due_first_config& asked, std::span<const tokens> usual_steps,
                                      layout_trials& trials, const cascade_plan& large, const cascade_plan* small,
                                      const cascade_plan& published);

/// Stages, if the planner expects them to gain enough and a trial agrees; else together. `usual_steps` as for
/// `try_stages`; `without` says how it is without stages in the present trial, if that is known. Where there can be
/// none, the planner's word is taken.
[[nodiscard]] instance_layout staged_layout(const cluster_options& o, const due_first_config& config,
                                            std::span<const tokens> usual_steps, layout_trials& trials,
                                            steady_trial trial, const std::optional<trial_outcome>& without,
                                            const seen_traffic& seen, const instance_layout& now);

}  // namespace detail

}  // namespace sim
TESSERA_NAMESPACE_END
