// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gate/concepts.hpp>
#include <tessera/pipeline/share.hpp>

#include <algorithm>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Blocks that backfilled requests would give back, an upper bound: blocks that they share with each other are
/// included. O(backfilled requests).
template <class Planning>
[[nodiscard]] blocks held_by_guests(const Planning& p) noexcept {
  const std::size_t from = p.ordinary();
  if (from == p.step.kept) return blocks{};
  blocks n{static_cast<std::int64_t>(p.roster.kv.own().shared())};
  for (std::size_t i = from; i != p.step.kept; ++i) n += blocks{p.roster.kv.exclusive(*p.roster.residents[i])};
  return n;
}

/// The reason why the admission policy, or the blocks, do not let `r` take `more` of `free` blocks; `none` if they do.
/// With them it also has `from_cache` blocks that no other request holds. Blocks promised to prefills are subtracted.
template <class Planning>
[[nodiscard]] wait_reason refuses(const Planning& p, const typename Planning::request& r, blocks free, blocks more,
                                  blocks from_cache) noexcept {
  using request = typename Planning::request;
  const blocks free_after = free - p.step.promised - more;
  if (free_after < blocks{}) return wait_reason::no_blocks;
  const blocks all{p.roster.kv.capacity()};
  const admission_view<request> view{.free_after = free_after,
                                     .needed = more + from_cache,
                                     .capacity = max(all - p.roster.suspended_blocks, free),
                                     .block_size = p.roster.kv.block_size(),
                                     .residents = p.roster.residents.all().first(p.ordinary()),
                                     .admitted = p.step.admitted,
                                     .exclusive = p.roster.kv.own().by_row()};
  return p.config.admit.admits(r, view) ? wait_reason::none : wait_reason::held_back;
}

/// The reason why a refused request is refused again, if that is known without matching its prefix; else `none`.
template <class Planning>
[[nodiscard]] wait_reason refused_as_before(Planning& p, const typename Planning::request& r, bool outranks,
                                            blocks total) noexcept {
  refusal& refused = p.roster.refused;
  if (!p.config.remember_refusals || refused.sequence != r.state().sequence) return wait_reason::none;
  // A budget may be an earlier reason.
  if (p.step.prefill_left <= tokens{} ||
      (!p.config.chunked_prefill && (p.config.firm_budget || !p.step.prefill.empty()))) {
    return wait_reason::none;
  }
  if (refused.matched) {
    refused.more_in_use(p.roster.kv.known_beyond(r, refused.known));
  }
  // A victim of this plan has given blocks back.
  if (p.step.kept == p.roster.residents.size() && refused.lack > blocks{} &&
      p.step.next >= p.roster.residents.bookmark()) {
    return wait_reason::no_blocks;
  }
  if (outranks || !refused.matched) return wait_reason::none;
  // Requests that start before it in this plan may hold more of its prefix, but no more than they share.
  blocks in_use = refused.in_use;
  for (const typename Planning::request* a : p.step.admitted) {
    in_use += p.roster.kv.found(*a);
  }
  return refuses(p, r, p.free() + held_by_guests(p), total - in_use, blocks{});
}

/// A request that could start lacks a block that another request computes: it starts when that block is known. The
/// blocks that it will take and its place are kept for it meanwhile. (For a backfilled request, neither is.)
template <class Planning>
[[nodiscard]] wait_reason hold_for_prefix(Planning& p, typename Planning::request& r, std::uint32_t known,
                                          bool as_guest) noexcept {
  auto& s = request_access::state(r);
  if (!as_guest) {
    p.step.held_for_prefix.push_back({&r, s.sequence, s.cached_blocks});
    p.step.promised += p.roster.kv.behind(s.reach(), known);
    // Its KV on the host may date from before the prefixes were forgotten, and come back after all.
    if (s.cached_blocks != Planning::ledger::keeps_to_itself) s.cached_blocks = known;
  }
  return wait_reason::prefix_in_flight;
}

