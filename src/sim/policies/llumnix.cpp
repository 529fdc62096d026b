// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/sim/systems/llumnix.hpp>

#include <memory>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace sim {

namespace published {

policy llumnix() {
  return make_control_policy(
      "llumnix", "load-aware dispatch and live migration, in the manner of Llumnix", fcfs_engines(),
      [](const cluster_options&, std::span<const trace_row>) { return std::make_unique<sim::llumnix>(); }, 1,
      "freeness");
}

policy llumnix_published() {
  return make_control_policy(
      "llumnix-published", "Llumnix: as llumnix, but of what waits only the first counts, as published", fcfs_engines(),
      [](const cluster_options&, std::span<const trace_row>) {
        return std::make_unique<sim::llumnix>(sim::llumnix::config{.counts_queue = false});
      },
      1, "freeness");
}

}  // namespace published

}  // namespace sim
TESSERA_NAMESPACE_END
