// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/pipeline/admission.hpp>

#include <limits>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Whether a waiting request may take a resident's place. No request displaces a restarted one until it has recomputed
/// what it lost. Every request displaces a backfilled one.
template <class Planning>
[[nodiscard]] bool displaces(const Planning& p, const typename Planning::request& waiting,
                             const typename Planning::request& resident) noexcept {
  if (resident.state().restarted) return false;
  if (resident.state().backfilled) return true;
  return p.roster.waiting.discipline().displaces(waiting, resident);
}

/// The place of a waiting request's turn among the residents: before the first that it displaces. It displaces all
/// behind that one as well, so the place is found by bisection, and by one look if it displaces none.
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

/// Backfilled requests that rank before all waiting ones become ordinary.
template <class Planning>
void welcome_guests(Planning& p) noexcept {
  auto& residents = p.roster.residents;
  while (residents.guests() != 0) {
    auto& guest = *residents[residents.size() - residents.guests()];
    const auto* const first = p.roster.waiting.front();
    if (first != nullptr && p.roster.waiting.discipline().before(*first, guest)) return;
    residents.erase(guest);
    request_access::state(guest).backfilled = false;
    residents.insert(guest);
  }
}

/// The gate's view.
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
          .exclusive = roster.kv.own().by_row(),
          .places = held < p.limits.residents ? p.limits.residents - held : 0,
          .most_places = p.limits.residents};
}

/// Walks through a queue without classes, request by request. (`class_queue::line` is its counterpart.)
template <class Queue>
struct plain_line {
  using request = typename Queue::request_type;
  Queue* queue;
  request* at = nullptr;

  [[nodiscard]] request* first() noexcept { return at = queue->front(); }
  [[nodiscard]] request* take() noexcept { return at = queue->next(*at); }
};
template <class Queue>
[[nodiscard]] auto line_of(Queue& queue) noexcept {
  if constexpr (requires { typename Queue::line; }) {
    return typename Queue::line{queue};
  } else {
    return plain_line<Queue>{&queue};
  }
}

/// `r` is the first request of a class that is skipped.
template <class Planning>
void note_skip(Planning& p, const typename Planning::request& r) noexcept {
  if (!p.step.skipped.full()) p.step.skipped.push_back(r.state().sequence);
}
/// The gate skips or defers the class of the request at which `line` is. Returns the next.
template <class Planning, class Line>
[[nodiscard]] auto* skip(Planning& p, const typename Planning::request& r, Line& line, bool defers) noexcept {
  if constexpr (gate_hears_skips<typename Planning::gate, typename Planning::request>) p.roster.gate.skips(r);
  if (defers) return line.defer();
  note_skip(p, r);
  return line.close();
}

/// Whether a deferred class goes before the one at a place of the line.
template <class Planning, class Line>
[[nodiscard]] bool prefers(const Planning& p, const typename Planning::request& r, const Line& line,
                           std::size_t place) noexcept {
  if (place == ~std::size_t{0}) return true;
  if constexpr (gate_prefers<typename Planning::gate, typename Planning::request>) {
    return p.roster.gate.prefers(r, line[place]);
  } else {
    return false;
  }
}

/// Handles requests behind the first that cannot start, as far as the gate lets them pass. `line` is at that first one.
template <class Planning, class Line>
void let_pass(Planning& p, const typename Planning::request& blocked, Line& line) noexcept {
  using request = typename Planning::request;
  constexpr bool has_classes = gate_has_classes<typename Planning::gate, request>;
  auto& step = p.step;
  const auto& gate = p.roster.gate;
  const wait_reason why = step.blocked_reason;
  if (why != wait_reason::no_blocks && why != wait_reason::held_back) return;
  step.first_guest = step.admitted.size();
  const blocks hold_before = held_by_guests(p);
  blocks new_guests{};
  std::size_t in_vain = 0;
  for (request* r = line.take(); r != nullptr;) {
    if (step.starts == 0 || step.is_full()) return;
    gate_view<request> view = view_of(p, *r);
    if constexpr (has_classes) {
      // As if its turn had come: whether its class lacks something.
      const passage answer = gate.ask(*r, view);
      if (answer == passage::stop) return;
      if (answer != passage::start) {
        r = skip(p, *r, line, false);
        continue;
      }
    }
    // What it lacks without backfilled requests and without a found prefix.
    const blocks lacks = p.whole(blocked) + step.promised - p.free() - hold_before - new_guests;
    view.blocked = &blocked;
    view.lacks = max(lacks, blocks{});
    view.backfilled_blocks = hold_before + new_guests;
    // A request that lost its KV would keep its blocks until it has recomputed it: it is not backfilled.
    const passage answer = r->state().restarted || r->state().length > p.longest ? passage::skip : gate.ask(*r, view);
    if (answer == passage::stop) return;
    if (answer == passage::start && start(p, *r, true) == wait_reason::none) {
      --step.starts;
      new_guests += p.roster.kv.held(*r);
    } else if (++in_vain >= gate.most_skipped) {
      return;
    }
    r = line.take();
  }
}

