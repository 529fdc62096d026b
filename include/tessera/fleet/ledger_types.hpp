// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/control/flow_controller.hpp>
#include <tessera/core/clock.hpp>
#include <tessera/core/units.hpp>
#include <tessera/fleet/report.hpp>
#include <tessera/placement/phasor_router.hpp>
#include <tessera/request/state.hpp>

#include <cstddef>
#include <cstdint>

/// @file
/// What `fleet::ledger` is told of replicas and requests, what it answers, and how it is set up.

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// What an engine can be asked to do besides serving requests.
struct abilities {
  bool moves = true;       ///< A request goes on elsewhere with its KV, and stands still meanwhile.
  bool live_moves = true;  ///< It runs on while its KV is copied.
  bool roles = true;       ///< It takes another role.
  bool ranges = true;      ///< It can be told which lengths it serves.
  bool budgets = true;     ///< Its prompts per step can be bounded.
  bool orders = true;      ///< Parameters of its order can be set.

  /// Memberwise.
  friend constexpr bool operator==(const abilities&, const abilities&) noexcept = default;
};

/// An engine that serves requests, and nothing else.
inline constexpr abilities no_abilities{false, false, false, false, false, false};

/// What a replica is, as it joins.
struct replica {
  blocks capacity{};                          ///< Its KV blocks.
  control::role role = control::role::mixed;  ///< What it does.
  bool elastic = false;                       ///< It may be given another role, see `control::worker`.
  placement::prefill_worker prefill{.cost = {}, .budget = {}};  ///< For Phi_T; without a budget that is 1.
  abilities can{};                                              ///< What it can be asked to do, by `fleet::runtime`.
};

/// What a request is when it is placed.
struct arrival {
  tokens prompt{};  ///< Tokens that it has: the prompt, and after a death what the user has got.
  tokens cached{};  ///< Tokens of these in the replica's prefix cache: they cost neither computing nor blocks.
  phase starts_in = phase::answering;  ///< Whether it reasons first.
};

/// A request that is to go on elsewhere.
struct move {
  request_id request = 0;        ///< Which.
  replica_id from = no_replica;  ///< Where it runs.
  replica_id to = no_replica;    ///< Where its room is reserved.
  tokens length{};               ///< Its tokens, as far as was heard.
  blocks size{};                 ///< Blocks for them.

  /// Memberwise.
  friend constexpr bool operator==(const move&, const move&) noexcept = default;
};

/// Why a request that runs is asked about.
enum class move_reason : std::uint8_t {
  answers,   ///< It has ended its reasoning.
  outgrown,  ///< It has outgrown the range of lengths of its replica.
  tight,     ///< Its replica has little memory left.
};

/// A request that was on a replica that is dead.
struct orphan {
  request_id request = 0;             ///< Which.
  replica_id on = no_replica;         ///< The dead replica.
  tokens generated{};                 ///< Tokens that were heard of it there.
  replica_id elsewhere = no_replica;  ///< Where it was on its way to; its room there stays reserved.

  /// Memberwise.
  friend constexpr bool operator==(const orphan&, const orphan&) noexcept = default;
};

/// How a router keeps its book.
template <clock_policy Clock = seconds_clock>
struct ledger_settings {
  using duration = basic_duration<Clock>;  ///< A length of time on that clock.

  tokens block_size{16};                                           ///< Tokens of a KV block.
  duration lease = tessera::detail::milliseconds<Clock, 60'000>;   ///< Until a request without a call is given back.
  duration silence = tessera::detail::milliseconds<Clock, 5'000>;  ///< A replica without a report for this long is
                                                                   ///< not shown to policies, unless none has one.
  duration rest = tessera::detail::milliseconds<Clock, 2'000>;     ///< Between two moves of a request.
  std::size_t moving = 8;                                          ///< Requests that move at a time, at most.
  blocks tight{};       ///< A replica with fewer free blocks gives requests away; 0: none does by itself.
  blocks demand{};      ///< Fewer free blocks than this are stranded, see `headroom::reference_demand`.
  tokens quantum{500};  ///< An answer that is no longer is fresh (PASCAL's a_i).
};

/// What there must be room for in a ledger; fixed at construction.
struct ledger_limits {
  std::size_t replicas = 64;        ///< Numbers are below this.
  std::size_t reservations = 4096;  ///< Requests at a time; one that moves, or is tried twice, counts twice.
  std::size_t moves = 16;           ///< Most moves that one call proposes.
};

}  // namespace fleet
TESSERA_NAMESPACE_END
