// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/fleet/llumnix.hpp>
#include <tessera/sim/cluster/controlled.hpp>

#include <memory>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace sim {

namespace published {

policy llumnix() {
  const auto make = [](const cluster_options&, std::span<const trace_row>) {
    return std::make_unique<controlled>([](const cluster_options&, const router_seat& seat) {
      fleet::llumnix::config config;
      take_seat(config, seat);
      return seated_controller{
          .decides = make_controller<fleet::llumnix>({.replicas = seat.instances}, config),
          .places_by = "the most free blocks for each request, less what its queue waits for",
          .moves_by =
              "it is the shortest that runs on the lowest instance, and goes to the highest; by free blocks "
              "for each request"};
    });
  };
  return with_routers(make_control_policy("llumnix", "load-aware dispatch and live migration, in the manner of Llumnix",
                                          fcfs_engines(), make, 1, "freeness"));
}

}  // namespace published

}  // namespace sim
TESSERA_NAMESPACE_END
