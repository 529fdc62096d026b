// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/fleet/action.hpp>
#include <tessera/fleet/event.hpp>
#include <tessera/placement/phasor_router.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

/// @file
/// What stands in front of a simulated cluster.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Most routers in front of a cluster: each has a book of its own.
inline constexpr std::int64_t max_routers = 1024;

/// Routers that know what routers know: what they have sent themselves, and reports of the rest.
struct routing {
  std::size_t routers = 1;  ///< Each has a book of its own; with `n` routers each gets every `n`-th request.
  bool shares = false;      ///< Each chooses from its `fleet::router_share` while one of that takes the request.
  double report_s = 1;      ///< Seconds between two reports of an instance, which is their greatest age. Above 0.
  double action_s = 0;      ///< From a decision until the instances do what it says. 0 or more.
  /// With a budget: policies that go by Phi are shown the time-bound one, as of prefill workers; else the space-bound.
  placement::prefill_worker prefill{.cost = {}, .budget = {}};
  /// Told each event that a router hears, and the actions that follow.
  std::function<void(std::size_t router, const fleet::event&, std::span<const fleet::action>)> heard{};
};

/// For which router a placement policy chooses.
struct router_seat {
  std::size_t router = 0;     ///< Its number.
  std::size_t routers = 1;    ///< How many routers there are.
  std::size_t instances = 1;  ///< How many instances they stand before.
};

/// Begins elsewhere for each router, lest all do the same: equals are chosen from another turn on, and random policies
/// draw from another seed. For the first router nothing changes.
template <class Placement>
constexpr void take_seat(Placement& p, const router_seat& at) noexcept {
  static_cast<void>(p), static_cast<void>(at);  // of no use to some
  if constexpr (requires { p.ties.next; }) p.ties.next += at.router * at.instances / at.routers;
  if constexpr (requires { p.next; }) p.next += at.router * at.instances / at.routers;
  if constexpr (requires { p.state; }) p.state += at.router;
  if constexpr (requires { p.draws.state; }) p.draws.state += at.router;
}

}  // namespace sim
TESSERA_NAMESPACE_END
