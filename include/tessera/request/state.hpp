// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/clock.hpp>
#include <tessera/core/index.hpp>
#include <tessera/core/units.hpp>

#include <cstddef>
#include <cstdint>

/// @file
/// The state of one request in a scheduler.

TESSERA_NAMESPACE_BEGIN

/// The purpose of the tokens being produced. Reasoning = prefill and reasoning tokens; answering = tokens after the
/// end-of-reasoning token (PASCAL, section II-D). A model that does not reason starts in `answering`.
enum class phase : std::uint8_t { reasoning, answering };

/// Where a request is in its life.
enum class lifecycle : std::uint8_t {
  idle,       ///< Never submitted, or given up by `evacuate`.
  waiting,    ///< In the waiting queue: new, or preempted.
  resident,   ///< Holds KV blocks on the device.
  suspended,  ///< Holds KV blocks on the device and takes no part in plans: from `suspend` to `resume`, parked, or
              ///< while its KV is on its way.
  finished,   ///< Ended by the engine.
  cancelled,  ///< Ended by `cancel`.
  failed,     ///< Ended by the engine with a failure.
};

/// Whether a request in this state is in a scheduler.
[[nodiscard]] constexpr bool is_live(lifecycle l) noexcept {
  return l == lifecycle::waiting || l == lifecycle::resident || l == lifecycle::suspended;
}

/// Why a live request is not in the latest plan.
enum class wait_reason : std::uint8_t {
  none,           ///< It is in the latest plan.
  not_planned,    ///< No plan has been made since it came.
  behind_others,  ///< A request that ranks before it could not start, or the plan was full before its turn.
  no_blocks,      ///< Not enough free blocks, even after evicting every resident request that ranks behind it.
  not_wanted,     ///< The engine wanted no new request in this step (`step_limits::max_starts`).
  held_back,     ///< The admission policy held it back. Its blocks were not looked up again. (A request that is refused
                 ///< again may keep `no_blocks` from its first refusal.)
  batch_full,    ///< `max_batch` requests rank before it.
  budget_spent,  ///< The step's token budget was spent before its turn came.
  residents_full,    ///< As many requests as the limits allow hold blocks, and none of them can be evicted for it.
  stalled,           ///< No block is free for its next token, or it is as long as the limits allow (see `outgrown`).
  preempted,         ///< It lost its blocks in the latest plan.
  suspended,         ///< It is suspended.
  in_flight,         ///< Plans in flight decide how it goes on: it may end with one of them, or has lost its blocks to
                     ///< one.
  parked,            ///< It is parked: from `park` to `ready`.
  loading,           ///< Its blocks are allocated and its KV is being transferred: until `arrived`.
  gated,             ///< The gate did not allow it to start.
  prefix_in_flight,  ///< A request that ranks before it computes the next block of its prompt. It starts when that
                     ///< block is there. Later requests may pass it, but keep its place and its blocks free.
};
/// The number of reasons.
inline constexpr std::size_t wait_reasons = static_cast<std::size_t>(wait_reason::prefix_in_flight) + 1;

/// A lower-case name, for logs.
[[nodiscard]] constexpr const char* to_string(wait_reason r) noexcept {
  switch (r) {
    case wait_reason::none: return "none";
    case wait_reason::not_planned: return "not_planned";
    case wait_reason::behind_others: return "behind_others";
    case wait_reason::no_blocks: return "no_blocks";
    case wait_reason::not_wanted: return "not_wanted";
    case wait_reason::held_back: return "held_back";
    case wait_reason::batch_full: return "batch_full";
    case wait_reason::budget_spent: return "budget_spent";
    case wait_reason::residents_full: return "residents_full";
    case wait_reason::stalled: return "stalled";
    case wait_reason::preempted: return "preempted";
    case wait_reason::suspended: return "suspended";
    case wait_reason::parked: return "parked";
    case wait_reason::loading: return "loading";
    case wait_reason::gated: return "gated";
    case wait_reason::prefix_in_flight: return "prefix_in_flight";
    case wait_reason::in_flight: return "in_flight";
  }
  return "?";
}

/// What a plan did with a request. Valid only together with the plan's number.
enum class plan_mark : std::uint8_t {
  none,       ///< Nothing.
  runs,       ///< The plan contains it.
  preempted,  ///< It lost its blocks to the plan.
  stalled,    ///< The plan found no block for it.
};

