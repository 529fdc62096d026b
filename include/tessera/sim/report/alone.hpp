// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/trace_row.hpp>
#include <tessera/sim/measure/request_record.hpp>
#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/model/step_time.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

/// @file
/// What requests take alone on an idle instance: no policy, rate or size of the cluster gives them less.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What an idle instance needs to be known by.
struct idle_instance {
  step_timer timer;                 ///< Of its steps.
  std::int64_t token_budget = 1;    ///< Most tokens of a step.
  double host_request_seconds = 0;  ///< Before a request is scheduled.
};

/// The life of a request that is alone on an idle instance, which computes its prompt in the fewest steps and then a
/// token in each step. Decode steps are costed at five contexts, evenly spread, and linearly between them. Of a prompt
/// that may be found in a prefix cache (`cached`), only the last token is computed. O(prompt / budget).
[[nodiscard]] request_record alone(const trace_row& row, const idle_instance& on, bool cached = false);

/// Objectives that requests miss alone on an idle instance already, a line each, with why; empty if there are none.
/// Whose prompts may be found in a cache is taken to find them, so what is said is true of any policy.
[[nodiscard]] std::string describe_idle_misses(std::span<const slo_bound> slo, std::span<const trace_row> rows,
                                               const idle_instance& on);

}  // namespace sim
TESSERA_NAMESPACE_END
