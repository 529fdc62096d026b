// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/control/telemetry.hpp>
#include <tessera/core/units.hpp>
#include <tessera/fleet/ledger_types.hpp>
#include <tessera/fleet/report.hpp>
#include <tessera/fleet/request_view.hpp>
#include <tessera/fleet/view.hpp>

#include <cstdint>

/// @file
/// What a router's front end tells `fleet::runtime`, as a value.

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// What has happened. Each names the members of `event` that it reads. Events about a request name its replica too,
/// because a late message of an earlier replica must not count.
enum class event_kind : std::uint8_t {
  none,
  // Replicas.
  joined,        ///< `replica` comes: `number` is its incarnation, `joins` what it is.
  drained,       ///< `replica` takes no new requests.
  unreachable,   ///< `replica` could not be reached, incarnation `number`.
  failed,        ///< `replica` is dead for sure, incarnation `number`.
  asks_report,   ///< `replica` is asked for a report, which does not say what of it is this router's.
  reported,      ///< `said` has come from `replica`.
  role_changed,  ///< `replica` has the role that it was told to take.
  serves,        ///< `replica` serves requests of at least `low` and fewer than `high` blocks.
  // Requests.
  /// Before `arrived` or `refused`: `replica` has `count` tokens of the prompt cached; or it is `excluded`.
  offers,
  arrived,      ///< `asks` is to be placed; again, if its replica has died. Its `generated` tokens stay as they are.
  refused,      ///< `replica` does not take `request`: it is placed anew.
  lost,         ///< `request` is on `replica` no more, which may live. It is on none until it has `arrived` again.
                ///< Without a replica: a new request waits at the front end. The runtime does not know it yet.
  cache_hit,    ///< `replica` has found `count` tokens of the prompt of `request` in its cache.
  first_token,  ///< `request` has its first token since it was placed on `replica`.
  progressed,   ///< `request` has generated `count` tokens in all, the last of them on `replica`.
  reasoning_ended,  ///< `request` ends its reasoning on `replica`.
  moved,            ///< `request` has arrived with its KV on `replica`.
  move_failed,      ///< The move of `request` to `replica` came to nothing.
  ended,            ///< `request` is over, however it ended.
  // The rest.
  lays_out,  ///< Before `planned`: what the plan has for `replica`: `role`, `low` and `high` blocks, `count` tokens.
  planned,   ///< The plan `number` is made.
  clock,     ///< Time has passed.
};

/// What a plan has for a replica.
struct assignment {
  replica_id replica = no_replica;            ///< Which.
  control::role role = control::role::mixed;  ///< What it does.
  blocks from{};                              ///< It serves requests of at least this many blocks,
  blocks to = endless;                        ///< and of fewer than this.
  tokens prefill_budget{};                    ///< Tokens of prompts in a step; 0: its own budget.

  /// Memberwise.
  friend constexpr bool operator==(const assignment&, const assignment&) noexcept = default;
};

/// An event. Members that its kind does not name are as they are here.
struct event {
  double at_s = 0;  ///< When, in seconds. An earlier moment than that of the event before counts as that one.
  event_kind what = event_kind::none;         ///< What it is.
  bool excluded = false;                      ///< The replica may not be chosen.
  control::role role = control::role::mixed;  ///< A role.
  replica_id replica = no_replica;            ///< The replica that it is about, or that says so.
  request_id request = no_request;            ///< The request that it is about.
  std::uint64_t number = 0;                   ///< An incarnation, or a plan.
  tokens count{};                             ///< Tokens.
  blocks low{};                               ///< Blocks.
  blocks high = endless;                      ///< Blocks.
  fleet::replica joins{};                     ///< What a replica is.
  report said{};                              ///< A report.
  request_view asks{};                        ///< A request that arrives. Its `id` is not read: `request` is.
};

}  // namespace fleet
TESSERA_NAMESPACE_END
