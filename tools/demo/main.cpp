// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The program of script/demo: replay with four policies.

#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/replay.hpp>

int main(int argc, char** argv) { return tessera::sim::run_replay(argc, argv, tessera::sim::shown_policies(), {}); }
