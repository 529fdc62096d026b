// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/units.hpp>
#include <tessera/draft/concepts.hpp>

#include <concepts>
#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Whether a policy's values can be meant, as its `is_possible()` says; without that, all can.
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

/// When a request that starts takes the blocks of what it has yet to compute. Either way it starts only if all of them
/// could be had then.
enum class reservation : std::uint8_t {
  /// Chunk by chunk, as it computes them. What is still to come is promised to it as far as those are concerned who
  /// would start after it; those who run may grow into it, and those whom it cannot hold up, who outrank it, may start
  /// in it. If it is missed then, the lowest-ranked gives way, as whenever blocks are missed. The default.
  by_chunk,
  /// All at its start. When to use: preemption is worse than idle memory, or an engine must know all blocks of a prompt
  /// before it begins with it.
  whole_sequence,
};

/// The values of a scheduler's policies. One that has `bool is_possible() const noexcept` says by it whether they can
/// be meant: no fraction above 1, nothing that is not a number. It is asserted when a scheduler is made.
template <class Order, class Preempt, class Admit, class Gate, class Draft = draft::same_for_all>
struct scheduler_config {
  Order order{};                ///< Parameters of the order.
  Preempt preempt{};            ///< Parameters of the preemption policy.
  Admit admit{};                ///< Parameters of the admission policy.
  Gate gate{};                  ///< Parameters of the gate.
  Draft draft{};                ///< Parameters of the draft policy.
  bool chunked_prefill = true;  ///< False: a prompt is computed in one step. One that what is left of the budget does
                                ///< not cover is its step's only prefill, and that step exceeds the budget.
  bool firm_budget = false;  ///< True: without chunked prefill, such a prompt waits until decodes leave enough of the
                             ///< budget, as all that wait behind it. Only one that is longer than the whole budget
                             ///< exceeds it. For an engine whose buffers hold no more tokens than that.
  reservation reserve = reservation::by_chunk;  ///< When a prompt takes its blocks.
  bool keep_draft_blocks = false;  ///< True: a block taken for drafts that were refused stays its request's, which
                                   ///< comes to need it. For an engine whose own table of a request only grows.
  bool remember_refusals = true;  ///< False: who waits is looked at anew in each plan. The plans are the same, and take
                                  ///< longer; for tests that compare.
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
  bool keep_draft_blocks = false;               ///< As above.
  bool remember_refusals = true;                ///< As above.
};

namespace detail {

/// Asserts that limits and the values of policies can be meant. @tparam Slides whether blocks are given back while a
/// request goes on.
template <bool Slides, class Limits, class Config>
void require_possible(const Limits& l, const Config& c) noexcept {
  TESSERA_ASSERT(l.plans_in_flight > 0, "one plan at least is in flight");
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
