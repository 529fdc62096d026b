// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// Two instances, and whatever an engine may do to them. A source of numbers decides it: a seeded generator in the
/// property tests, the input in the fuzz target.

#include "property/scheduler_world.hpp"

#include <deque>
#include <random>

namespace tessera_test {

/// A source of numbers that a seed repeats.
struct seeded {
  std::mt19937_64 random;
  std::uint64_t operator()(std::uint64_t n) { return random() % n; }
  [[nodiscard]] bool done() const { return false; }
};

/// `Choice`: `std::uint64_t operator()(std::uint64_t n)` gives a number below n (n > 0); `bool done() const`.
template <class Order, class BlockStore, class Choice, class Gate = gate::in_line>
class scheduler_operations {
 public:
  using world = scheduler_world<Order, BlockStore, Gate>;

  /// @param extra adds plans that are abandoned at once, before every plan; null: none. They must change nothing.
  /// @param remember whether refusals are remembered, and
  /// @param looks whether anything is checked but what the digest tells.
  /// @param plans_in_flight plans that are made before the first of them is settled, at most.
  /// @param aside whether requests are parked, and copies take longer than a step.
  explicit scheduler_operations(Choice& choice, Choice* extra = nullptr, bool remember = true, bool looks = true,
                                std::size_t plans_in_flight = 1, bool aside = false)
      : choice_{choice},
        extra_{extra},
        aside_{aside},
        limits_{make_limits(plans_in_flight)},
        config_{make_config(remember)},
        a_{limits_, config_},
        b_{limits_, config_} {
    if (!looks) {
      a_.look_away();
      b_.look_away();
    }
  }

  void run(std::size_t operations) {
    for (std::size_t i = 0; i != operations && !choice_.done(); ++i) {
      now_ += duration{static_cast<double>(below(4)) * 0.5};
      world& w = below(3) == 0 ? b_ : a_;
      if (limits_.plans_in_flight != 1 && goes_on(w)) continue;
      if (aside_ && below(3) == 0) {
        stand_aside(w);
        continue;
      }
      if (w.open()) {
        switch (below(10)) {
          case 9: update(w); break;
          case 8: suspend_or_resume(w); break;
          case 0: submit(w); break;
          case 1: cancel(w); break;
          case 2: w.abandon(); break;
          case 3: migrate(w); break;
          default: commit(w);
        }
      } else {
        switch (below(18)) {
          case 17: fork(w); break;
          case 16: preempt(w); break;
          case 15:
            if constexpr (kv::prefix_store<BlockStore>) {
              if (below(4) == 0) w.forget_prefixes();
            }
            break;
          case 14: update(w); break;
          case 12:
          case 13: suspend_or_resume(w); break;
          case 0:
          case 1: submit(w); break;
          case 2: submit_wrong(w); break;
          case 3: cancel(w); break;
          case 4: migrate(w); break;
          default:
            if (w.in_flight() == limits_.plans_in_flight) {
              commit(w);
            } else {
              plan(w, some_limits(choice_));
            }
        }
      }
    }
  }

  /// With an engine that only ever goes on, everything ends.
  void drain() {
    for (world* w : {&a_, &b_}) {
      while (w->pending()) commit(*w);
      for (text_request* r : w->live()) {
        if (r->state().parked) static_cast<void>(w->ready(*r));
      }
      for (text_request* r : w->loading_ones()) static_cast<void>(w->arrived(*r, tokens{}));
      for (text_request* r : w->live()) {
        if (r->state().life == lifecycle::suspended) w->resume(*r);
      }
      while (w->copies_out() != 0) w->drained(0);
      std::int64_t left = 0;
      for (const text_request* r : w->live()) left += r->prompt.count() + r->output.count() + 8;
      // Every step computes at least one token. Recomputation repeats work, but every interval between two preemptions
      // of the first in turn is worth a token of progress.
      std::int64_t steps = 64 + 64 * left * left;
      while (!w->live().empty()) {
        must(steps-- > 0, "everything ends");
        now_ += duration{0.5};
        if (aside_ && !w->open()) {
          for (text_request* r : w->loading_ones()) static_cast<void>(w->arrived(*r, r->announced));
        }
        if (limits_.plans_in_flight != 1 && goes_on(*w)) continue;
        if (w->pending() && w->in_flight() == limits_.plans_in_flight) commit(*w);
        plan(*w, some_limits(choice_));
        if (limits_.plans_in_flight == 1) commit(*w);
      }
      while (w->pending()) commit(*w);
      for (text_request* r : w->loading_ones()) static_cast<void>(w->arrived(*r, r->announced));
      w->check_empty();
    }
    for (const text_request& r : requests_) must(r.accepted == r.ended, "every accepted request ends once");
  }

