// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/sim/planning/cascade_plan.hpp>
#include <tessera/sim/systems/cascade.hpp>

#include <memory>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace sim {

namespace published {

// Its stages are planned from the workload itself, as from a history of the same traffic.

policy cascade() {
  return with_most(
      make_control_policy(
          "cascade", "CascadeInfer: instances in stages by length, planned from this workload's lengths",
          fcfs_engines(),
          [](const cluster_options& o, std::span<const trace_row> rows) {
            return std::make_unique<sim::cascade>(published_cascade(plan_cascade(o, rows, arrival_rate(rows))));
          },
          1, "stages"),
      most_in_stages);
}

policy cascade_steady() {
  return with_most(make_control_policy(
                       "cascade-steady",
                       "as cascade, with stages planned for a steady load, and dispatch by what waits", fcfs_engines(),
                       [](const cluster_options& o, std::span<const trace_row> rows) {
                         return std::make_unique<sim::cascade>(
                             steady_cascade(plan_cascade(o, rows, arrival_rate(rows), layout::steady)));
                       },
                       1, "stages"),
                   most_in_stages);
}

}  // namespace published

}  // namespace sim
TESSERA_NAMESPACE_END
