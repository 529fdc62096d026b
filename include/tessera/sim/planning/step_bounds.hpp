// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/cluster_options.hpp>
#include <tessera/sim/planning/due_first_config.hpp>
#include <tessera/sim/systems/disaggregated.hpp>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Longer steps count as not bounded.
inline constexpr double most_step_s = 1;

/// By instance: the prompt tokens in a step, beside one for each resident, for which a decode step of one sequence
/// leaves time in `seconds`. With a full batch, or late in a long prompt, a step takes longer: this bounds what prompts
/// add. At least one block, so that a slow device makes progress, and at most the limit of a step.
[[nodiscard]] std::vector<tokens> step_bounds(const cluster_options& o, const prefill_model& model, double seconds);

/// Longer bounds, in the order of trials: for twice `seconds`, four times, and so on below `most_step_s`, and for half
/// of the promised TPOT. (`due_first_config::step_s` is half of a usual promise.) None is longer than the promised
/// TPOT: longer steps break it for all that decode while prompts are computed.
[[nodiscard]] std::vector<std::vector<tokens>> longer_steps(const cluster_options& o, const prefill_model& model,
                                                            double seconds);

/// The same cluster with these bounds, by instance; empty: without bounds.
[[nodiscard]] cluster_options bounded_steps(cluster_options o, std::span<const tokens> bounds);
/// The same cluster with the prefill model and the default bound of `due-first`.
[[nodiscard]] cluster_options bounded_steps(const cluster_options& o);

}  // namespace sim
TESSERA_NAMESPACE_END
