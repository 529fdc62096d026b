// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/policies/policy.hpp>

#include <vector>

/// @file
/// What is compiled once and slowly: whole simulations.

namespace tessera_python {

namespace ts = tessera;
namespace sim = tessera::sim;

/// The published policies.
[[nodiscard]] std::vector<sim::policy> policies();

}  // namespace tessera_python
