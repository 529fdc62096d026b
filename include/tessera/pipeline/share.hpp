// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/prefetch.hpp>
#include <tessera/pipeline/eviction.hpp>
#include <tessera/pipeline/prompt_limits.hpp>

#include <algorithm>
#include <cstddef>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The number of residents with a turn to come that a prompt leaves a token to. They recompute lost KV, or have no
/// lower priority. They stand before the others. So one look decides if all have one priority; otherwise O(log
/// residents). (Backfilled requests take what is left.)
template <class Planning>
[[nodiscard]] std::size_t owed_a_token(const Planning& p, const typename Planning::request& r) noexcept {
  const std::size_t ordinary = p.ordinary();
  if (ordinary <= p.step.next) return 0;
  const auto behind = p.roster.residents.all().subspan(p.step.next, ordinary - p.step.next);
  const auto is_owed = [&r](const typename Planning::request* q) noexcept {
    return q->state().restarted || q->priority >= r.priority;
  };
  if (is_owed(behind.back())) return behind.size();
  return static_cast<std::size_t>(std::partition_point(behind.begin(), behind.end(), is_owed) - behind.begin());
}

/// A prompt with more tokens left than this takes a second or more to compute. Until fewer are left it takes half of
/// what is left of a step, so that later prompts of no lower priority start at once. `top_up` gives what these leave
/// over back to it.
inline constexpr tokens long_prompt{16'384};

/// Whether a prompt of no lower priority may follow `r` in this step: one that waits, or one of the `owed` residents.
/// O(owed).
template <class Planning>
[[nodiscard]] bool precedes_prompts(const Planning& p, const typename Planning::request& r, std::size_t owed) noexcept {
  if (p.step.waiting_priority >= r.priority) return true;
  const auto behind = p.roster.residents.all().subspan(p.step.next, owed);
  return std::any_of(behind.begin(), behind.end(), [](const typename Planning::request* q) noexcept {
    return q->state().reach() - q->state().computed > tokens{1};
  });
}

/// The number of the prompt's `left` tokens that are computed in this step. A long prompt must not stop decodes: it
/// leaves a token of the budget to each resident behind it of no lower priority. Residents of lower priority wait until
/// the prompt ends.
template <class Planning>
[[nodiscard]] tokens chunk_of(const Planning& p, const typename Planning::request& r, tokens left) noexcept {
  if (!p.config.chunked_prefill) return left;
  const std::size_t slots = p.step.max_batch - p.step.size() - 1;
  const std::size_t behind = owed_a_token(p, r);
  const tokens others{static_cast<std::int64_t>(behind < slots ? behind : slots)};
  const tokens most = max(min(p.step.budget - others, p.step.prefill_left), tokens{1});
  if (p.step.limits.max_chunk > tokens{}) return min(left, min(most, p.step.limits.max_chunk));
  const bool halves = left > long_prompt && precedes_prompts(p, r, behind);
  return min(left, halves ? tokens{(most.count() + 1) / 2} : most);
}

/// The number of a prompt's `count` tokens that are computed at once, of `left`: as few as leave `least_left` to later
/// steps, or all. 0 or less: it waits for a step with more room.
template <class Planning>
[[nodiscard]] tokens leaving(const Planning& p, tokens count, tokens left) noexcept {
  const tokens rest = left - count;
  return rest > tokens{} && rest < p.config.least_left ? left - p.config.least_left : count;
}

/// The number of a prompt's `count` tokens from `first` on that are computed at once: what the gate allows, `leaving`
/// enough of the `left` ones. 0 or less: it waits.
template <class Planning>
[[nodiscard]] tokens granted(const Planning& p, const typename Planning::request& r, tokens first, tokens count,
                             tokens left) noexcept {
  const tokens most = allowed(p.roster.gate, r, first, count);
  const tokens n = leaving(p, most, left);
  return n == most ? n : allowed(p.roster.gate, r, first, n);  // the gate may not allow a step that ends earlier
}

/// Without chunked prefill: whether this step takes a prompt with `left` tokens to compute.
template <class Planning>
[[nodiscard]] bool takes_whole(const Planning& p, tokens left) noexcept {
  const auto& step = p.step;
  if (left <= min(step.budget, step.prefill_left)) return true;
  if (!step.prefill.empty()) return false;
  const tokens prefill = step.limits.prefill_budget;
  const tokens most = prefill > tokens{} ? min(prefill, step.limits.token_budget) : step.limits.token_budget;
  return !p.config.firm_budget || left > most;
}

/// The number of the `count` tokens from `first` on that are computed at once. A window holds all blocks of a chunk
/// until the chunk is computed. So a long one may take more than the request will ever hold: at most what is `free`, at
/// least one token.
template <class Planning>
[[nodiscard]] tokens within(const Planning& p, const typename Planning::request& r, tokens first, tokens count,
                            blocks free, tokens reserved) noexcept {
  if constexpr (Planning::ledger::slides) {
    const auto& kv = p.roster.kv;
    const blocks most = max(kv.to_come(r, r.state().reach()), free);
    const tokens end = max(kv.reach(r, first + count, most, reserved), first + tokens{1});
    return kv.step_end(r, first, end) - first;
  } else {
    static_cast<void>(p), static_cast<void>(r), static_cast<void>(first), static_cast<void>(free);
    static_cast<void>(reserved);
    return count;
  }
}

/// The end of a resident's step from `first` on, to `wanted` at most: as far as there are blocks.
template <class Planning>
[[nodiscard]] tokens reached(const Planning& p, const typename Planning::request& r, tokens first,
                             tokens wanted) noexcept {
  const tokens end = p.roster.kv.reach(r, wanted, p.free());
  if constexpr (Planning::ledger::slides) {
    if (first < end) return p.roster.kv.step_end(r, first, end);
  }
  static_cast<void>(first);
  return end;
}

/// Gives what is left of the step to the first long prompt in it, as far as there are blocks. If plans are apart, to
/// the first that goes on: residents that it left tokens to may have waited for plans in flight. O(prefill entries) if
/// something is left, else O(1).
template <class Planning>
void top_up(Planning& p) noexcept {
  auto& step = p.step;
  const bool are_apart = step.apart != step.mark();
  if (!p.config.chunked_prefill || step.limits.max_chunk > tokens{}) return;
  const tokens most = min(step.budget, step.prefill_left);
  if (most <= tokens{}) return;
  for (auto& e : step.prefill) {
    auto& r = *e.request;
    const tokens left = r.state().reach() - e.first;
    if (left <= (are_apart ? e.count : long_prompt)) continue;
    const tokens wanted = within(p, r, e.first, min(left, e.count + most), p.free(), tokens{});
    const tokens reach = reached(p, r, e.first, e.first + wanted) - e.first;
    const tokens count = granted(p, r, e.first, reach, left);
    if (count <= e.count) return;
    plans_prompt(p.roster.gate, r, e.first, count);
    if (const blocks more = p.roster.kv.lacks(r, e.first + count); more > blocks{}) {
      // A window takes the chunk, and gives back as much of it as is more than it was promised.
      const blocks promised = p.roster.kv.to_come(r, r.state().reach());
      p.roster.kv.take(r, more, e.first + count);
      step.promised -= promised - p.roster.kv.to_come(r, r.state().reach());
      e.new_blocks = p.roster.kv.new_blocks(e.row);
    }
    step.budget -= count - e.count;
    step.prefill_left -= count - e.count;
    e.count = count;
    e.samples = count == left;
    return;
  }
}

/// Schedules a request's share: tokens [first, first + count), with `left` tokens to compute from `first` on.
template <class Planning>
void schedule(Planning& p, typename Planning::request& r, tokens first, tokens count, tokens left, std::uint32_t at,
              entry_origin origin) noexcept {
  auto& step = p.step;
  if (at == no_index) step.set_mark(r, plan_mark::runs);  // a resident's is set when it has run
  step.budget -= count;
  plans_prompt(p.roster.gate, r, first, count);
  const std::uint32_t row = r.state().row;
  const scheduled<typename Planning::request> entry{
      &r, first, count, tokens{}, row, p.roster.kv.new_blocks(row), count == left, origin};
  if (left == tokens{1}) {
    step.decode.push_back(entry);
    step.decode_at.push_back(at);
  } else {
    step.prefill_left -= count;
    leads_prefix(p.roster, r, first);
    step.prefill.push_back(entry);
    step.prefill_at.push_back(at);
  }
}

/// Promises a running resident the blocks that it has not taken yet.
template <class Planning>
void promise(Planning& p, const typename Planning::request& r) noexcept {
  p.step.promised += p.roster.kv.to_come(r, r.state().reach());
}

/// The common case: residents before `end`, from `step.next` on, with room for their next token in their blocks. Passes
/// over those that wait for plans in flight. Stops at the first that is another case, or when the step is full.
/// @tparam Expects whether the residents expect tokens of plans in flight.
/// @tparam Apart   whether some of these plans are too near for another sample.
template <bool Expects, bool Apart, class Planning>
void go_on_decoding(Planning& p, std::size_t end) noexcept {
  using request = typename Planning::request;
  auto& step = p.step;
  std::size_t most = end - step.next;
  const std::size_t places = step.max_batch - step.size();
  if (most > places) most = places;
  if (tokens{static_cast<std::int64_t>(most)} > step.budget) most = static_cast<std::size_t>(step.budget.count());

  const auto room_of = p.roster.kv.told_room();
  request* const* resident = p.roster.residents.all().data() + step.next;  // past those that are passed over
  const std::size_t before = step.decode.size();
  scheduled<request>* const entry = step.decode.extend(most);
  std::uint32_t* const place = step.decode_at.extend(most);
  const std::int64_t longest = p.longest.count();
  const std::uint32_t apart = step.apart;
  constexpr std::size_t ahead = 8;  // thousands of requests exceed the processor's second-level cache
  std::size_t n = 0;
  for (; n != most; ++n) {
    if (n + ahead < most) prefetch(&resident[n + ahead]->state());
    if constexpr (Apart) {
      while (waits_in_flight<true>(*resident[n], p.longest, apart)) {
        ++resident;
        most = std::min(most, end - ++step.next);
        if (n == most) break;
      }
      if (n == most) break;
    } else if constexpr (Expects) {
      if (waits_in_flight<false>(*resident[n], p.longest, apart)) break;
    }
    request& r = *resident[n];
    const auto& s = r.state();
    std::int64_t length = s.length.count();
    if constexpr (Expects) length += s.expected;
    if (is_bounded<typename Planning::gate>(r, s.computed)) break;
    const std::int64_t room = room_of(s.row);
    if (s.computed.count() + 1 != length || length > room || length > longest) break;
    scheduled<request>& e = entry[n];  // member by member: as a whole, it would be built elsewhere and copied
    e.request = &r;
    e.first = s.computed;
    e.count = tokens{1};
    e.lookahead = tokens{};
    e.row = s.row;
    e.new_blocks = 0;
    e.samples = true;
    e.origin = entry_origin::going_on;
    place[n] = static_cast<std::uint32_t>(step.next + n);
  }
  step.decode.truncate(before + n);
  step.decode_at.truncate(before + n);
  step.next += n;
  step.budget -= tokens{static_cast<std::int64_t>(n)};
}

/// A resident's turn: its next token, or a chunk of its prompt. False: it lacks a block, and no resident behind it can
/// give one.
template <class Planning>
[[nodiscard]] bool go_on(Planning& p, typename Planning::request& r, std::uint32_t at) noexcept {
  auto& kv = p.roster.kv;
  const auto& s = r.state();
  if (s.expected != 0 && waits_in_flight(r, p.longest, p.step.apart)) return true;
  // A request that can never continue does not keep others from starting.
  if (s.length > p.longest) [[unlikely]] {
    if (!p.step.outgrown.full()) p.step.outgrown.push_back(&r);
    return true;
  }
  const tokens left = s.reach() - s.computed;
  // Without chunked prefill, the part of a prompt that did not arrive waits for a step with the budget for it, like
  // every start.
  const bool is_prefill = left != tokens{1};
  if (is_prefill && p.step.prefill_left <= tokens{}) [[unlikely]] {
    promise(p, r);
    return true;  // decodes continue
  }
  if (is_prefill && !p.config.chunked_prefill && !takes_whole(p, left)) [[unlikely]] {
    --p.step.next;
    p.step.stopped = wait_reason::budget_spent;
    return true;
  }
  const tokens room = kv.room(r);
  tokens count = left == tokens{1} ? left : chunk_of(p, r, left);
  if (is_prefill) count = within(p, r, s.computed, count, p.free(), tokens{});
  count = granted(p, r, s.computed, count, left);
  if (count <= tokens{}) [[unlikely]] {
    plans_prompt(p.roster.gate, r, s.computed, tokens{});
    if (is_prefill) promise(p, r);
    return true;
  }
  if (s.computed + count > room) {
    blocks more = kv.lacks(r, s.computed + count);
    if (const blocks lacking = make_free(p, r, more, 0, more); lacking > blocks{}) {
      // This holds for residents behind it as well, which have fewer behind them: one trial serves for all.
      p.step.obtainable = min(p.step.obtainable, more - lacking);
      // Part of a chunk is better than nothing: the blocks that are free or backfilled requests hold, or else one
      // block.
      if constexpr (Planning::gate::backfills) send_guests_away(p, r, more);
      const blocks one = kv.lacks(r, s.computed + tokens{1});
      if (p.free() < one) static_cast<void>(make_free(p, r, one, 0, one));
      count = reached(p, r, s.computed, s.computed + count) - s.computed;
      count = granted(p, r, s.computed, count, left);
      if (count <= tokens{}) {
        kv.mark_stalled(r, p.step.mark());
        return false;
      }
      more = kv.lacks(r, s.computed + count);
    }
    kv.take(r, more, s.computed + count);
  }
  if (left != tokens{1}) promise(p, r);
  // A fork is resident before the engine has been told of it.
  schedule(p, r, s.computed, count, left, at, kv.is_told(s.row) ? entry_origin::going_on : entry_origin::started);
  return true;
}

}  // namespace detail
TESSERA_NAMESPACE_END
