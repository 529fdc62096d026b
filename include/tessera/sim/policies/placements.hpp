// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/named_placement.hpp>
#include <tessera/sim/error.hpp>
#include <tessera/sim/policies/placement_name.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

/// @file
/// The placement policies that come with the library, by name.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Those that a policy can be given which leaves the placement open.
[[nodiscard]] inline std::vector<named_placement> placements() {
  const auto named = []<class P>(P /*type*/, std::string_view summary) {
    return name_placement<P>(std::string{placement_name<P>}, std::string{summary});
  };
  return {
      named(placement::least_load{}, "the least KV that requests hold or wait for"),
      named(placement::least_kv{}, "the least KV that requests hold; does not see who waits"),
      named(placement::join_shortest_queue{}, "the fewest requests, running or waiting"),
      named(placement::round_robin{}, "one instance after the other"),
      named(placement::random{}, "any instance"),
      named(placement::power_of_two{}, "of two at random the one with fewer requests"),
      named(placement::fill_to_level<>{}, "at random among those below the level that this request and others' fill"),
      named(placement::highest_phi{}, "the largest part of the memory that nobody holds or waits for (Phi_S)"),
      named(placement::pascal_arrival{}, "PASCAL's Algorithm 1: least-load among those where all answers keep pace"),
      named(placement::lmetric{}, "the least of uncached prompt tokens times requests (LMetric)"),
      named(placement::prefix_affinity{}, "most of the prompt cached, unless it has 1.25 times the mean of requests"),
      named(placement::bounded_hashing{}, "by a hash of the prompt's beginning, unless it has 1.25 times the mean"),
      named(placement::dual_map{}, "of two by hashes, the one that has more cached while its queue is short (DualMap)"),
  };
}

/// The placement of that name. @throws usage_error that lists the names there are.
[[nodiscard]] inline named_placement find_placement(std::string_view name) {
  std::vector<std::string> names;
  for (named_placement& p : placements()) {
    if (p.name == name) return p;
    names.push_back(p.name);
  }
  throw usage_error{fmt::format("unknown placement {}; there are: {}", shown(name), fmt::join(names, ", "))};
}

}  // namespace sim
TESSERA_NAMESPACE_END
