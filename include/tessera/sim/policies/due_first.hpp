// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/planning/due_first_config.hpp>
#include <tessera/sim/policies/policy.hpp>

#include <span>

/// @file
/// The systems of four papers, combined: `tessera::due_first` on every instance, predicted lengths, a bound on the
/// prefill tokens of a step, placement by headroom. Longer steps, stages or pools are used if a trial shows that they
/// pay.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Simulates a workload under `due-first`. In advance it knows only what an operator knows: whether requests may share
/// prefixes, and `history`, earlier requests of the same kind, if any. It learns the rest, and the layout of the
/// instances, from what it observes (`replanning`), and reports it to `cluster_options::watcher`. `summary::placement`
/// has the layouts, in order.
///
/// Behind routers (`cluster_options::routed`) it is what a fleet runs: each router has a `fleet::layout_controller`,
/// and `layout_planner` makes its plans. There `history` is not read. Stages are the controller's: a request that
/// outgrows its range is moved by its router. Without routers instances trade such requests (`cascade`).
[[nodiscard]] run_result run_due_first(const cluster_options& options, std::span<const trace_row> rows,
                                       std::span<const trace_row> history, const due_first_config& config,
                                       const progress_callback& progress);

}  // namespace sim
TESSERA_NAMESPACE_END
