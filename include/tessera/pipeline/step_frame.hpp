// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gate/concepts.hpp>
#include <tessera/pipeline/follow_prefix.hpp>
#include <tessera/pipeline/limits.hpp>
#include <tessera/pipeline/plan.hpp>
#include <tessera/pipeline/plan_ring.hpp>
#include <tessera/pipeline/reasons.hpp>
#include <tessera/pipeline/roster.hpp>
#include <tessera/pipeline/settlement.hpp>
#include <tessera/pipeline/step.hpp>

#include <cstddef>
#include <cstdint>

/// @file
/// The beginning of a scheduler's step, before requests are chosen, and its view for the engine at the end.

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Records the prompts that plans in flight compute: their blocks are found soon.
template <class Request, class Order, class BlockStore, class Gate>
void find_leaders(roster<Request, Order, BlockStore, Gate>& all, plan_ring<Request>& plans,
                  const step<Request>& planned) noexcept {
  if constexpr (roster<Request, Order, BlockStore, Gate>::ledger::shares) {
    all.leaders.begin();
    if (all.waiting.empty()) return;
    plans.for_each([&](const step<Request>& s) noexcept {
      if (&s == &planned) return;
      for (const scheduled<Request>& e : s.prefill) {
        // An entry that has ended, or has lost its blocks, publishes nothing.
        const auto& state = e.request->state();
        if (state.ends_as == lifecycle::idle && state.row == e.row) leads_prefix(all, *e.request, e.first);
      }
    });
  } else {
    static_cast<void>(planned);
  }
}

/// Begins a plan: applies the effects of time, with nothing chosen yet. `residents`: the most there can be.
template <class Request, class Order, class BlockStore, class Gate>
[[nodiscard]] step<Request>& begin_step(roster<Request, Order, BlockStore, Gate>& all, plan_ring<Request>& plans,
                                        const step_limits& l, std::size_t residents,
                                        typename Request::time_point now) noexcept {
  step<Request>& s = plans.push();
  s.late.clear();
  if (all.deadlines.due(now) != nullptr) [[unlikely]]
    settlement<Request, Order, BlockStore, Gate>{all, plans}.pass_deadlines(now, s);
  all.advance(now);
  s.limits = l;
  s.budget = l.token_budget;
  s.prefill_left = l.prefill_budget > tokens{} ? l.prefill_budget : l.token_budget;
  s.drafts = tokens{};
  s.max_batch = l.max_batch < residents ? l.max_batch : residents;
  s.starts = l.max_starts;
  s.next = 0;
  s.kept = all.residents.size();
  s.obtainable = blocks{all.kv.capacity()};
  s.promised = blocks{};
  s.blocked = 0;
  s.stopped = wait_reason::none;
  s.seen = all.next_sequence;
  s.refused_before = all.refused;
  s.refused_request_before = all.refused_request;
  s.bookmark_before = all.residents.bookmark();
  s.decode.clear();
  s.prefill.clear();
  s.decode_at.clear();
  s.prefill_at.clear();
  s.admitted.clear();
  s.first_guest = ~std::size_t{0};
  s.outgrown.clear();
  s.load.clear();
  s.load_after = s.fetch_after = 0;
  s.skipped.clear();
  s.held_for_prefix.clear();
  find_leaders(all, plans, s);
  if constexpr (gate_counts<Gate>) all.gate.begin();
  std::uint64_t before = 0;
  plans.for_each([&](const step<Request>& p) noexcept { before = &p != &s ? p.id : before; });  // oldest first
  all.kv.begin(s.moves, s.id, before);
  return s;
}

/// The engine's view of a finished plan.
template <class Plan, class Tables, class Table, class Request>
[[nodiscard]] Plan show_step(Tables& shown, Table& table, const step<Request>& s, std::uint64_t oldest) noexcept {
  shown.begin();
  for (const auto* entries : {&s.decode, &s.prefill}) {
    for (const scheduled<Request>& e : *entries) {
      shown.add(table, e.row, e.first + e.count + e.lookahead, e.new_blocks);
    }
  }
  return {.decode = s.decode,
          .prefill = s.prefill,
          .swap_out = s.moves.swap_out,
          .demoted = s.moves.demoted,
          .copies = s.moves.copies,
          .swap_in = s.moves.swap_in,
          .fetch = s.moves.fetch,
          .load = s.load,
          .load_after = s.load_after >= oldest ? s.load_after : 0,
          .fetch_after = s.fetch_after >= oldest ? s.fetch_after : 0,
          .preempted = s.moves.victims,
          .outgrown = s.outgrown,
          .late = s.late,
          .tables = shown.view(table),
          .computed = s.limits.token_budget - s.budget - s.drafts,
          .id = s.id};
}

}  // namespace detail
TESSERA_NAMESPACE_END
