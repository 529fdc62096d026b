// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/units.hpp>
#include <tessera/draft/concepts.hpp>

#include <concepts>
#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Whether a policy's parameters are valid by its `is_possible()`; true for policies without it.
template <class Policy>
[[nodiscard]] constexpr bool is_possible(const Policy& p) noexcept {
  if constexpr (requires {
                  { p.is_possible() } noexcept -> std::same_as<bool>;
                }) {
    return p.is_possible();
  } else {
    static_cast<void>(p);
    return true;
  }
}

}  // namespace detail

/// When a starting request takes the blocks of its prefill. Either way it starts only if all of them could be had then.
enum class reservation : std::uint8_t {
  /// Chunk by chunk, as it computes them. The default. Later blocks are promised to it against requests that would
  /// start after it. Running requests may grow into them. Requests that outrank it, which it cannot hold up, may start
  /// in them. If the blocks are missing then, the lowest-ranked request is evicted, as whenever blocks are missing.
  by_chunk,
  /// All at its start. When to use: preemption is worse than idle memory, or an engine must know all blocks of a prompt
  /// before its prefill.
  whole_sequence,
};

/// The parameters of a scheduler's policies. A policy may have `bool is_possible() const noexcept`, which says whether
/// its parameters are valid: no fraction above 1, no NaN. A scheduler asserts this at construction.
template <class Order, class Preempt, class Admit, class Gate, class Draft = draft::same_for_all>
struct scheduler_config {
  Order order{};                ///< Parameters of the order.
  Preempt preempt{};            ///< Parameters of the preemption policy.
  Admit admit{};                ///< Parameters of the admission policy.
  Gate gate{};                  ///< Parameters of the gate.
  Draft draft{};                ///< Parameters of the draft policy.
  bool chunked_prefill = true;  ///< False: a prompt is computed in one step. If it exceeds the rest of the budget, it
                                ///< is its step's only prefill, and that step exceeds the budget.
  bool firm_budget = false;  ///< True: without chunked prefill, such a prompt waits until decodes leave enough of the
                             ///< budget, and so do all requests behind it. Only a prompt longer than the whole budget
                             ///< exceeds it. For an engine with buffers of no more tokens than that.
  reservation reserve = reservation::by_chunk;  ///< When a prompt takes its blocks.
  tokens least_left{};  ///< A step that does not end a prompt leaves at least this many of its tokens to later steps;
                        ///< 0: any number. For a drafter that reads as many tokens ahead of a step's end.
  bool keep_draft_blocks = false;  ///< True: a block taken for rejected drafts stays with its request, which will need
                                   ///< it. For an engine with tables that only grow.
  bool remember_refusals = true;  ///< False: each plan looks at every waiting request anew. The plans are the same, and
                                  ///< take longer; for tests that compare.
};

/// The same for an order that cannot be made without parameters.
template <class Order, class Preempt, class Admit, class Gate, class Draft>
  requires(!std::default_initializable<Order>)
struct scheduler_config<Order, Preempt, Admit, Gate, Draft> {
  Order order;                                  ///< As above.
  Preempt preempt{};                            ///< As above.
  Admit admit{};                                ///< As above.
  Gate gate{};                                  ///< As above.
  Draft draft{};                                ///< As above.
  bool chunked_prefill = true;                  ///< As above.
  bool firm_budget = false;                     ///< As above.
  reservation reserve = reservation::by_chunk;  ///< As above.
  tokens least_left{};                          ///< As above.
  bool keep_draft_blocks = false;               ///< As above.
  bool remember_refusals = true;                ///< As above.
};

namespace detail {

/// Asserts that limits and policies' parameters are valid. @tparam Slides whether blocks are given back while a request
/// runs.
template <bool Slides, class Limits, class Config>
void require_possible(const Limits& l, const Config& c) noexcept {
  TESSERA_ASSERT(l.plans_in_flight > 0, "one plan at least is in flight");
  TESSERA_ASSERT(l.plans_apart > 0, "plans are one apart at least");
  TESSERA_ASSERT(!Slides || c.chunked_prefill, "windows free their blocks between chunks of a prompt");
  TESSERA_ASSERT(l.block_size > tokens{0} && l.residents > 0 && l.blocks > 0 && l.requests > 0, "empty limits");
  TESSERA_ASSERT(l.max_length >= tokens{} && l.slots_ahead >= tokens{}, "negative max_length or slots_ahead");
  TESSERA_ASSERT(is_possible(c.order), "a value of the order cannot be meant");
  TESSERA_ASSERT(is_possible(c.preempt), "a value of the preemption policy cannot be meant");
  TESSERA_ASSERT(is_possible(c.admit), "a value of the admission policy cannot be meant");
  TESSERA_ASSERT(is_possible(c.gate), "a value of the gate cannot be meant");
  TESSERA_ASSERT(is_possible(c.draft), "a value of the draft policy cannot be meant");
  static_cast<void>(l), static_cast<void>(c);
}

}  // namespace detail

TESSERA_NAMESPACE_END
