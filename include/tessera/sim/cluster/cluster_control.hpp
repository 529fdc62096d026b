// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/instance.hpp>

#include <concepts>
#include <cstddef>

/// @file
/// Who decides, in a simulated cluster, where requests run.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Decides where requests run; called by a cluster `c`, see there for what a control may do.
///
/// Requires: (1) `control.place(c, r) -> std::size_t`: the instance on which the request `r`, which is on none, starts:
/// one that `c.takes`, and there is one. `r` is new, or its instance has died.
///
/// A control has those of these members that it needs; each returns nothing:
/// - `starts(c)`: before the first event.
/// - `failed(c, i)`: that instance `i` is dead has become known; `returned(c, i)`: it is back, and empty. In between no
///   request may be placed on it.
/// - `lost(c, r)`: `r` was on an instance that has failed, `r.where`, or sent there. It is placed anew after this.
/// - `rejected(c, r)`: the instance that `r` was placed on has refused it: it is too long, or too many wait.
/// - `answers(c, r)`: `r` has just ended its reasoning. `prefilled(c, r)`: `r` has its first token since it was placed,
///   and is still here: it has not ended with it, nor been moved by `answers`. Its instance is between two steps.
/// - `moved(c, r)`: `r` has arrived with its KV on `r.where`.
/// - `arrived(c, r)`: the KV of `r` is at its destination, and `r` runs nowhere. A control with this member lets it go
///   on, by `c.admit(r)` or `c.cut_migration(r)`, when it likes; until then its blocks where it was are taken. Without,
///   it goes on at the destination at once.
/// - `migration_failed(c, r)`: `r` has ended or lost its blocks before it was copied, or its destination has died, and
///   stays where it is.
/// - `finished(c, r)`: `r` has ended.
/// - `step_ended(c, i)`: instance `i` is between two steps.
/// - `alarm(c, what)`: what `c.call_after` ordered is due.
/// - `ended(c, result)`: all requests have ended, and `result` is complete but for what the control has measured.
template <class Control, class C>
concept cluster_control = requires(Control& control, C& c, const request& r) {
  { control.place(c, r) } -> std::convertible_to<std::size_t>;
};

}  // namespace sim
TESSERA_NAMESPACE_END
