// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/policies/policy.hpp>

#include <vector>

/// @file
/// The whole tool `replay`, with your own policies as rows beside the published ones:
///
///     int main(int argc, char** argv) {
///       auto policies = tessera::sim::published_policies();  // <tessera/sim/policies/policies.hpp>
///       policies.push_back(tessera::sim::make_policy<my_scheduler>("mine", "what it does"));
///       return tessera::sim::run_replay(argc, argv, policies);
///     }
///
/// It is not in the headers: link `tessera::replay`, from `find_package(tessera CONFIG REQUIRED COMPONENTS replay)`. It
/// is an archive, as are the published policies, so your policy is compiled alone.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The whole program: `replay --help` has its options. @param policies the names that `--policy` accepts.
/// @return 0; or 2 after one line on standard error that says what to correct. Or 128 and the number of the signal that
/// ended it.
[[nodiscard]] int run_replay(int argc, char** argv, const std::vector<policy>& policies);

/// The same with the orders that `--order` may name, instead of `composed_orders`. Without any there is no `--order`.
[[nodiscard]] int run_replay(int argc, char** argv, const std::vector<policy>& policies,
                             const std::vector<policy>& orders);

}  // namespace sim
TESSERA_NAMESPACE_END
