// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../tool.hpp"

#include <tessera/sim/cluster/cluster_options.hpp>
#include <tessera/sim/cluster/fault.hpp>
#include <tessera/sim/measure/metrics.hpp>
#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/planning/pool_plan.hpp>
#include <tessera/sim/policies/policy.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

/// @file
/// Common steps of `replay` and `capacity` before and after a run.

namespace replay {

namespace sim = tessera::sim;

/// The periods of faults, as far as they are known in advance.
inline std::vector<sim::fault_time> fault_times(const std::vector<sim::fault>& faults) {
  std::vector<sim::fault_time> times;
  for (const sim::fault& f : faults) times.push_back({f.at_s, f.at_s + f.for_s});
  return times;
}

/// Adds to the numbers of a run the fraction that keeps the objectives, and the waits during faults.
inline void evaluate(sim::run_result& r, const std::vector<sim::slo_bound>& slo,
                     const std::vector<sim::fault>& faults) {
  r.numbers.slo = sim::evaluate_slo(slo, r.requests, r.window);
  r.numbers.ttft_in_fault = sim::describe_in_fault(fault_times(faults), r.requests, r.window);
}

/// Most requests of a trial that plans pools.
inline constexpr std::size_t trial_requests = 2000;

/// The first rows, up to the size of a trial.
[[nodiscard]] inline std::vector<sim::trace_row> trial_of(const std::vector<sim::trace_row>& rows) {
  return {rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(std::min(rows.size(), trial_requests))};
}

/// The pools of `--pools auto` for a policy, planned from the rows of the first seed.
inline sim::pool_plan plan_pools(const sim::policy& p, const sim::cluster_options& options,
                                 const std::vector<sim::trace_row>& rows, const std::vector<sim::slo_bound>& slo,
                                 tool::signal_guard& signals) {
  const std::vector<sim::trace_row> trial = trial_of(rows);
  sim::cluster_options o = options;
  o.faults.clear();
  return sim::plan_pools(o.instances, slo, p.pools == 3, [&](const sim::pool_sizes& sizes, double factor) {
    o.pools = sizes;
    o.warmup_s = o.drain_s = 0;
    return p.run(o, sim::hurried(trial, factor), [&](std::size_t) { signals.check(); });
  });
}

}  // namespace replay
