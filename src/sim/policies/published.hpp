// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/policies/policies.hpp>

#include <string>

// The published policies and the orders, each in a source of its own: `published_policies` and `composed_orders` list
// them.

TESSERA_NAMESPACE_BEGIN
namespace sim::published {

// fcfs.cpp
policy fcfs(std::string name, std::string summary);
policy fcfs();
policy sarathi();
policy sarathi_adaptive();

policy round_robin(std::string name, std::string summary);

// pascal.cpp
policy pascal();
policy two_phase(std::string name, std::string summary);

// pascal_paced.cpp
policy pascal_paced();
policy paced(std::string name, std::string summary);

// pars.cpp, and sjf.cpp
policy pars();
policy pars_unboosted(std::string name, std::string summary);
policy sjf();

policy hrrn();
policy trail(std::string name, std::string summary);
policy slack(std::string name, std::string summary);
policy slack_refusing();
policy attained(std::string name, std::string summary);
policy earliest_due(std::string name, std::string summary);
policy past_future();
policy least_lost();

// pools.cpp
policy distserve();
policy splitwise();
policy phasor();

// tenants.cpp
policy vtc();
policy dlpm();
policy longest_prefix(std::string name, std::string summary);

// kept_turns.cpp
policy continuum();
policy kvflow();

policy llumnix();

policy cascade();
policy cascade_steady();

}  // namespace sim::published
TESSERA_NAMESPACE_END