/// Handles a waiting request's turn. Afterwards it is in the plan, or nothing has changed and the reason is returned.
/// `as_guest`: it is backfilled: it passes one that waits before it, and evicts no other.
template <class Planning>
[[nodiscard]] wait_reason start(Planning& p, typename Planning::request& r, bool as_guest) noexcept {
  auto& [limits, longest, config, roster, step] = p;
  auto& kv = roster.kv;
  auto& s = request_access::state(r);
  // It lost its blocks in the middle of plans in flight. Its progress is unknown until these are settled.
  if (s.expected != 0) return wait_reason::in_flight;
  if (kv.free_rows() == 0) return wait_reason::residents_full;  // rows are held by requests that have left
  const std::size_t held = step.places_taken() + roster.suspended.size() + roster.draining;
  const std::size_t slots = held < limits.residents ? 0 : 1;
  if (slots != 0 && (as_guest || step.next == step.kept)) return wait_reason::residents_full;
  // Blocks left over after an eviction must not go to lower-priority requests.
  if (!ranks_before_victims(p, r)) return wait_reason::behind_others;
  if (step.prefill_left <= tokens{} && !s.swapped) return wait_reason::budget_spent;
  if (step.size() + step.held_for_prefix.size() >= step.max_batch) return wait_reason::batch_full;
  if (std::uint32_t known = s.cached_blocks; !as_guest && !s.swapped && slots == 0 && follows_still(roster, r, known)) {
    return hold_for_prefix(p, r, known, as_guest);
  }
  // A request that outranks residents needs no admission: they are its headroom.
  const bool outranks = step.next < p.ordinary();
  const blocks total = p.whole(r);
  // A backfilled request starts only where it could without shared blocks, so that its prefix is not matched in vain.
  const wait_reason again =
      as_guest ? refuses(p, r, p.free(), total, blocks{}) : refused_as_before(p, r, outranks, total);
  if (again != wait_reason::none) return again;

  const std::size_t mark = kv.mark();
  const blocks free_before = p.free();
  const blocks guests_hold = as_guest ? blocks{} : held_by_guests(p);
  kv.open_row(r);
  const prefix_hit hit = kv.share_prefix(r);
  const std::size_t hits = hit.taken;
  const blocks from_cache = free_before - p.free();
  // Blocks that a swapped request left to others may be gone. Then its copy is of no use, because the blocks before it
  // are missing.
  const bool comes_back = s.swapped && kv.left_to_others(r) <= hits;
  const std::size_t on_host = comes_back ? 0 : kv.find_on_host(r, hits);
  const tokens cached = hit.length + kv.block_size() * static_cast<std::int64_t>(on_host);
  const tokens first = comes_back ? max(s.computed, cached) : cached;
  const tokens left = s.length - first;
  // Its KV is being transferred: it takes its blocks, and computes nothing.
  const bool loads = s.loads && cached < s.computed;
  const bool may_compute =
      loads || left == tokens{1} || (config.chunked_prefill ? step.prefill_left > tokens{} : takes_whole(p, left));
  const bool anew = s.restarted || (s.swapped && !comes_back);
  const bool whole = config.reserve == reservation::whole_sequence || anew || loads;
  const tokens reserved = whole ? s.length : tokens{};
  const tokens wanted = within(p, r, first, chunk_of(p, r, left), p.free() - step.promised, reserved);
  const tokens most = loads ? tokens{1} : granted(p, r, first, wanted, left);
  const tokens count = max(most, tokens{1});
  const blocks to_take = kv.lacks(r, first + count, reserved);
  const blocks to_come = kv.to_come(r, s.length);
  const blocks in_all = max(to_come, to_take) + step.promised;
  wait_reason why_not = wait_reason::none;
  blocks lacking{};
  if (!may_compute || (!loads && leaving(p, wanted, left) <= tokens{})) {
    why_not = wait_reason::budget_spent;
  } else if (as_guest && (anew || loads)) {
    why_not = wait_reason::behind_others;  // it would keep its blocks: until it has recomputed what it lost, or its KV
                                           // has arrived
  } else if (!outranks) {
    const blocks free = p.free() + guests_hold;
    why_not = refuses(p, r, free, to_come, from_cache);
    if (why_not == wait_reason::no_blocks) lacking = in_all - free;
  }
  if (why_not == wait_reason::none && !as_guest) {  // for a backfilled one they are free
    lacking = make_free(p, r, to_take, slots, in_all);
    if (lacking > blocks{}) why_not = wait_reason::no_blocks;
  }
  if (why_not == wait_reason::none && !loads && most <= tokens{}) why_not = wait_reason::gated;
  if (why_not == wait_reason::none && !comes_back && !loads && slots == 0 && follows_prefix(roster, r, cached)) {
    roll_back(p, mark);
    return hold_for_prefix(p, r, static_cast<std::uint32_t>(cached / kv.block_size()), as_guest);
  }
  if (why_not != wait_reason::none) {
    // Blocks kept for others in this plan may be free in the next.
    const bool is_remembered = why_not != wait_reason::budget_spent && why_not != wait_reason::gated;
    if (!as_guest && is_remembered && step.held_for_prefix.empty()) {
      roster.refused.begin(s.sequence);
      roster.refused_request = &r;
      // A window of which a part is elsewhere, or found, takes fewer blocks than a whole request needs.
      roster.refused.of_prefix(hit.known, total - to_come - from_cache + hit.unsure);
      roster.refused.lack = lacking;
      roster.residents.set_bookmark(step.next);
    }
    roll_back(p, mark);
    if (why_not == wait_reason::gated) plans_prompt(roster.gate, r, first, tokens{});
    return why_not;
  }

  kv.take(r, to_take, first + count, reserved);
  if (!loads) promise(p, r);  // as for any that stands aside
  s.shared_blocks = static_cast<std::uint32_t>(hit.length / kv.block_size());
  step.admitted.push_back(&r);
  if constexpr (gate_counts<typename Planning::gate>) roster.gate.starts(r);
  if (loads) {
    step.load_after = std::max({step.load_after, kv.list_awaited(r, hit, step.load), kv.copies_now()});
    step.set_mark(r, plan_mark::runs);
    return wait_reason::none;
  }
  if (comes_back) step.fetch_after = std::max(step.fetch_after, kv.bring_back(r, hit));
  kv.load(r, hits, on_host);
  schedule(p, r, first, count, left, no_index, s.preemptions != 0 ? entry_origin::resumed : entry_origin::started);
  return wait_reason::none;
}

}  // namespace detail
TESSERA_NAMESPACE_END
