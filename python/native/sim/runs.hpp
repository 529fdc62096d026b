// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/policies/policy.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

/// @file
/// What is compiled once and slowly: the published policies, and those whose ideas come from outside.

namespace tessera_python {

namespace ts = tessera;
namespace sim = tessera::sim;

/// Chooses an instance for a new request.
using placement_function = std::function<std::size_t(const std::vector<sim::instance_view>&)>;

/// The published policies.
[[nodiscard]] std::vector<sim::policy> policies();

/// A scheduler (fcfs, pars, pascal) under a placement of one's own; without one, the instance that holds the least KV.
/// @param threshold seconds after which pars lets a request go ahead.
/// @throws usage_error for a scheduler that is not among them.
[[nodiscard]] sim::policy own_policy(std::string_view scheduler, double threshold, placement_function place);

}  // namespace tessera_python