  [[nodiscard]] std::uint64_t digest() const { return mix(a_.digest(), b_.digest()); }
  [[nodiscard]] std::size_t preempted() const { return preempted_; }
  [[nodiscard]] std::size_t hits() const { return hits_; }
  [[nodiscard]] std::size_t migrated() const { return migrated_; }
  [[nodiscard]] std::size_t resumed() const { return resumed_; }
  [[nodiscard]] std::size_t lost() const { return lost_; }
  [[nodiscard]] std::size_t forked() const { return forked_; }
  [[nodiscard]] std::size_t loads() const { return a_.loads() + b_.loads(); }
  [[nodiscard]] std::size_t demotions() const { return a_.demotions() + b_.demotions(); }
  [[nodiscard]] std::size_t parked() const { return parked_; }
  [[nodiscard]] std::size_t arrived() const { return arrived_; }
  [[nodiscard]] std::size_t drained() const { return drained_; }
  [[nodiscard]] std::size_t late() const { return a_.late() + b_.late(); }

 private:
  std::uint64_t below(std::uint64_t n) { return choice_(n); }
  tokens upto(std::uint64_t n) { return tokens{static_cast<std::int64_t>(choice_(n + 1))}; }

  /// With several in flight, half of the time a plan is made or settled next to everything else.
  [[nodiscard]] bool goes_on(world& w) {
    const auto what = below(4);
    if (what == 0 && w.in_flight() != limits_.plans_in_flight) {
      plan(w, some_limits(choice_));
      return true;
    }
    if (what == 1 && w.pending()) {
      commit(w);
      return true;
    }
    return false;
  }

  scheduler_limits make_limits(std::size_t plans_in_flight) {
    constexpr std::int64_t sizes[] = {1, 2, 3, 4, 16};
    scheduler_limits l;
    l.plans_in_flight = plans_in_flight;
    l.block_size = tokens{sizes[below(5)]};
    l.blocks = 1 + below(24);
    l.residents = 1 + below(6);
    l.host_blocks = below(3) == 0 ? 0 : below(2 * l.blocks);
    l.requests = 1 + below(12);
    l.max_length = below(2) == 0 ? tokens{} : tokens{1} + upto(40);
    if (aside_) l.deadlines = below(8);
    return l;
  }
  typename world::scheduler_type::config make_config(bool remember) {
    typename world::scheduler_type::config c;
    c.remember_refusals = remember;
    c.preempt.kind = static_cast<int>(below(3));
    c.admit.kind = static_cast<int>(below(3));
    c.draft.kind = static_cast<int>(below(3));
    c.chunked_prefill = below(4) != 0;
    c.firm_budget = !c.chunked_prefill && below(2) == 0;
    c.reserve = below(4) == 0 ? reservation::whole_sequence : reservation::by_chunk;
    if constexpr (screens<Gate>) {
      c.gate.most_skipped = below(6);
      std::get<0>(c.gate.gates).slots = 1 + below(3);
      std::get<0>(c.gate.gates).most_overtaken = c.gate.most_skipped;
      std::get<2>(c.gate.gates).whole_inputs = below(3) == 0;
      std::get<2>(c.gate.gates).capacity = tokens{8} + upto(8);
      std::get<2>(c.gate.gates).per_step = tokens{1} + upto(8);
      std::get<1>(c.gate.gates).weights[1] = 1 + static_cast<std::int64_t>(below(3));
    }
    if constexpr (requires { c.order.quantum; }) c.order.quantum = tokens{1} + upto(5);
    if constexpr (requires { c.order.demote_above; }) c.order.demote_above = upto(30);
    if constexpr (requires { c.order.young_quanta; }) c.order.young_quanta = below(3);
    if constexpr (requires { c.order.prompt_pace; })
      c.order.prompt_pace = duration{0.5 * static_cast<double>(below(3))};
    if constexpr (requires { c.order.slice; }) {
      c.order.slice = tokens{1} + upto(5);
      c.order.margin = duration{static_cast<double>(below(3))};
    }
    if constexpr (requires { c.order.threshold; }) c.order.threshold = duration{static_cast<double>(below(8))};
    return c;
  }
  step_limits some_limits(Choice& choice) const {
    step_limits s;
    s.max_batch = 1 + choice(8);
    s.token_budget = tokens{1 + static_cast<std::int64_t>(choice(choice(2) == 0 ? 6 : 60))};
    if (choice(3) == 0) s.max_chunk = tokens{1 + static_cast<std::int64_t>(choice(6))};
    if (choice(8) == 0) s.max_starts = choice(3);
    if (choice(3) == 0) s.lookahead = tokens{static_cast<std::int64_t>(choice(4))};
    if (aside_ && choice(3) == 0) s.prefill_budget = tokens{1 + static_cast<std::int64_t>(choice(9))};
    return s;
  }

