// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/fleet/view.hpp>
#include <tessera/placement/concepts.hpp>
#include <tessera/sim/cluster/routing.hpp>

#include <concepts>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>

/// @file
/// Placement policies by name.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// A placement policy that is chosen when a program runs, for instance by its name on a command line.
struct named_placement {
  std::string name;             ///< As in `--placement`, and in tables.
  std::string summary;          ///< One line.
  bool reads_phases = false;    ///< As a `placement::phase_reader`.
  bool reads_prefixes = false;  ///< As a `placement::prefix_reader`.
  /// Makes the placement of a router. Its arguments are the instances and how many requests the other routers send
  /// meanwhile. It returns the index of the instance for a new request.
  std::function<std::function<std::size_t(const fleet::candidates<>&, double)>(const router_seat&)> make;
};

/// The policy `P` under a name.
template <std::default_initializable P>
[[nodiscard]] named_placement name_placement(std::string name, std::string summary) {
  return {std::move(name), std::move(summary), placement::phase_reader<P>, placement::prefix_reader<P>,
          [](const router_seat& seat) {
            P placement{};
            take_seat(placement, seat);
            return [placement](const fleet::candidates<>& v, double others) mutable {
              if constexpr (requires { placement.expected; }) placement.expected = others;
              return placement(v);
            };
          }};
}

}  // namespace sim
TESSERA_NAMESPACE_END
