// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The published policies, compiled once for all tools, tests and benchmarks of this project: see
// sim/policies/policy.hpp.
#define TESSERA_POLICIES_SOURCE
#include <tessera/sim/policies/policies.hpp>
