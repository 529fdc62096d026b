// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "replay.hpp"

#include <tessera/sim/policies/policies.hpp>

int main(int argc, char** argv) { return replay::main(argc, argv, tessera::sim::published_policies()); }
