// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/planning/due_first_config.hpp>
#include <tessera/sim/planning/layout_trials.hpp>
#include <tessera/sim/systems/instance_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

/// @file
/// The planner of `due-first`: trials of continuing traffic, and the length of steps in them.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What trials are made from.
struct seen_traffic {
  std::span<const trace_row> rows;  ///< The requests that are remembered: see `rows_of`.
  double rate = 0;                  ///< Requests a second.
  double lately = 0;                ///< In the last seconds; 0 if these were few.
  std::size_t ended = 0;            ///< Rows of requests that have ended.
  std::size_t here = 0;             ///< Requests that are being served.
  bool held = false;                ///< Whether `here` is constant: each request that ends is followed by another.
  bool behind = false;              ///< Whether the queue grows.
};

/// Most output tokens in a trial of continuing traffic with more than `first_trial` rows: some seconds of simulation.
inline constexpr double most_tried_tokens = 3.2e7;

/// A larger trial has at most this many times the requests seen. A rate known from a few requests says little about the
/// queue after many.
inline constexpr std::size_t most_times_seen = 4;

/// Whether continuing traffic can be tried.
enum class steady_trial : std::uint8_t {
  possible,    ///< It is the present subject of `layout_trials`.
  too_early,   ///< Too little is known about the present requests.
  impossible,  ///< There are too many instances, or no requests came, or all at once.
};

namespace detail {

/// Rows in a trial; the same number of requests arrives in it.
[[nodiscard]] std::size_t steady_trial_rows(std::span<const trace_row> rows);

/// Sets continuing traffic like the observed one as the subject of trials, if possible.
[[nodiscard]] steady_trial begin_steady_trial(const cluster_options& o, layout_trials& trials,
                                              const seen_traffic& seen);

/// A length of steps, and the result of its trial, where all instances do everything.
struct tried_steps {
  std::vector<tokens> bounds{};            ///< Bounds on the prompts in a step, by instance. Empty: the usual ones.
  std::optional<trial_outcome> outcome{};  ///< The result of the trial; none: there was no trial.
};

/// Tries the `longer` bounds in this order and returns the last that gains enough over the best so far; the `usual`
/// ones are the first. The present bounds, and shorter ones, need only not lose. Longer steps compute prompts with less
/// of the device lost to decodes, but readers wait for them. Their gain is limited by the wait for a first token.
/// One doubling may lose and two gain much, if only the second removes a queue. So all are tried while that wait is
/// long enough. If no trial is possible, the present bounds stay.
[[nodiscard]] tried_steps try_steps(const due_first_config& config, std::span<const tokens> usual,
                                    std::span<const std::vector<tokens>> longer, layout_trials& trials,
                                    steady_trial trial, const instance_layout& now);

}  // namespace detail

}  // namespace sim
TESSERA_NAMESPACE_END
