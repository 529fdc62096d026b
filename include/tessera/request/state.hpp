// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/clock.hpp>
#include <tessera/core/index.hpp>
#include <tessera/core/units.hpp>

#include <cstdint>

/// @file
/// What a scheduler knows about one request.

TESSERA_NAMESPACE_BEGIN

/// What the tokens being produced are for. Reasoning = prefill and reasoning tokens; answering = tokens after the
/// end-of-reasoning token (PASCAL, section II-D). A model that does not reason starts in `answering`.
enum class phase : std::uint8_t { reasoning, answering };

/// Where a request is in its life.
enum class lifecycle : std::uint8_t {
  idle,       ///< Never submitted, or given up by `evacuate`.
  waiting,    ///< In the waiting queue: new, or preempted.
  resident,   ///< Holds KV blocks on the device.
  suspended,  ///< Holds KV blocks on the device and takes no part in plans, from `suspend` to `resume`.
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
  none,            ///< It is in the latest plan.
  not_planned,     ///< No plan has been made since it came.
  behind_others,   ///< A request that ranks before it could not start, or the plan was full before its turn.
  no_blocks,       ///< Not enough free blocks, even after evicting every resident request that ranks behind it.
  held_back,       ///< The admission policy held it back; whether there are blocks for it was not looked at again.
  batch_full,      ///< `max_batch` requests rank before it.
  budget_spent,    ///< The step's token budget was spent before its turn.
  residents_full,  ///< As many requests as the limits allow hold blocks, and none of them can give way to it.
  stalled,         ///< No block is free for its next token, or it is as long as the limits allow (see `outgrown`).
  preempted,       ///< It lost its blocks in the latest plan.
  suspended,       ///< It is suspended.
};

/// A lower-case name, for logs.
[[nodiscard]] constexpr const char* to_string(wait_reason r) noexcept {
  switch (r) {
    case wait_reason::none: return "none";
    case wait_reason::not_planned: return "not_planned";
    case wait_reason::behind_others: return "behind_others";
    case wait_reason::no_blocks: return "no_blocks";
    case wait_reason::held_back: return "held_back";
    case wait_reason::batch_full: return "batch_full";
    case wait_reason::budget_spent: return "budget_spent";
    case wait_reason::residents_full: return "residents_full";
    case wait_reason::stalled: return "stalled";
    case wait_reason::preempted: return "preempted";
    case wait_reason::suspended: return "suspended";
  }
  return "?";
}

/// The part of a request that schedulers and queues write. Users read it through `request_hook::state()`.
/// Ordered by how often a step touches it: the first 64 bytes are all that a decode step needs.
template <clock_policy Clock>
struct request_state {
  using time_point = basic_time_point<Clock>;  ///< A moment on that clock.

  tokens computed{};                 ///< Tokens whose KV is on the device (or, while swapped out, on the host).
  tokens length{};                   ///< Prompt plus generated tokens.
  tokens room{};                     ///< Tokens that the blocks held on the device have room for.
  tokens quantum_used{};             ///< Tokens generated since the request took its present place.
  std::uint32_t row = no_index;      ///< Row in the block table while resident or suspended.
  std::uint32_t shared_blocks = 0;   ///< Leading blocks found in the prefix cache at the latest admission.
  std::uint32_t cached_blocks = 0;   ///< Leading blocks whose hashes are known to the prefix cache.
  lifecycle life = lifecycle::idle;  ///< Where it is between `submit` and its end.
  tessera::phase phase = tessera::phase::reasoning;  ///< Reasoning, or answering.
  std::uint8_t level = 0;               ///< Queue within a discipline: two_phase 0 high, 1 low; ranked 0 boosted.
  bool planned = false;                 ///< In the plan that is pending.
  bool demoted = false;                 ///< Reasoning, but in PASCAL's low queue.
  bool swapped = false;                 ///< Waiting with its KV in the host tier, or, if `host_blocks` is 0, where
                                        ///< it came from.
  lifecycle ends_as = lifecycle::idle;  ///< Ended while a plan is pending: what it becomes when that is settled.

  std::uint64_t turn = 0;              ///< Place within its level: smaller is earlier.
  std::uint64_t sequence = 0;          ///< Order of submission: the last tie-break of every comparison.
  float rank = 0;                      ///< Score it was queued with (ranked).
  std::uint32_t preemptions = 0;       ///< How often it lost its blocks.
  std::uint64_t preempted_by = 0;      ///< Id of the plan that took its blocks last; 0: none.
  std::uint64_t stalled_by = 0;        ///< Id of the plan that found no block for its next token last; 0: none.
  std::uint64_t served_by = 0;         ///< Id of the plan that it ran in last; 0: none.
  std::uint32_t host_head = no_index;  ///< First host block while swapped out.
  std::uint32_t host_blocks = 0;       ///< Number of host blocks while swapped out.
  tokens reasoning{};                  ///< Tokens generated before the phase change.
  time_point arrived{};                ///< `now` of `submit`.
  time_point answering_since{};        ///< When the phase changed; `arrived` if it started in answering.
  time_point boost_at{};               ///< When ageing boosts it (ranked, paced, earliest_due).
};

/// How far a request has come, as a value: what another scheduler, perhaps in another process, needs to go on with it,
/// beside its description. Made by `basic_request_hook::progress`, taken by `adopt`. Its times are on the time line of
/// the scheduler that made it.
template <clock_policy Clock>
struct request_progress {
  tokens length{};                                   ///< Prompt plus generated tokens.
  tokens computed{};                                 ///< Tokens whose KV comes along; 0: none, it is computed anew.
  tokens reasoning{};                                ///< Tokens generated before the phase change.
  tessera::phase phase = tessera::phase::reasoning;  ///< Reasoning, or answering.
  bool demoted = false;                              ///< Reasoning, but in PASCAL's low queue.
  std::uint32_t preemptions = 0;                     ///< How often it lost its blocks.
  basic_time_point<Clock> arrived{};                 ///< `now` of `submit`.
  basic_time_point<Clock> answering_since{};         ///< When the phase changed; `arrived` if it started in answering.
};

TESSERA_NAMESPACE_END
