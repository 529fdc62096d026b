// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A source of its own, so that a program with its own orders links none of the library's.

#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/replay.hpp>

#include <vector>

TESSERA_NAMESPACE_BEGIN
int sim::run_replay(int argc, char** argv, const std::vector<policy>& policies) {
  return run_replay(argc, argv, policies, composed_orders());
}
TESSERA_NAMESPACE_END
