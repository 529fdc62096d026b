// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/fleet/pools.hpp>
#include <tessera/sim/cluster/controlled.hpp>
#include <tessera/sim/systems/disaggregated.hpp>

#include <memory>
#include <span>
#include <string>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace sim {

namespace published {
namespace {

/// A policy with `n` pools.
template <class Control>
policy with(std::size_t n, std::string name, std::string summary, std::string placement,
            pool_sizes (*usual)(std::size_t), Control (*make)(const cluster_options&)) {
  return with_pools(make_control_policy(
                        std::move(name), std::move(summary), fcfs_engines(),
                        [usual, make](const cluster_options& o, std::span<const trace_row>) {
                          return std::make_unique<disaggregated<Control>>(o.pools.value_or(usual(o.instances)),
                                                                          make(o));
                        },
                        n, std::move(placement)),
                    n);
}

/// The policy behind routers, each of which decides by itself: `fleet::pools`. @param config as that policy, but for
/// what the options say.
policy behind_routers(policy p, pool_sizes (*usual)(std::size_t), const fleet::pools_config& config) {
  p.run = [name = p.name, place = p.placement, alone = p.run, usual, config](
              const cluster_options& options, std::span<const trace_row> rows, const progress_callback& progress) {
    if (!options.routed) return alone(options, rows, progress);
    cluster_options o = options;
    if (!o.pools) o.pools = usual(o.instances);
    const auto make = [config](const cluster_options& of, const router_seat& seat) {
      fleet::pools_config c = config;
      c.block_size = of.instance.limits.block_size;
      c.kv_bytes_per_token = of.kv_bytes_per_token;
      const prefill_model model = calibrate_prefill(of.instance.timer, ttft_target(of.promised));
      return seated_controller{
          .decides = make_controller<fleet::pools>({.replicas = seat.instances, .requests = 1 << 16}, c),
          .places_by =
              c.by_phi ? "the highest Phi_T of those that prefill" : "the shortest queue of those that prefill",
          .moves_by = c.by_phi ? "the highest Phi_S of those that decode" : "the fewest requests of those that decode",
          .prefill = {.cost = model.cost, .budget = model.budget}};
    };
    cluster c{o, fcfs_engines(), std::make_unique<controlled>(make)};
    run_result result = c.run(rows, progress);
    result.numbers.policy = name;
    result.numbers.placement = place;
    return result;
  };
  return with_routers(std::move(p));
}

}  // namespace

policy distserve() {
  return behind_routers(
      with<sim::distserve>(2, "distserve", "half of the instances prefill, half decode, each the shortest queue",
                           "shortest queue", halves, [](const cluster_options&) { return sim::distserve{}; }),
      halves, fleet::distserve_pools);
}

policy splitwise() {
  return behind_routers(
      with<sim::splitwise>(3, "splitwise",
                           "prefill and decode pools by the shortest queue, and a mixed one that helps out",
                           "shortest queue", three_pools, [](const cluster_options&) { return sim::splitwise{}; }),
      three_pools, fleet::splitwise_pools);
}

policy phasor() {
  return behind_routers(
      with<phasor_control>(
          3, "phasor", "Phasor: prefill and decode pools by headroom, defragmented, workers change between them", "Phi",
          three_pools,
          [](const cluster_options& o) {
            return phasor_control{{.model = calibrate_prefill(o.instance.timer, ttft_target(o.promised))}};
          }),
      three_pools, {});
}

}  // namespace published

}  // namespace sim
TESSERA_NAMESPACE_END
