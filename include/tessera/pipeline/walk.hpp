// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/pipeline/admission.hpp>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Whether a waiting request may take a resident's place. Nobody takes that of one who had to start anew, until it has
/// made up for it; anybody takes a guest's.
template <class Planning>
[[nodiscard]] bool displaces(const Planning& p, const typename Planning::request& waiting,
                             const typename Planning::request& resident) noexcept {
  if (resident.state().restarted) return false;
  if (resident.state().guest) return true;
  return p.roster.waiting.discipline().displaces(waiting, resident);
}

/// Where a waiting request's turn comes among the residents: before the first that it displaces. It displaces all
/// behind that one, too, so that is found by bisection, and by one look where it displaces nobody.
template <class Planning>
[[nodiscard]] std::size_t turn_of(const Planning& p, const typename Planning::request& waiting) noexcept {
  const auto& residents = p.roster.residents;
  std::size_t high = p.step.kept;
  if (high == p.step.next || !displaces(p, waiting, *residents[high - 1])) return high;
  std::size_t low = p.step.next;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (displaces(p, waiting, *residents[middle])) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// Guests who rank before all that wait are guests no more.
template <class Planning>
void welcome_guests(Planning& p) noexcept {
  auto& residents = p.roster.residents;
  while (residents.guests() != 0) {
    auto& guest = *residents[residents.size() - residents.guests()];
    const auto* const first = p.roster.waiting.front();
    if (first != nullptr && p.roster.waiting.discipline().before(*first, guest)) return;
    residents.erase(guest);
    request_access::state(guest).guest = false;
    residents.insert(guest);
  }
}

/// What the gate is shown.
template <class Planning>
[[nodiscard]] gate_view<typename Planning::request> view_of(const Planning& p,
                                                            const typename Planning::request& r) noexcept {
  const auto& roster = p.roster;
  const std::size_t held = p.step.places_taken() + roster.suspended.size() + roster.draining;
  return {.free = p.free() - p.step.promised,
          .needed = p.whole(r),
          .block_size = roster.kv.block_size(),
          .residents = roster.residents.all().first(p.ordinary()),
          .admitted = p.step.admitted,
          .own = roster.kv.own().by_row(),
          .places = held < p.limits.residents ? p.limits.residents - held : 0,
          .most_places = p.limits.residents,
          .may_skip = p.step.skips < static_cast<std::size_t>(roster.gate.most_skipped)};
}

/// The gate's answer to one whose turn has come. Beyond the most that are skipped it is `stop`.
template <class Planning>
[[nodiscard]] passage screen(Planning& p, const typename Planning::request& r) noexcept {
  auto& gate = p.roster.gate;
  auto& step = p.step;
  const gate_view<typename Planning::request> view = view_of(p, r);
  const passage answer = gate.ask(r, view);
  if (answer != passage::skip) return answer;
  if (!view.may_skip) return passage::stop;
  if constexpr (gate_hears_skips<typename Planning::gate, typename Planning::request>) gate.skips(r);
  ++step.skips;
  if (!step.skipped.full()) step.skipped.push_back(r.state().sequence);
  return passage::skip;
}

/// Those behind the first who waits and cannot start, as far as the gate lets them pass it.
template <class Planning>
void let_pass(Planning& p, typename Planning::request& blocked) noexcept {
  using request = typename Planning::request;
  auto& step = p.step;
  const auto& gate = p.roster.gate;
  const wait_reason why = step.blocked_reason;
  if (why != wait_reason::no_blocks && why != wait_reason::held_back) return;
  step.first_guest = step.admitted.size();
  const blocks hold_before = held_by_guests(p);
  blocks new_guests{};
  for (request* r = p.roster.waiting.next(blocked); r != nullptr; r = p.roster.waiting.next(*r)) {
    if (step.starts == 0 || step.is_full()) return;
    // What it lacks, were there no guests and nothing of its prefix.
    const blocks lacks = p.whole(blocked) + step.promised - p.free() - hold_before - new_guests;
    gate_view<request> view = view_of(p, *r);
    view.blocked = &blocked;
    view.lacks = max(lacks, blocks{});
    view.guests_hold = hold_before + new_guests;
    // Who lost its KV would keep its blocks until it has made up for it: no guest.
    const passage answer = r->state().restarted || r->state().length > p.longest ? passage::skip : gate.ask(*r, view);
    if (answer == passage::stop) return;
    if (answer == passage::start && start(p, *r, true) == wait_reason::none) {
      --step.starts;
      new_guests += p.roster.kv.held(*r);
    } else if (++step.skips >= gate.most_skipped) {
      return;
    }
  }
}

/// Goes through residents and waiting requests in one order, that of the discipline, until the step is full.
template <class Planning>
void walk(Planning& p) noexcept {
  using request = typename Planning::request;
  auto& [limits, longest, config, roster, step] = p;
  if constexpr (Planning::gate::passes) welcome_guests(p);
  request* candidate = roster.waiting.front();
  request* blocked = nullptr;
  while (true) {
    const std::size_t turn = candidate != nullptr ? turn_of(p, *candidate) : step.kept;
    while (step.next < turn && step.next < step.kept && !step.is_full()) {
      if (step.expects) {
        go_on_decoding<true>(p, turn < step.kept ? turn : step.kept);
      } else {
        go_on_decoding<false>(p, turn < step.kept ? turn : step.kept);
      }
      if (step.next >= turn || step.next >= step.kept || step.is_full()) break;
      const std::size_t at = step.next++;
      const std::size_t kept = step.kept;
      // Nobody starts while a resident lacks a block.
      if (!go_on(p, *roster.residents[at], static_cast<std::uint32_t>(at))) {
        candidate = blocked = nullptr;
        break;
      }
      if (step.kept != kept) break;  // a victim that was chosen may have stood before the candidate's turn
    }
    if (candidate == nullptr && step.next >= step.kept) break;
    if (step.is_full()) {
      if (candidate != nullptr) step.block(*candidate, step.stopped);
      return;
    }
    if (candidate == nullptr || step.next < (turn < step.kept ? turn : step.kept)) continue;

    // One that can never go on keeps nobody from starting.
    if (candidate->state().length > longest) [[unlikely]] {
      if (!step.outgrown.full()) step.outgrown.push_back(candidate);
      candidate = roster.waiting.next(*candidate);
      continue;
    }
    if constexpr (gate_screens<typename Planning::gate>) {
      const passage answer = step.starts == 0 ? passage::start : screen(p, *candidate);
      if (answer == passage::skip) {
        candidate = roster.waiting.next(*candidate);
        continue;
      }
      if (answer == passage::stop) {
        step.block(*candidate, wait_reason::gated);
        candidate = nullptr;
        continue;
      }
    }
    const wait_reason why_not = step.starts == 0 ? wait_reason::not_wanted : start(p, *candidate, false);
    if (why_not == wait_reason::none) {
      --step.starts;
      candidate = roster.waiting.next(*candidate);
    } else if (why_not == wait_reason::prefix_in_flight) {
      candidate = roster.waiting.next(*candidate);  // its place and its blocks are kept
    } else {
      step.block(*candidate, why_not);
      blocked = candidate;
      candidate = nullptr;
    }
  }
  if constexpr (Planning::gate::passes) {
    if (blocked != nullptr) {
      top_up(p);  // guests take what no other can
      let_pass(p, *blocked);
    }
  }
}

}  // namespace detail
TESSERA_NAMESPACE_END
