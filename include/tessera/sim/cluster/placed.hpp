// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/fleet/placing.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/sim/cluster/controlled.hpp>
#include <tessera/sim/cluster/named_placement.hpp>
#include <tessera/sim/cluster/placement_name.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

/// @file
/// A cluster under a placement policy and a migration policy.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// One quantum of answer in blocks of the usual 16 tokens: what PASCAL wants free before an answer stays.
inline constexpr blocks quantum_blocks{32};

namespace detail {

/// A placement that is chosen by name, as a placement policy.
struct chosen_by_name {
  std::function<std::size_t(const fleet::candidates<>&, double)> choose;
  fleet::reading reading{};
  double expected = 0;

  [[nodiscard]] fleet::reading reads() const noexcept { return reading; }
  [[nodiscard]] std::size_t operator()(const fleet::candidates<>& all) { return choose(all, expected); }
};

}  // namespace detail

/// The control of a placement policy for new requests and a migration policy for those that begin to answer: a
/// `fleet::placing`. Where the cluster's options name a placement, it is that instead.
/// @tparam Placement from `fleet::candidates` to the index of the instance for a new request. Each router begins at
///         another place among equals, and random policies draw from a seed of each router.
/// @tparam Migration a request that begins to answer asks it where to go on. Its arguments are the candidates, the
///         current index and the blocks needed there and elsewhere. It returns the index of an instance.
template <class Placement = placement::least_load, class Migration = placement::stay>
class placed : public controlled {
 public:
  /// Uses these policies, or copies of them.
  placed(const Placement& placement = {}, const Migration& migration = {})
      : controlled{[placement, migration](const cluster_options& o, const router_seat& seat) {
          seated_controller s{.decides = {}, .places_by = {}, .moves_by = std::string{placement_summary<Migration>}};
          if (const auto& other = o.placement) {
            using by_name = fleet::placing<detail::chosen_by_name, Migration>;
            s.decides = std::make_shared<by_name>(
                detail::chosen_by_name{other->make(seat),
                                       {.phases = other->reads_phases, .prefixes = other->reads_prefixes}},
                migration);
            s.places_by = fmt::format("{}: {}", other->name, other->summary);
            return s;
          }
          Placement mine = placement;
          take_seat(mine, seat);
          s.decides = std::make_shared<fleet::placing<Placement, Migration>>(mine, migration);
          s.places_by = fmt::format("{}: {}", placement_name<Placement>, placement_summary<Placement>);
          return s;
        }} {}
};

}  // namespace sim
TESSERA_NAMESPACE_END
