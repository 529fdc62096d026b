// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/clock.hpp>
#include <tessera/core/index.hpp>
#include <tessera/core/units.hpp>

#include <cstddef>
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
  not_wanted,     ///< The engine wanted nobody new in this step (`step_limits::max_starts`).
  held_back,   ///< The admission policy held it back; whether there are blocks for it was not looked at again. (Of one
               ///< that is refused again, it may be `no_blocks` that was found at first.)
  batch_full,  ///< `max_batch` requests rank before it.
  budget_spent,      ///< The step's token budget was spent before its turn.
  residents_full,    ///< As many requests as the limits allow hold blocks, and none of them can give way to it.
  stalled,           ///< No block is free for its next token, or it is as long as the limits allow (see `outgrown`).
  preempted,         ///< It lost its blocks in the latest plan.
  suspended,         ///< It is suspended.
  in_flight,         ///< Plans in flight tell how it goes on: it may end with them, or lost its blocks to one.
  parked,            ///< It stands aside, from `park` to `ready`.
  loading,           ///< Its blocks are there, and its KV is on its way: until `arrived`.
  gated,             ///< The gate did not let it start.
  prefix_in_flight,  ///< A request that ranks before it computes the next block of its prompt: it starts when that is
                     ///< known. Others pass it, and leave it its place and its blocks.
};
/// How many there are.
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

/// What a plan did with a request; says something together with the number of the plan.
enum class plan_mark : std::uint8_t {
  none,       ///< Nothing.
  runs,       ///< It is in it.
  preempted,  ///< It lost its blocks to it.
  stalled,    ///< It found no block for it.
};

/// The part of a request that schedulers write, whatever the order is; what an order keeps beside it, it brings itself
/// (`order_state`). Users read it through `request_hook::state()`. 80 bytes, with the rest of the hook 128.
template <clock_policy Clock>
struct request_state {
  using time_point = basic_time_point<Clock>;  ///< A moment on that clock.

  tokens computed{};  ///< Tokens whose KV is on the device (or, while swapped out, on the host) once the plans upon
                      ///< which others have been made are run: as many as that can be.
  tokens length{};    ///< Prompt plus generated tokens, as far as they are known.
  std::uint32_t row = no_index;                      ///< Row in the block table while resident or suspended.
  std::uint32_t marked_in = 0;                       ///< The plan (its id, cut to 32 bits) that `mark` is of.
  std::uint32_t cached_blocks = 0;                   ///< Leading blocks whose hashes are known to the prefix cache; of
                                                     ///< one that waits, when it was looked at last.
  lifecycle life = lifecycle::idle;                  ///< Where it is between `submit` and its end.
  tessera::phase phase = tessera::phase::reasoning;  ///< Reasoning, or answering.
  plan_mark mark = plan_mark::none;                  ///< What the plan `marked_in` did with it.
  lifecycle ends_as = lifecycle::idle;  ///< Ended while plans in flight have it: what it becomes when they are settled.
  bool swapped : 1 = false;    ///< Waiting, its KV in the host tier or, if `host_head` says none, where it came from.
  bool restarted : 1 = false;  ///< Its KV was dropped and it has sampled nothing since: it keeps its blocks until then.
  bool guest : 1 = false;      ///< Resident by grace of one that waits before it (backfill), and gives way to that.
  bool drafted : 1 = false;    ///< Its row has slots for drafts of plans in flight, or of such as were refused.
  bool parked : 1 = false;     ///< Stands aside, waiting or suspended, from `park` to `ready`.
  bool loads : 1 = false;      ///< The KV of its first `computed` tokens is on its way: until `arrived`.
  bool forked : 1 = false;     ///< It began here as a copy of another, with that one's KV.
  bool leads : 1 = false;      ///< It waits, and is the first of its class there (`class_queue`).
  std::uint8_t carried = 0;    ///< A word of the order's that goes with it to another instance; 0: it says nothing.
  std::uint16_t expected = 0;  ///< Tokens that plans in flight will produce for it, at most: all their drafts accepted.
  std::uint32_t shared_blocks = 0;     ///< Leading blocks found in the prefix cache at the latest admission.
  std::uint32_t host_head = no_index;  ///< First block of its chain in the host tier while swapped out.
  std::uint32_t preemptions = 0;       ///< How often it lost its blocks.
  std::uint64_t sequence = 0;          ///< Order of submission: the last tie-break of every comparison.
  tokens reasoning{};                  ///< Tokens generated before the phase change.
  time_point arrived{};                ///< `now` of `submit`.
  time_point answering_since{};        ///< When the phase changed; `arrived` if it started in answering.

  /// Its length when all plans in flight have produced what they can: what is planned goes by it.
  [[nodiscard]] constexpr tokens reach() const noexcept { return length + tokens{expected}; }
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
  std::uint8_t carried = 0;                          ///< The order's word about it, for the same order elsewhere.
  std::uint32_t preemptions = 0;                     ///< How often it lost its blocks.
  basic_time_point<Clock> arrived{};                 ///< `now` of `submit`.
  basic_time_point<Clock> answering_since{};         ///< When the phase changed; `arrived` if it started in answering.
};

TESSERA_NAMESPACE_END
