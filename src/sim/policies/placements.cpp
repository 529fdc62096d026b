// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/cluster/named_placement.hpp>
#include <tessera/sim/cluster/placement_name.hpp>
#include <tessera/sim/error.hpp>
#include <tessera/sim/input/did_you_mean.hpp>
#include <tessera/sim/policies/placements.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

std::vector<named_placement> placements() {
  const auto named = []<class P>(P /*type*/) {
    return name_placement<P>(std::string{placement_name<P>}, std::string{placement_summary<P>});
  };
  return {
      named(placement::least_load{}),  named(placement::least_kv{}),        named(placement::join_shortest_queue{}),
      named(placement::round_robin{}), named(placement::random{}),          named(placement::pascal_arrival{}),
      named(placement::lmetric{}),     named(placement::prefix_affinity{}), named(placement::bounded_hashing{}),
      named(placement::dual_map{}),    named(placement::power_of_two{}),    named(placement::fill_to_level<>{}),
      named(placement::highest_phi{}),
  };
}

named_placement find_placement(std::string_view name) {
  std::vector<std::string> names;
  for (named_placement& p : placements()) {
    if (p.name == name) return p;
    names.push_back(p.name);
  }
  throw usage_error{fmt::format("unknown placement {}{}; there are: {}", shown(name),
                                did_you_mean(name, {names.begin(), names.end()}), fmt::join(names, ", "))};
}

}  // namespace sim
TESSERA_NAMESPACE_END
