// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The published policies, compiled once for all tools, tests and benchmarks of this project: see sim/policy.hpp.
#define TESSERA_POLICIES_SOURCE
#include <tessera/sim/policies.hpp>
