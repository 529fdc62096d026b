// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runs.hpp"

#include <tessera/sim/policies/policies.hpp>

namespace tessera_python {

std::vector<sim::policy> policies() { return sim::published_policies(); }

sim::policy pars_with(double threshold) {
  return sim::needing_scores(sim::make_policy<ts::pars<sim::request, ts::order::score_member, sim::kv_store>>(
      "pars", "PARS", {.threshold = ts::duration{threshold}}));
}

}  // namespace tessera_python
