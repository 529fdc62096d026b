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
/// Latencies of requests that are alone on an idle instance: a lower bound for every policy, rate and cluster size.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The properties of an idle instance.
struct idle_instance {
  step_timer timer;                 ///< Times its steps.
  std::int64_t token_budget = 1;    ///< Most tokens of a step.
  double host_request_seconds = 0;  ///< Before a request is scheduled.
};

/// The life of a request that is alone on an idle instance. The instance computes its prompt in the fewest steps, and
/// then a token in each step. Decode steps are costed at five contexts, evenly spread, and linearly between them. If a
/// prefix cache may have the prompt (`cached`), only its last token is computed. O(prompt / budget).
[[nodiscard]] request_record alone(const trace_row& row, const idle_instance& on, bool cached = false);

/// Objectives that requests miss even alone on an idle instance, a line each, with the reason; empty if there are none.
/// If a cache may have a prompt, it is assumed to have it, so the statement holds for every policy.
[[nodiscard]] std::string describe_idle_misses(std::span<const slo_bound> slo, std::span<const trace_row> rows,
                                               const idle_instance& on);

}  // namespace sim
TESSERA_NAMESPACE_END
