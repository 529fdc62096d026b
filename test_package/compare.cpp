// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The command line of replay, which is compiled in tessera::replay, over the published policies.
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/replay.hpp>

#include <iterator>

int main() {
  char words[][11] = {"compare", "--policy", "fcfs", "--workload", "azure-conv", "--requests", "50"};
  char* arguments[std::size(words) + 1] = {};
  for (std::size_t i = 0; i != std::size(words); ++i) arguments[i] = words[i];
  return tessera::sim::run_replay(std::size(words), arguments, tessera::sim::published_policies());
}
