// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/partition/plan.hpp>
#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/model/step_time.hpp>

#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

/// @file
/// Stages planned for the work of instances over time, rather than for one batch.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The load of a plan.
struct steady_load {
  std::span<const trace_row> sample;  ///< At least one request.
  double rate = 1;                    ///< Requests per second of this kind.
  double kv_tokens = 0;               ///< Capacity of an instance.
  std::size_t max_batch = 256;        ///< Largest batch.
  std::size_t least = 1;              ///< Fewest instances of a stage, unless there is only one stage.
  double hand_over_s = 0.01;          ///< Seconds of a hand-over besides the step that it waits for.
  double most_handing = 0.6;          ///< Fraction of the time that an instance may spend on hand-overs; it does one at
                                      ///< a time.
};

/// Stages, and their expected gain.
struct steady_stages {
  std::vector<partition::stage> stages{};  ///< All instances, all lengths.
  double gain = 1;  ///< Requests in the system without stages, over those with these stages, at the planned rate. If no
                    ///< plan keeps up with the load, at the largest rate that one can. Infinity: without stages it
                    ///< cannot keep up with that. At least 1.
  double carried = 1;  ///< Fraction of the planned rate that is carried: less than 1 if no plan keeps up with all of
                       ///< it.
};

/// Divides lengths and instances into stages like CascadeInfer's planner (section 4.2), with another cost of a stage.
///
/// The published cost is that of a sample in flight all at once, in which every request is in the stage of its final
/// length. Here the load is a rate. A prompt is computed in the stage of its length, and each output token in the stage
/// of the length at which it is generated. Take a stage of k instances that spends a fraction p of the time on prompts
/// and generates x tokens a second on each. By Little's law its batch has
///
///     n = x T(n) / (1 - p),    T(n) = the decode step of n sequences of the stage's mean length and of its longest
///
/// requests, and its cost is k n plus the requests that wait for the prompts before theirs (Pollaczek and Khinchine).
/// So the plan has the fewest requests in the system, which means the least time in it. Three kinds of stages have no
/// finite cost. They cannot keep up (p + x T' >= 1), their batch does not fit, or they hand over more slowly than
/// requests outgrow them. So no plan overloads some instances while others are idle. If every plan is overloaded, the
/// rate is lowered until one is not. The longest of n sequences is taken to be the quantile 1 - 1 / (2 n) of the
/// lengths in the stage, by tokens generated.
///
/// Cuts are on a grid of four per doubling. O(instances cuts^2 (instances + cuts)) for each tried rate.
[[nodiscard]] steady_stages steady_plan(const step_timer& timer, const steady_load& load, std::size_t instances);

}  // namespace sim
TESSERA_NAMESPACE_END
