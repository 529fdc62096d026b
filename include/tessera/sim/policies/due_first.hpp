// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/planning/due_first_config.hpp>
#include <tessera/sim/policies/policy.hpp>

#include <span>

/// @file
/// What the four papers' systems give when they are put together: `tessera::due_first` on every instance, predicted
/// lengths, a bound on what prompts add to a step, placement by headroom; longer steps, stages or pools where a trial
/// says that they pay.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Simulates a workload under `due-first`. It knows nothing of the traffic beforehand but whether requests may share
/// prefixes, as an operator does, and what `history` says: earlier requests of the same kind, if there are any. What it
/// learns, and which layout it gives the instances, it finds from what it observes (`replanning`), and says so to
/// `cluster_options::watcher`; `summary::placement` has the layouts, in order.
[[nodiscard]] run_result run_due_first(const cluster_options& options, std::span<const trace_row> rows,
                                       std::span<const trace_row> history, const due_first_config& config,
                                       const progress_callback& progress);

}  // namespace sim
TESSERA_NAMESPACE_END