/// Walks through residents and waiting requests in one order, that of the discipline, until the step is full. If the
/// gate sees classes, a skipped class is closed: its other requests are not met.
template <class Planning>
void walk(Planning& p) noexcept {
  using request = typename Planning::request;
  constexpr bool screens = gate_screens<typename Planning::gate>;
  constexpr bool has_classes = gate_has_classes<typename Planning::gate, request>;
  auto& [limits, longest, config, roster, step] = p;
  if constexpr (Planning::gate::backfills) welcome_guests(p);
  auto line = line_of(roster.waiting);
  request* candidate = line.first();
  step.waiting_priority = candidate != nullptr ? candidate->priority : std::numeric_limits<int>::min();
  request* blocked = nullptr;
  bool is_asked = false;  // the gate lets the candidate start
  // The place of the class that starts if no other can, and whether a deferred class may take a resident's place.
  [[maybe_unused]] constexpr std::size_t nowhere = ~std::size_t{0};
  [[maybe_unused]] std::size_t deferred = nowhere;
  [[maybe_unused]] bool is_urgent = false;
  bool overtaken = false;  // by the gate's decision, the last start was not the first in line
  // The next candidate: `next`, or, if there is none, the deferred class.
  const auto go_on_with = [&](request* next) noexcept {
    is_asked = false;
    if constexpr (has_classes) {
      if (next == nullptr && deferred != nowhere) {
        next = line.go_to(deferred);
        deferred = nowhere;
        is_asked = true;
      }
    }
    candidate = next;
  };
  // A candidate that is too long ever to run keeps no other from starting.
  const auto passes_outgrown = [&]() noexcept {
    if (candidate->state().length <= longest) [[likely]]
      return false;
    if (!step.outgrown.full()) step.outgrown.push_back(candidate);
    go_on_with(line.take());
    return true;
  };
  // Asks the gate about the candidate. If it is skipped, the next becomes the candidate.
  [[maybe_unused]] const auto ask = [&]([[maybe_unused]] std::size_t turn) noexcept {
    if constexpr (screens) {
      const passage answer = roster.gate.ask(*candidate, view_of(p, *candidate));
      is_asked = answer == passage::start || (answer == passage::defer && !has_classes);
      if (is_asked) return;
      if constexpr (has_classes) {
        if (answer != passage::stop) {
          const bool defers = answer == passage::defer;
          if (defers && prefers(p, *candidate, line, deferred)) deferred = line.place();
          is_urgent = is_urgent || (defers && turn < step.kept);
          return go_on_with(skip(p, *candidate, line, defers));
        }
      }
      step.block(*candidate, wait_reason::gated);
      candidate = nullptr;
    }
  };
  while (true) {
    const std::size_t turn = candidate != nullptr ? turn_of(p, *candidate) : step.kept;
    if constexpr (has_classes) {
      // A candidate that may take a resident's place is asked for before that one continues. If it is deferred, so are
      // all others.
      const bool is_early = candidate != nullptr && (turn < step.kept || is_urgent) && step.starts != 0;
      if (is_early && !is_asked) {
        if (!passes_outgrown()) ask(turn);
        continue;
      }
    }
    while (step.next < turn && step.next < step.kept && !step.is_full()) {
      if (step.expects) {
        go_on_decoding<true>(p, turn < step.kept ? turn : step.kept);
      } else {
        go_on_decoding<false>(p, turn < step.kept ? turn : step.kept);
      }
      if (step.next >= turn || step.next >= step.kept || step.is_full()) break;
      const std::size_t at = step.next++;
      const std::size_t kept = step.kept;
      // No request starts while a resident lacks a block.
      if (!go_on(p, *roster.residents[at], static_cast<std::uint32_t>(at))) {
        candidate = blocked = nullptr;
        break;
      }
      if (step.kept != kept) break;  // a chosen victim may have stood before the candidate's turn
    }
    if (candidate == nullptr && step.next >= step.kept) break;
    if (step.is_full()) {
      if (candidate != nullptr) step.block(*candidate, overtaken ? wait_reason::gated : step.stopped);
      blocked = nullptr;
      break;
    }
    if (candidate == nullptr || step.next < (turn < step.kept ? turn : step.kept)) continue;
    if (passes_outgrown()) continue;
    if constexpr (screens) {
      if (step.starts != 0 && !is_asked) {
        ask(turn);
        continue;
      }
    }
    const wait_reason why_not = step.starts == 0 ? wait_reason::not_wanted : start(p, *candidate, false);
    const bool starts = why_not == wait_reason::none;
    if constexpr (has_classes) {
      if (why_not == wait_reason::gated) {  // as soon as it is known what is cached of it
        go_on_with(skip(p, *candidate, line, false));
        continue;
      }
    }
    if (starts || why_not == wait_reason::prefix_in_flight) {  // in the latter case its place and blocks are kept
      if (starts) {
        --step.starts;
        if constexpr (has_classes) overtaken = line.place() != 0;
      }
      request* next = line.take();
      if constexpr (has_classes) {
        // After a start, a deferred class may be next. If a deferred class is held, another may start.
        if (starts || deferred == nowhere) {
          next = line.go_to(0);
          deferred = nowhere;
          is_urgent = false;
        }
      }
      go_on_with(next);
    } else {
      step.block(*candidate, why_not);
      blocked = candidate;
      candidate = nullptr;
    }
  }
  if constexpr (has_classes) {
    for (std::size_t i = 0; i != line.place(); ++i) note_skip(p, line[i]);
  }
  if constexpr (Planning::gate::backfills) {
    if (blocked != nullptr) {
      top_up(p);  // backfilled requests take what no other can
      let_pass(p, *blocked, line);
    }
  }
}

}  // namespace detail
TESSERA_NAMESPACE_END
