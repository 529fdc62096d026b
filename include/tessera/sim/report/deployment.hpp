// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/cluster_options.hpp>
#include <tessera/sim/cluster/cluster_size.hpp>
#include <tessera/sim/cluster/pool_sizes.hpp>
#include <tessera/sim/measure/metrics.hpp>

#include <functional>
#include <map>
#include <span>
#include <string>

/// @file
/// From a comparison to engines: which policy to take, and the commands that run it there.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// What was simulated, as far as real engines and routers are to be like it.
struct simulated_cluster {
  cluster_options options;                                 ///< Those of the runs.
  instance_size size{};                                    ///< As it was asked for.
  std::string profile{};                                   ///< The profile of an instance: a name, or a file.
  std::map<std::string, pool_sizes, std::less<>> pools{};  ///< By policy, if planned; otherwise as the options say.
};

/// The policy of a comparison that an operator would take, why, and the commands that run it, a line each. It is the
/// best of those that run in vLLM. What counts is goodput, if there are objectives and it differs; otherwise the
/// measure with which `format_verdict` begins. Policies that are better, and do not run there, are named with the
/// reason. Empty if all are alike, or if none runs there.
[[nodiscard]] std::string format_deployment(std::span<const replicates> rows, const simulated_cluster& at);

}  // namespace sim
TESSERA_NAMESPACE_END
