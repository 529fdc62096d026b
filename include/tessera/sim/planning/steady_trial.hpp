// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/planning/due_first_config.hpp>
#include <tessera/sim/planning/layout_trials.hpp>
#include <tessera/sim/systems/instance_layout.hpp>
#include <tessera/sim/systems/replanning.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

/// @file
/// The planner of `due-first`: a trial of traffic that goes on, and how long steps may be in it.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Most output tokens of a trial of traffic that goes on that has more than `first_trial` rows: some seconds to
/// simulate.
inline constexpr double most_tried_tokens = 3.2e7;

/// And with more rows than that it has no more than so many times those that were seen: a rate that is known from a few
/// requests says little of how long a queue will be after many.
inline constexpr std::size_t most_times_seen = 4;

/// Whether traffic that goes on can be tried.
enum class steady_trial : std::uint8_t {
  possible,    ///< It is what `layout_trials` try now.
  too_early,   ///< Of who is here at any time too little is known.
  impossible,  ///< There are too many instances, or nothing came, or all at once.
};

namespace detail {

/// Rows that a trial has, and as many requests come in it.
[[nodiscard]] std::size_t steady_trial_rows(std::span<const trace_row> rows);

/// From now on traffic is tried that goes on as it was seen, if that can be.
[[nodiscard]] steady_trial begin_steady_trial(const cluster_options& o, layout_trials& trials,
                                              const seen_traffic& seen);

/// Steps of some length, and what a trial says of them, where all instances do everything.
struct tried_steps {
  std::vector<tokens> bounds{};            ///< By instance: of the prompts in a step. Empty: the usual ones.
  std::optional<trial_outcome> outcome{};  ///< What the trial says; none: there was none.
};

/// Of `longer` bounds, in this order, the last that gains so much over those chosen before, which are first the `usual`
/// ones. Of those that there are, and shorter ones, no more is asked than that they do not lose. Longer steps compute
/// prompts with less of the device lost to decodes, and who is read waits for them: they can gain no more than is
/// waited for a first token. One doubling may lose and two gain much, where a queue goes away only by the second: so
/// all are tried while that much is waited. Where there can be no trial, those that there are.
[[nodiscard]] tried_steps try_steps(const due_first_config& config, std::span<const tokens> usual,
                                    std::span<const std::vector<tokens>> longer, layout_trials& trials,
                                    steady_trial trial, const instance_layout& now);

}  // namespace detail

}  // namespace sim
TESSERA_NAMESPACE_END