  text_request& any(world& w) { return *w.live()[below(w.live().size())]; }

  void submit(world& w) {
    const std::int64_t longest = limits_.longest().count();
    text_request& r = next_request();
    const tokens length = tokens{1 + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(longest)))};
    r.write(requests_.size(), length, upto(40), below(3), limits_.block_size);
    const tokens most = limits_.longest() - length + tokens{1};
    r.output =
        tokens{1} + upto(static_cast<std::uint64_t>(most.count()));  // now and then one more than there is room for
    const bool known = below(4) != 0;
    r.max_output = known ? r.output : tokens{};
    r.reasoning = upto(static_cast<std::uint64_t>(r.output.count()));
    r.starts_in = below(4) == 0 ? phase::answering : phase::reasoning;
    r.priority = below(4) == 0 ? static_cast<int>(below(3)) - 1 : 0;
    r.score = static_cast<float>(below(10));
    if constexpr (screens<Gate>) {
      r.adapter = static_cast<std::uint32_t>(below(5));
      r.tenant = static_cast<std::uint32_t>(below(4));
      tokens at = upto(3);
      for (std::uint64_t n = below(4); n != 0; --n) {
        const std::uint64_t hash = 1 + below(6);
        const tokens size{1 + static_cast<std::int64_t>(hash % 4)};
        const tokens stands_for = size + upto(2);  // with separators
        if (at + stands_for > length) break;
        r.images.push_back({.hash = hash, .size = size, .first = at, .length = stands_for});
        at += stands_for + upto(4);
      }
    }
    const bool full = w.scheduler().waiting_count() + w.scheduler().parked_count() >= limits_.requests;
    const status expected = known && r.output > most ? status::never_fits
                            : full                   ? status::queue_full
                                                     : status::accepted;
    must(w.submit(r, now_) == expected, "submit answers what the limits say");
  }

  void submit_wrong(world& w) {
    if (!w.live().empty() && below(2) == 0) {
      text_request& r = any(w);
      must(a_.submit(r, now_) == status::busy && b_.submit(r, now_) == status::busy, "a live request is busy");
      must((&w == &a_ ? b_ : a_).scheduler().cancel(r) == status::unknown_request, "a request elsewhere is unknown");
      return;
    }
    text_request& r = next_request();
    r.write(requests_.size(), limits_.longest() + tokens{1}, tokens{}, 0, limits_.block_size);
    must(w.submit(r, now_) == status::never_fits, "too long a prompt never fits");
    r.prompt = tokens{std::numeric_limits<std::int64_t>::max()};
    must(w.submit(r, now_) == status::never_fits, "no prompt is too long to be refused");
    r.prompt = tokens{};
    must(w.submit(r, now_) == status::invalid, "an empty prompt is invalid");
    r.prompt = tokens{1};
    r.max_output = tokens{std::numeric_limits<std::int64_t>::max()};
    must(w.submit(r, now_) == status::never_fits, "no output is too long to be refused");
    r.max_output = tokens{-1};
    must(w.submit(r, now_) == status::invalid, "a negative output is invalid");
    must(w.scheduler().cancel(r) == status::unknown_request && w.scheduler().evacuate(r) == status::unknown_request &&
             w.scheduler().update(r, [](text_request&) { must(false, "not here"); }) == status::unknown_request,
         "what was refused is not here");
  }

  void cancel(world& w) {
    if (!w.live().empty()) w.cancel(any(w));
  }

  void update(world& w) {
    if (!w.live().empty()) w.update(any(w), static_cast<int>(below(3)) - 1);
  }

  void preempt(world& w) {
    if (!w.live().empty() && below(2) == 0) w.preempt(any(w));
  }

  void fork(world& w) {
    const auto residents = w.scheduler().residents();
    if (residents.empty()) return;
    text_request& parent = *residents[below(residents.size())];
    text_request& child = requests_.emplace_back(parent);
    child.id = requests_.size();
    child.accepted = child.ended = 0;
    child.copy_pending = false;
    child.ended_there = false;
    for (std::int64_t p = 0; p != parent.state().length.count(); ++p) {
      static_cast<void>(parent.content(static_cast<std::size_t>(p)));
    }
    child.contents = parent.contents;
    child.contents.resize(static_cast<std::size_t>(parent.state().length.count()));
    child.host_ids.clear();
    child.in_transit.clear();
    const status s = w.fork(parent, child);
    must(s == status::ok || s == status::exhausted || s == status::never_fits || (s == status::busy && w.pending()),
         "a resident can be forked, or is too large");
    forked_ += s == status::ok;
  }

  /// Soon, later, or never; also what has passed already.
  time_point some_deadline() {
    const auto steps = below(12);
    return below(8) == 0 ? time_point::never() : now_ + duration{static_cast<double>(steps) - 1.0};
  }

  /// Notices come late, twice, wrong, or never.
  void stand_aside(world& w) {
    switch (below(9)) {
      case 0:
        if (w.copies_out() != 0) {
          w.drained(below(w.copies_out()));
          ++drained_;
        }
        must(w.scheduler().drained(~std::uint64_t{0}) == status::unknown_request, "there is no such copy");
        return;
      case 1: {
        const auto all = w.loading_ones();
        if (all.empty()) return;
        text_request& r = *all[below(all.size())];
        const auto most = static_cast<std::uint64_t>(r.announced.count());
        const auto n = below(3) == 0 ? tokens{static_cast<std::int64_t>(below(most + 2))} : r.announced;
        arrived_ += w.arrived(r, n) == status::ok;
        return;
      }
      default: break;
    }
    if (w.live().empty()) return;
    text_request& r = any(w);
    const time_point deadline = some_deadline();
    switch (below(8)) {
      case 6:
      case 0: {
        const bool fails = below(3) == 0;
        parked_ += w.park(r, deadline, fails ? park_end::fails : park_end::ready) == status::ok;
        break;
      }
      case 2: static_cast<void>(w.ready(r)); break;
      case 1:
      case 7:
      case 3: {
        // One of the waiting requests, if there are any: they are few.
        text_request* q = &r;
        for (text_request* other : w.live()) {
          if (other->state().life == lifecycle::waiting && q->state().life != lifecycle::waiting) q = other;
        }
        const auto most = static_cast<std::uint64_t>(q->state().length.count());
        const bool later = below(4) != 0;
        const auto n = tokens{static_cast<std::int64_t>(below(most + 1))};
        static_cast<void>(w.loading(*q, n, later ? deadline + duration{8} : deadline));
        break;
      }
      case 4: {
        const bool starts = below(2) == 0;
        if (starts) {
          static_cast<void>(w.start_by(r, deadline));
          break;
        }
        const bool is_finished = below(2) == 0;
        if (w.drain(r, is_finished, deadline) == status::ok && !is_finished) {
          if (w.adopt(r) != status::accepted) ++r.ended;
        }
        break;
      }
      default:
        must(w.scheduler().arrived(r, tokens{-1}) != status::ok, "less than nothing cannot arrive");
        must((&w == &a_ ? b_ : a_).scheduler().ready(r) == status::unknown_request, "a request elsewhere is unknown");
    }
  }

  void suspend_or_resume(world& w) {
    if (w.live().empty()) return;
    text_request& r = any(w);
    // Half of the requests to resume can be any, to be refused.
    if (r.state().life == lifecycle::suspended ? below(8) != 0 : below(8) == 0) {
      resumed_ += !w.open() && r.state().life == lifecycle::suspended;
      w.resume(r);
    } else {
      w.suspend(r);
    }
  }

  /// A request goes to the other instance: itself, with all that its state says, or a copy as in another process. Its
  /// KV may get lost on the way.
  void migrate(world& from) {
    if (from.live().empty()) return;
    text_request* r = &any(from);
    if (from.evacuate(*r) != status::ok) return;  // it is in the plan that is pending
    world& to = &from == &a_ ? b_ : a_;
    request_progress<seconds_clock> progress = r->progress();
    const bool other_process = below(2) == 0;
    if (other_process) {
      ++r->ended;
      r = &requests_.emplace_back(*r);
      r->ended = 0;
      must(to.scheduler().adopt(*r) == status::invalid, "a copy has no progress of its own");
      auto wrong = progress;
      wrong.length = r->prompt - tokens{1};
      must(to.scheduler().adopt(*r, wrong) == status::invalid, "a sequence begins with its prompt");
      wrong = progress;
      wrong.computed = wrong.length;
      must(to.scheduler().adopt(*r, wrong) == status::invalid, "a token is to come");
    }
    const bool is_lost = below(4) == 0;
    if (is_lost) {
      progress.computed = tokens{};
      r->in_transit.clear();
    }
    const status s = to.adopt(*r, other_process || is_lost ? &progress : nullptr);
    if (s == status::accepted) {
      ++migrated_;
      lost_ += is_lost;
      must(r->progress().length == progress.length && r->progress().phase == progress.phase &&
               r->progress().reasoning == progress.reasoning && r->progress().arrived == progress.arrived,
           "an adopted request has its progress");
      return;
    }
    must(s == status::queue_full || s == status::never_fits, "only the limits refuse an adopted request");
    ++r->ended;  // it is not wanted
  }

  void plan(world& w, const step_limits& step) {
    if (extra_ != nullptr) {
      const auto before = w.digest();
      for (std::uint64_t n = (*extra_)(3); n != 0; --n) {
        static_cast<void>(w.plan(now_, some_limits(*extra_)));
        w.abandon();
      }
      w.set_digest(before);
    }
    const auto& p = w.plan(now_, step);
    preempted_ += p.preempted.size();
    for (const auto& e : p.prefill) hits_ += e.first > tokens{} && e.request->state().life == lifecycle::waiting;
  }

  void commit(world& w) {
    const std::vector<text_request*> outgrown{w.oldest().outgrown.begin(), w.oldest().outgrown.end()};
    w.commit(now_, [&](text_request& r, const scheduled<text_request>& e, tokens generated) {
      outcome o;
      if (!e.samples) {
        o.produced = static_cast<std::uint16_t>(below(3));  // ignored
        o.end_of_reasoning = below(8) == 0;                 // ignored
        return o;
      }
      o.produced = static_cast<std::uint16_t>(1 + below(static_cast<std::uint64_t>(e.lookahead.count()) + 1));
      const tokens done = generated + tokens{o.produced};
      o.finished = done >= r.output;
      o.end_of_reasoning = done >= r.reasoning && generated < r.reasoning;
      if (below(40) == 0) {
        o.failed = true;
        o.produced = static_cast<std::uint16_t>(below(2));
      }
      return o;
    });
    for (text_request* r : outgrown) {
      if (std::find(w.live().begin(), w.live().end(), r) != w.live().end() && below(2) == 0) w.cancel(*r);
    }
  }

  text_request& next_request() { return requests_.emplace_back(); }

  Choice& choice_;
  Choice* extra_;
  bool aside_;
  time_point now_{};
  scheduler_limits limits_;
  typename world::scheduler_type::config config_;
  std::deque<text_request> requests_;
  world a_;
  world b_;
  std::size_t preempted_ = 0;
  std::size_t hits_ = 0;
  std::size_t migrated_ = 0;
  std::size_t resumed_ = 0;
  std::size_t lost_ = 0;
  std::size_t forked_ = 0;
  std::size_t parked_ = 0;
  std::size_t arrived_ = 0;
  std::size_t drained_ = 0;
};

}  // namespace tessera_test
