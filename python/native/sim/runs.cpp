// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runs.hpp"

#include <tessera/sim/policies/policies.hpp>

namespace tessera_python {

std::vector<sim::policy> policies() { return sim::published_policies(); }

sim::policy pars_with(double threshold) { return sim::pars_policy("pars", "PARS", ts::duration{threshold}); }

}  // namespace tessera_python
