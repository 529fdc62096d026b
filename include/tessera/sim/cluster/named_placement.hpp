// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/instance_view.hpp>
#include <tessera/sim/cluster/routing.hpp>

#include <concepts>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

/// @file
/// Placement policies by name.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// A placement or migration policy that looks at the phases: it has a true constant `reads_phases`.
template <class P>
concept phase_reader = requires { requires P::reads_phases; };

/// A placement policy that looks at what is cached: it has a true constant `reads_prefixes`.
template <class P>
concept prefix_reader = requires { requires P::reads_prefixes; };

/// A placement policy that is chosen when a program runs, for instance by its name on a command line.
struct named_placement {
  std::string name;             ///< As in `--placement`, and in tables.
  std::string summary;          ///< One line.
  bool reads_phases = false;    ///< As a `phase_reader`.
  bool reads_prefixes = false;  ///< As a `prefix_reader`.
  /// Makes one for a router: from the instances, and how many requests the other routers send meanwhile, to the index
  /// of the one for a new request.
  std::function<std::function<std::size_t(const std::vector<instance_view>&, double)>(const router_seat&)> make;
};

/// The policy `P` under a name.
template <std::default_initializable P>
[[nodiscard]] named_placement name_placement(std::string name, std::string summary) {
  return {std::move(name), std::move(summary), phase_reader<P>, prefix_reader<P>, [](const router_seat& seat) {
            P placement{};
            take_seat(placement, seat);
            return [placement](const std::vector<instance_view>& v, double others) mutable {
              expect_others(placement, others);
              return placement(v);
            };
          }};
}

}  // namespace sim
TESSERA_NAMESPACE_END