/// The part of a request that schedulers write, whatever the order is. An order keeps its own state beside it
/// (`order_state`). Users read it through `request_hook::state()`. 80 bytes; 128 with the rest of the hook.
template <clock_policy Clock>
struct request_state {
  using time_point = basic_time_point<Clock>;  ///< A moment on that clock.

  tokens computed{};  ///< Tokens with KV on the device, or on the host while swapped out. Tokens of plans in flight
                      ///< count if later plans build upon them.
  tokens length{};    ///< Prompt plus generated tokens, as far as known.
  std::uint32_t row = no_index;                      ///< Row in the block table while resident or suspended.
  std::uint32_t marked_in = 0;                       ///< The id of the plan that set `mark`, cut to 32 bits.
  std::uint32_t cached_blocks = 0;                   ///< Leading blocks with hashes that the prefix cache knows. For a
                                                     ///< waiting request: at the latest lookup.
  lifecycle life = lifecycle::idle;                  ///< Where it is between `submit` and its end.
  tessera::phase phase = tessera::phase::reasoning;  ///< Reasoning, or answering.
  plan_mark mark = plan_mark::none;                  ///< What the plan `marked_in` did with it.
  lifecycle ends_as = lifecycle::idle;  ///< For a request that ended while plans in flight contain it: its state once
                                        ///< they are settled.
  bool swapped : 1 = false;    ///< Waiting, and its KV is in the host tier; if `host_head` is `no_index`, at the place
                               ///< that it came from.
  bool restarted : 1 = false;  ///< Its KV was dropped and no token was sampled since. It keeps its blocks until one is.
  bool backfilled : 1 = false;  ///< Resident by backfill: a request that ranks before it waits, and evicts it when it
                                ///< can start.
  bool drafted : 1 = false;     ///< Its row has slots for drafts of plans in flight, or for drafts that were rejected.
  bool parked : 1 = false;      ///< Parked, waiting or suspended: from `park` to `ready`.
  bool loads : 1 = false;       ///< The KV of its first `computed` tokens is being transferred: until `arrived`.
  bool forked : 1 = false;      ///< It began here as a copy of another request, with that request's KV.
  bool leads : 1 = false;       ///< It waits and is the first of its class (`class_queue`).
  std::uint8_t carried = 0;     ///< A byte of the order that moves with it to another instance; 0 carries no
                                ///< information.
  std::uint16_t expected = 0;   ///< Tokens that plans in flight will produce for it, at most: if all their drafts are
                                ///< accepted.
  std::uint32_t shared_blocks = 0;     ///< Leading blocks found in the prefix cache at the latest admission.
  std::uint32_t host_head = no_index;  ///< First block of its chain in the host tier while swapped out.
  std::uint32_t preemptions = 0;       ///< How often it lost its blocks.
  std::uint64_t sequence = 0;          ///< Order of submission: the last tie-break of every comparison.
  tokens reasoning{};                  ///< Tokens generated before the phase change.
  time_point arrived{};                ///< `now` of `submit`.
  time_point answering_since{};        ///< When the phase changed; `arrived` if it started in answering.

  /// Its length once all plans in flight have produced the most they can. Planning uses this length.
  [[nodiscard]] constexpr tokens reach() const noexcept { return length + tokens{expected}; }
};

/// The progress of a request as a value. With the description, it is what another scheduler, perhaps in another
/// process, needs to continue the request. Made by `basic_request_hook::progress`, taken by `adopt`. Its times are on
/// the time line of the scheduler that made it.
template <clock_policy Clock>
struct request_progress {
  tokens length{};                                   ///< Prompt plus generated tokens.
  tokens computed{};                                 ///< Tokens of KV that come along; 0: none, all KV is recomputed.
  tokens reasoning{};                                ///< Tokens generated before the phase change.
  tessera::phase phase = tessera::phase::reasoning;  ///< Reasoning, or answering.
  std::uint8_t carried = 0;                          ///< The order's byte about it, for the same order elsewhere.
  std::uint32_t preemptions = 0;                     ///< How often it lost its blocks.
  basic_time_point<Clock> arrived{};                 ///< `now` of `submit`.
  basic_time_point<Clock> answering_since{};         ///< When the phase changed; `arrived` if it started in answering.
};

TESSERA_NAMESPACE_END
