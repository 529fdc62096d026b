// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/fleet/cascade.hpp>
#include <tessera/sim/cluster/controlled.hpp>
#include <tessera/sim/planning/cascade_plan.hpp>
#include <tessera/sim/systems/cascade.hpp>

#include <cstddef>
#include <memory>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace sim {

namespace published {

namespace {

/// Behind routers, each decides by itself: `fleet::cascade`.
std::unique_ptr<cluster_control> routed_cascade(const cascade_plan& plan) {
  return std::make_unique<controlled>([plan](const cluster_options& o, const router_seat& seat) {
    fleet::cascade_config<> config{
        .stages = plan.stages, .refinement = {.rule = {plan.cost.model}}, .block_size = o.instance.limits.block_size};
    tokens most{};
    for (std::size_t i = 0; i != seat.instances; ++i) most = max(most, o.of(i).limits.max_length);
    // A plan may be of a history with longer requests than come now.
    if (most > tokens{1}) config.longest = max(most, plan.stages.back().from);
    const fleet::cascade_limits limits{
        .replicas = seat.instances, .stages = plan.stages.size(), .requests = 1 << 16, .transfers = 1024};
    return seated_controller{.decides = make_controller<fleet::cascade<>>(limits, config),
                             .places_by = "the least load of the first stage that takes its length",
                             .moves_by = "the best bid of the next stage, or of a peer with less load"};
  });
}

}  // namespace

// Its stages are planned from the workload itself, as from a history of the same traffic.

policy cascade() {
  const auto make = [](const cluster_options& o, std::span<const trace_row> rows) -> std::unique_ptr<cluster_control> {
    const cascade_plan plan = plan_cascade(o, rows, arrival_rate(rows));
    if (o.routed) return routed_cascade(plan);
    return std::make_unique<sim::cascade>(published_cascade(plan));
  };
  return with_routers(
      with_most(make_control_policy("cascade",
                                    "CascadeInfer: instances in stages by length, planned from this workload's lengths",
                                    fcfs_engines(), make, 1, "stages"),
                most_in_stages));
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
