// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runs.hpp"

#include <tessera/sim/policies/policies.hpp>

namespace tessera_python {

std::vector<sim::policy> policies() { return sim::published_policies(); }

}  // namespace tessera_python
