// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The parts that are active: all of them, unless the effect of one is to be measured.
struct due_first_config {
  bool predicts = true;           ///< Scores are turned into expected lengths; otherwise they are ignored.
  bool by_headroom = true;        ///< Placement by headroom; otherwise the least load.
  bool bounded_steps = true;      ///< Prompts are bounded by the time that they add to a step; in stages if a trial
                                  ///< shows a gain of `least_bounded_gain`. Otherwise by the budget alone.
  bool stages = true;             ///< Stages, if their expected gain suffices and a trial confirms it.
  double least_tried_gain = 1.1;  ///< With a smaller expected gain they are not tried; see `steady_stages::gain`.
  double least_gain = 1.25;       ///< If no trial is possible, a smaller one does not justify the moves;
  double kept_gain = 1.1;         ///< with a smaller one, present stages are given up.
  double least_stage_gain = 1.1;  ///< In mean end-to-end latency, in a trial.
  double least_fine_gain = 1.02;  ///< For stages of any size instead of those with at least a quarter of the instances:
                                  ///< likewise.
  double least_full_gain = 1.1;   ///< For CascadeInfer's own plan, which assumes full instances, instead of the plan
                                  ///< with short waits for first tokens: likewise.
  double least_bounded_gain = 1.02;  ///< For stages with the prompt bounds used without stages: likewise.
  bool pools = true;                 ///< Prompts and decodes on different instances, if a trial shows a gain of
                                     ///< `least_pool_gain`.
  double least_pool_gain = 1.02;     ///< In mean end-to-end latency.
  double least_step_gain = 1.1;      ///< For longer steps without stages: likewise, for each of 100 ms and so on, and
                                     ///< half of a promised TPOT.
  double pace = 0.1;                 ///< Seconds per token of expected output; see `order::earliest_due`.
  double revised = 2;                ///< See `order::earliest_due`; 1: expectations are not updated while a request
                                     ///< reasons.
  double prompts = 32;   ///< A request is held for this many times the time of its prompt beyond the mean, if requests
                         ///< share no prefixes; see `order::earliest_due::prompt_pace`.
  double programs = 0;   ///< Weight of the service of a request's program; see `rank::program_length`.
  double step_s = 0.05;  ///< See `bounded_steps`: half a target TPOT.
};

/// A number of `due_first_config` that can be set by name. The gains cannot: another value buys one measure with
/// another (docs/results/due_first), and 1e9 turns a part off, except where it keeps more promises.
struct due_first_parameter {
  const char* name;              ///< The member's name.
  double due_first_config::*at;  ///< The member.
  double least;                  ///< Its least
  double most = 1e9;             ///< and largest value.
};

/// All parameters.
inline constexpr due_first_parameter due_first_parameters[] = {
    {"pace", &due_first_config::pace, 0},        {"revised", &due_first_config::revised, 1},
    {"prompts", &due_first_config::prompts, 0},  {"programs", &due_first_config::programs, 0},
    {"step_s", &due_first_config::step_s, 1e-4},
};

}  // namespace sim
TESSERA_NAMESPACE_END
