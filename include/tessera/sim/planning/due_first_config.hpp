// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Which of its parts take part: all, unless one is to be measured by its absence.
struct due_first_config {
  bool predicts = true;           ///< Expected lengths are made of the scores; otherwise it is as if there were none.
  bool by_headroom = true;        ///< Placement by headroom; otherwise the least load.
  bool bounded_steps = true;      ///< Prompts bounded by what they add to a step, in stages where a trial says that it
                                  ///< gains `least_bounded_gain`; otherwise by the budget alone.
  bool stages = true;             ///< Stages where they are expected to gain enough and a trial says that they do.
  double least_tried_gain = 1.1;  ///< With less than this they are not tried; see `steady_stages::gain`.
  double least_gain = 1.25;       ///< And where no trial can be made, less is not worth the moves,
  double kept_gain = 1.1;         ///< and with less than this, stages that there are are given up.
  double least_stage_gain = 1.1;  ///< In mean end-to-end latency, in a trial.
  double least_fine_gain = 1.02;  ///< For stages of any size instead of those that have a quarter of the instances at
                                  ///< least: likewise.
  double least_full_gain = 1.1;   ///< For CascadeInfer's own plan, which takes all instances for full, instead of one
                                  ///< by which nobody waits long for a first token: likewise.
  double least_bounded_gain = 1.02;  ///< For stages with prompts bounded as they are without stages: likewise.
  bool pools = true;                 ///< Prompts and decodes apart where a trial says that it gains `least_pool_gain`.
  double least_pool_gain = 1.02;     ///< In mean end-to-end latency.
  double least_step_gain = 1.1;      ///< For longer steps where there are no stages: likewise, for each of 100 ms and
                                     ///< so on, and half of a promised TPOT.
  double pace = 0.1;                 ///< Seconds a token of expected output is worth; see `order::earliest_due`.
  double revised = 2;                ///< See `order::earliest_due`; 1: nobody is expected anew while it reasons.
  double prompts = 32;   ///< For how many times what its prompt takes beyond the mean a request is held, where they
                         ///< share no prefixes; see `order::earliest_due::prompt_pace`.
  double programs = 0;   ///< Weight of what a request's program has been given; see `rank::program_length`.
  double step_s = 0.05;  ///< See `bounded_steps`: half a target TPOT.
};

/// A number of `due_first_config` that can be set by its name. A gain of 1e9 is found in no trial: no stages, no pools,
/// no longer steps, but where more promises are kept by them.
struct due_first_parameter {
  const char* name;              ///< That of the member.
  double due_first_config::*at;  ///< The member.
  double least;                  ///< What it must be at least,
  double most = 1e9;             ///< and at most.
};

/// All of them.
inline constexpr due_first_parameter due_first_parameters[] = {
    {"pace", &due_first_config::pace, 0},
    {"revised", &due_first_config::revised, 1},
    {"prompts", &due_first_config::prompts, 0},
    {"programs", &due_first_config::programs, 0},
    {"step_s", &due_first_config::step_s, 1e-4},
    {"least_tried_gain", &due_first_config::least_tried_gain, 0},
    {"least_gain", &due_first_config::least_gain, 0},
    {"kept_gain", &due_first_config::kept_gain, 0},
    {"least_stage_gain", &due_first_config::least_stage_gain, 0},
    {"least_fine_gain", &due_first_config::least_fine_gain, 0},
    {"least_full_gain", &due_first_config::least_full_gain, 0},
    {"least_bounded_gain", &due_first_config::least_bounded_gain, 0},
    {"least_pool_gain", &due_first_config::least_pool_gain, 0},
    {"least_step_gain", &due_first_config::least_step_gain, 0},
};

}  // namespace sim
TESSERA_NAMESPACE_END
