// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/fleet/llumnix.hpp>
#include <tessera/sim/cluster/controlled.hpp>

namespace tessera_test {

/// The control of a cluster by `fleet::llumnix`.
inline tessera::sim::controlled llumnix_control(const tessera::fleet::llumnix::config& config = {}) {
  using namespace tessera;
  return sim::controlled{[config](const sim::cluster_options&, const sim::router_seat& seat) {
    return sim::seated_controller{.decides = sim::make_controller<fleet::llumnix>({.replicas = seat.instances}, config),
                                  .places_by = "freeness",
                                  .moves_by = "freeness"};
  }};
}

}  // namespace tessera_test
