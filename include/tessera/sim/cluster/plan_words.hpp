// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/instance.hpp>
#include <tessera/sim/cluster/run_watcher.hpp>

#include <cstddef>

/// @file
/// Tells a `run_watcher` of the plan of a step.

TESSERA_NAMESPACE_BEGIN
namespace sim::detail {

/// Tells of the step that has begun at `from_s` on instance `at`: which requests are in it, which are not, and why. All
/// is read from the scheduler and its plan; nothing is changed.
void tell_of_plan(run_watcher& w, std::size_t at, double from_s, const instance& one);

}  // namespace sim::detail
TESSERA_NAMESPACE_END
