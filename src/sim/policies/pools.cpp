// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/sim/systems/disaggregated.hpp>

#include <memory>
#include <span>

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

}  // namespace

policy distserve() {
  return with<sim::distserve>(2, "distserve", "half of the instances prefill, half decode, each the shortest queue",
                              "shortest queue", halves, [](const cluster_options&) { return sim::distserve{}; });
}

policy splitwise() {
  return with<sim::splitwise>(3, "splitwise",
                              "prefill and decode pools by the shortest queue, and a mixed one that helps out",
                              "shortest queue", three_pools, [](const cluster_options&) { return sim::splitwise{}; });
}

policy phasor() {
  return with<phasor_control>(
      3, "phasor", "Phasor: prefill and decode pools by headroom, defragmented, workers change between them", "Phi",
      three_pools, [](const cluster_options& o) {
        return phasor_control{{.model = calibrate_prefill(o.instance.timer, ttft_target(o.promised))}};
      });
}

}  // namespace published

}  // namespace sim
TESSERA_NAMESPACE_END
