// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Which of its parts take part: all, unless one is to be measured by its absence.
struct due_first_config {
  bool predicts = true;     ///< Expected lengths are made of the scores; otherwise all requests expect the mean.
  bool by_headroom = true;  ///< Placement by headroom; otherwise the least load.
  bool bounded_steps =
      true;            ///< Prompts bounded by what they add to a step, but in stages; otherwise by the budget alone.
  bool stages = true;  ///< Stages where they are expected to gain `least_gain` and a trial says that they do.
  double least_gain = 1.25;       ///< Less is not worth the moves; see `steady_stages::gain`.
  double kept_gain = 1.1;         ///< And with less than this, stages that there are are given up.
  double least_stage_gain = 1.1;  ///< In mean end-to-end latency, in a trial.
  double least_full_gain = 1.1;   ///< For CascadeInfer's own plan, which takes all instances for full, instead of one
                                  ///< by which nobody waits long for a first token: likewise.
  bool pools = true;              ///< Prompts and decodes apart where a trial says that it gains `least_pool_gain`.
  double least_pool_gain = 1.02;  ///< In mean end-to-end latency.
  double pace = 0.1;              ///< Seconds a token of expected output is worth; see `order::earliest_due`.
  double revised = 2;             ///< See `order::earliest_due`; 1: nobody is expected anew while it reasons.
  double programs = 0;            ///< Weight of what a request's program has been given; see `rank::program_length`.
  double step_s = 0.05;           ///< See `bounded_steps`: half a target TPOT.
};

}  // namespace sim
TESSERA_NAMESPACE_END
