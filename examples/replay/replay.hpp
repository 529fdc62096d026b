// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/policies/policy.hpp>

#include <vector>

/// @file
/// The command line of `replay`: one workload, several policies, one table. Give it your own list of policies. It is
/// compiled once, in replay.cpp, whoever calls it.

namespace replay {

/// The whole program. Exit codes: see tool.hpp.
[[nodiscard]] int main(int argc, char** argv, const std::vector<tessera::sim::policy>& policies);

}  // namespace replay
