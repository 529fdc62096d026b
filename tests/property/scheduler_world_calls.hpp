// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What is asked of the scheduler, and what must come back: members of scheduler_world, which includes this.

#include "property/scheduler_world.hpp"
#include "support/must.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace tessera_test {

template <class Order, class BlockStore, class Gate>
status scheduler_world<Order, BlockStore, Gate>::submit(text_request& r, time_point now) {
  const auto before = scheduler_.waiting_count();
  const status s = scheduler_.submit(r, now);
  note(static_cast<std::uint64_t>(s));
  if (s != status::accepted) {
    must(scheduler_.waiting_count() == before, "a refused request changes nothing");
    return s;
  }
  must(r.state().length == r.prompt && r.state().computed == tokens{}, "a submitted request starts anew");
  ++r.accepted;
  r.computed_before = tokens{};
  r.length = r.on_device = r.prompt;
  r.ended_there = false;
  live_.push_back(&r);
  check();
  return s;
}

template <class Order, class BlockStore, class Gate>
status scheduler_world<Order, BlockStore, Gate>::adopt(text_request& r,
                                                       const request_progress<seconds_clock>* progress) {
  const status s = progress == nullptr ? scheduler_.adopt(r) : scheduler_.adopt(r, *progress);
  note(static_cast<std::uint64_t>(s));
  if (s == status::accepted) {
    r.computed_before = r.state().computed;
    r.length = r.on_device = r.state().length;
    r.ended_there = false;
    r.copy_pending = false;
    r.epoch = epoch_;  // what comes from elsewhere counts as new
    for (std::uint64_t& kv : r.in_transit) kv = (kv & ~text_request::epochs) | epoch_;
    live_.push_back(&r);
  }
  check();
  return s;
}

template <class Order, class BlockStore, class Gate>
status scheduler_world<Order, BlockStore, Gate>::evacuate(text_request& r) {
  const auto& s = r.state();
  std::vector<std::uint64_t> saved;
  const bool has_it = in_a_plan(r) || (r.copy_pending && count(s.computed) % block_size_ != 0) || is_loading(r);
  const bool busy =
      (open_ && (s.life != lifecycle::suspended || r.cancelled_while_planned)) || has_it || scheduler_.is_in_flight(r);
  must(open_ || busy == has_it || !flights_.empty(), "who is in no plan is not in flight");
  const std::uint32_t row = s.row;
  const bool leaves_row = open_ && !busy;
  // What it left to others when it was swapped out is lost to it.
  const bool incomplete = s.life == lifecycle::waiting && (s.loads || (s.host_head != no_index && r.host_first != 0));
  for (std::size_t p = 0; p != count(s.computed) && !busy && !incomplete; ++p) {
    if (s.life != lifecycle::waiting) {
      saved.push_back(slot(scheduler_.tables().row(s.row), p));
    } else if (s.host_head != no_index) {
      saved.push_back(host_.at(r.host_ids.at(p / block_size_) * block_size_ + p % block_size_));
    } else {
      saved.push_back(r.in_transit.at(p));  // adopted, and not started yet
    }
  }
  const tokens computed = incomplete && !busy ? tokens{} : s.computed;
  const status done = scheduler_.evacuate(r);
  must(done == (busy ? status::busy : status::ok), "evacuate works between plans, and always for who is suspended");
  if (done == status::ok) {
    if (leaves_row) left_rows_.push_back(row);
    must(r.state().life == lifecycle::idle && r.state().computed == computed,
         "an evacuated request keeps its progress");
    forget(r);
    r.host_ids.clear();
    r.in_transit = saved;
  }
  check();
  return done;
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::suspend(text_request& r) {
  const bool may = r.state().life == lifecycle::resident;
  const auto before = place(r);
  const auto blocks_before = row_of(r);
  const status done = scheduler_.suspend(r);
  must(done == (!may ? status::unknown_request : open_ ? status::busy : status::ok), "residents can be suspended");
  must(place(r) == before && row_of(r) == blocks_before, "who is suspended keeps its place and its blocks");
  if (done == status::ok) must(scheduler_.why(r) == wait_reason::suspended, "who is suspended knows");
  check();
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::resume(text_request& r) {
  const auto& s = r.state();
  const bool may = s.life == lifecycle::suspended && !s.parked && !s.loads;
  const auto before = place(r);
  const auto blocks_before = row_of(r);
  const status done = scheduler_.resume(r);
  must(done == (!may ? status::unknown_request : open_ ? status::busy : status::ok), "who is suspended can resume");
  must(place(r) == before && row_of(r) == blocks_before, "who resumes has its place and its blocks");
  if (done == status::ok) must(r.state().life == lifecycle::resident, "who resumes is resident");
  check();
}

template <class Order, class BlockStore, class Gate>
status scheduler_world<Order, BlockStore, Gate>::park(text_request& r, time_point deadline, park_end at_deadline) {
  const auto& s = r.state();
  const bool may = (s.life == lifecycle::waiting || s.life == lifecycle::resident || s.parked);
  const bool busy = s.life == lifecycle::resident ? open_ : open_ && in_plan(r, flights_.back());
  const auto before = place(r);
  const auto blocks_before = row_of(r);
  const status done = scheduler_.park(r, deadline, at_deadline);
  note(static_cast<std::uint64_t>(done));
  must(done == (!may ? status::unknown_request : busy ? status::busy : done), "who waits or runs can be parked");
  must(done != status::invalid && (done != status::exhausted || deadline != time_point::never()),
       "or there is no room");
  must(place(r) == before && row_of(r) == blocks_before, "who is parked keeps its place and its blocks");
  if (done == status::ok) must(s.parked && scheduler_.why(r) == wait_reason::parked, "who is parked knows");
  check();
  return done;
}

template <class Order, class BlockStore, class Gate>
status scheduler_world<Order, BlockStore, Gate>::ready(text_request& r) {
  const auto& s = r.state();
  const bool busy = s.life != lifecycle::waiting && open_;
  const bool may = s.parked;
  const auto before = place(r);
  const status done = scheduler_.ready(r);
  must(done == (!may ? status::unknown_request : busy ? status::busy : status::ok), "who is parked can be ready");
  must(place(r) == before && (done != status::ok || !s.parked), "who is ready has its place");
  check();
  return done;
}

template <class Order, class BlockStore, class Gate>
status scheduler_world<Order, BlockStore, Gate>::loading(text_request& r, tokens n, time_point deadline) {
  const status done = scheduler_.loading(r, n, deadline);
  note(static_cast<std::uint64_t>(done));
  if (done == status::ok) {
    r.announced = n;
    r.in_transit.clear();
    r.computed_before = n;
  }
  check();
  return done;
}

template <class Order, class BlockStore, class Gate>
status scheduler_world<Order, BlockStore, Gate>::arrived(text_request& r, tokens n) {
  const bool may = is_loading(r);
  const bool possible = n >= tokens{} && n <= r.announced;
  if (may && !open_ && possible) {
    const landing l{&r, r.epoch, r.announced, n, r.load_first, r.load_to};
    const auto lists_it = [&](const flight& f) {
      return !f.has_run &&
             std::any_of(f.plan.load.begin(), f.plan.load.end(), [&](const auto& t) { return t.request == &r; });
    };
    const auto f = std::find_if(flights_.rbegin(), flights_.rend(), lists_it);
    if (f == flights_.rend()) {
      land(l);
    } else {
      f->landings.push_back(l);
    }
  }
  const status done = scheduler_.arrived(r, n);
  must(done == (!may       ? status::unknown_request
                : open_    ? status::busy
                : possible ? status::ok
                           : status::invalid),
       "what was on its way can arrive");
  if (done == status::ok && is_here(r)) {
    must(r.state().life == lifecycle::resident && r.state().computed >= n, "what has arrived is there");
    r.computed_before = r.state().computed;
  }
  release_ended();
  check();
  return done;
}

template <class Order, class BlockStore, class Gate>
status scheduler_world<Order, BlockStore, Gate>::start_by(text_request& r, time_point deadline) {
  const status done = scheduler_.start_by(r, deadline);
  note(static_cast<std::uint64_t>(done));
  check();
  return done;
}

template <class Order, class BlockStore, class Gate>
status scheduler_world<Order, BlockStore, Gate>::drain(text_request& r, bool is_finished, time_point deadline) {
  const auto& s = r.state();
  const bool has_row = s.row != no_index;
  const bool busy = open_ || in_a_plan(r) || (r.copy_pending && count(s.computed) % block_size_ != 0) || is_loading(r);
  copy_out c{};
  for (std::size_t p = 0; has_row && !busy && p != count(s.computed); ++p) {
    c.contents.push_back(slot(scheduler_.tables().row(s.row), p));
    must(r.may_read(c.contents.back(), p, r.epoch), "what is copied out is its KV");
  }
  c.row = s.row;
  c.blocks = row_of(r);
  const status done =
      is_finished ? scheduler_.finish(r, deadline, c.ticket) : scheduler_.evacuate(r, deadline, c.ticket);
  note(static_cast<std::uint64_t>(done));
  must(!has_row ? done == status::unknown_request : !busy || done == status::busy, "who holds blocks can leave them");
  if (done == status::ok) {
    if (is_finished) {
      end(r, lifecycle::finished);
    } else {
      must(s.life == lifecycle::idle, "who has left is gone");
      forget(r);
      r.host_ids.clear();
      r.in_transit = c.contents;
    }
    copies_out_.push_back(std::move(c));
  }
  check();
  return done;
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::drained(std::size_t i) {
  const copy_out c = copied_out(i);
  must(scheduler_.drained(c.ticket) == status::ok, "a copy that is waited for can be done");
  must(scheduler_.drained(c.ticket) == status::unknown_request, "and only once");
  if (open_) left_rows_.push_back(c.row);
  check();
}

template <class Order, class BlockStore, class Gate>
std::vector<text_request*> scheduler_world<Order, BlockStore, Gate>::loading_ones() const {
  std::vector<text_request*> all;
  for (text_request* r : live_) {
    if (is_loading(*r)) all.push_back(r);
  }
  for (const ending& e : ending_) {
    if (is_loading(*e.request)) all.push_back(e.request);
  }
  return all;
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::update(text_request& r, int priority) {
  bool called = false;
  const auto blocks_before = row_of(r);
  const status done = scheduler_.update(r, [&](text_request& q) {
    called = true;
    q.priority = priority;
  });
  must(done == (open_ ? status::busy : status::ok) && called == (done == status::ok), "who is here can be updated");
  must(row_of(r) == blocks_before, "who is updated keeps its blocks");
  check();
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::cancel(text_request& r) {
  const bool settled_later = open_ && (in_plan(r, flights_.back()) || r.state().life != lifecycle::waiting);
  must(scheduler_.cancel(r) == status::ok, "a live request can be cancelled");
  if (settled_later) {
    r.cancelled_while_planned = true;
  } else {
    leave(r, lifecycle::cancelled);
    must(scheduler_.cancel(r) == (is_loading(r) ? status::ok : status::unknown_request), "a request ends once");
  }
  check();
}

template <class Order, class BlockStore, class Gate>
auto scheduler_world<Order, BlockStore, Gate>::plan(time_point now, const step_limits& step) -> const plan_type& {
  step_ = step;
  launch();
  for (text_request* r : live_) r->computed_before = r->state().computed;
  plan_ = scheduler_.plan(now, step);
  hear_of_deadlines();
  settle_cancelled();
  if (!flights_.empty()) {
    for (text_request* r : live_) r->computed_before = r->state().computed;
  }
  flights_.push_back({.plan = plan_});
  flight& f = flights_.back();
  for (std::size_t i = 0; i != plan_.size(); ++i) {
    const auto begin = static_cast<std::size_t>(plan_.tables.indptr[i]);
    const auto end = static_cast<std::size_t>(plan_.tables.indptr[i + 1]);
    auto& row = f.rows.emplace_back();  // which change with the next plan
    for (std::size_t j = begin; j != end; ++j) row.push_back(static_cast<kv::block_id>(plan_.tables.indices[j]));
    f.expected.push_back(plan_[i].request->state().expected);
  }
  for (text_request* r : live_) {
    if (r->copy_pending) f.copied.push_back(r);
  }
  for (const preemption<text_request>& v : plan_.preempted) {
    must(!v.request->state().restarted, "nobody loses its KV again before it has sampled");
  }
  open_ = true;
  if constexpr (Order::ages) {
    for (const text_request* r : scheduler_.residents()) must(now < order_.due_at(*r), "whose time has come ages");
  }
  check_plan();
  check_adapters();
  check_encoder();
  check();
  note_plan();
  return plan_;
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::preempt(text_request& r) {
  const bool may = r.state().life == lifecycle::resident;
  const auto before = place(r);
  const status done = scheduler_.preempt(r);
  must(done == (!may ? status::unknown_request : open_ ? status::busy : status::ok), "residents can be preempted");
  must(place(r) == before, "who is preempted keeps its place");
  if (done == status::ok) {
    must(r.state().life == lifecycle::waiting && r.state().computed == tokens{}, "who is preempted waits");
    r.copy_pending = false;
    if (!flights_.empty()) ++flights_.back().preempted_meanwhile;
  }
  check();
}

template <class Order, class BlockStore, class Gate>
status scheduler_world<Order, BlockStore, Gate>::fork(text_request& parent, text_request& child) {
  const status s = scheduler_.fork(parent, child);
  note(static_cast<std::uint64_t>(s));
  if (s == status::ok) {
    must(child.state().life == lifecycle::resident && child.generated() == parent.generated(), "a fork goes on");
    ++child.accepted;
    child.computed_before = child.state().computed;
    child.length = child.on_device = child.state().length;
    child.ended_there = false;
    child.copy_pending = true;
    child.epoch = parent.epoch;
    live_.push_back(&child);
  }
  check();
  return s;
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::forget_prefixes()
  requires kv::prefix_store<BlockStore>
{
  must(scheduler_.forget_prefixes() == (open_ ? status::busy : status::ok), "prefixes are forgotten between plans");
  must(open_ || scheduler_.store().cached() == 0, "nothing is known any more");
  if (!open_) ++epoch_;
  check();
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::abandon() {
  scheduler_.abandon(plan_);
  encoder_ = encoder_before_;
  open_ = false;
  flights_.pop_back();
  left_rows_.clear();
  for (text_request* r : live_) {
    must(r->state().computed == r->computed_before || r->cancelled_while_planned, "an abandoned plan computes nothing");
  }
  settle_cancelled();
  check();
}

template <class Order, class BlockStore, class Gate>
template <class Choose>
void scheduler_world<Order, BlockStore, Gate>::commit(time_point now, Choose&& choose) {
  const bool alone = open_ && flights_.size() == 1;  // nothing has changed since it was made
  launch();
  flight& f = flights_.front();
  run(f, choose);

  std::vector<phase> phases;
  std::map<text_request*, decltype(place(*live_.front()))> places;
  for (std::size_t i = 0; i != f.plan.size(); ++i) {
    text_request& r = *f.plan[i].request;
    phases.push_back(r.state().phase);
    if (is_here(r) && f.plan[i].samples) r.length += tokens{f.outcomes[i].produced};
  }
  for (const preemption<text_request>& v : f.plan.preempted) places.emplace(v.request, place(*v.request));
  const std::vector<preemption<text_request>> preempted{f.plan.preempted.begin(), f.plan.preempted.end()};
  std::vector<scheduled<text_request>> entries;
  for (std::size_t i = 0; i != f.plan.size(); ++i) entries.push_back(f.plan[i]);
  for (text_request* r : f.copied) r->copy_pending = false;

  scheduler_.commit(f.plan, f.outcomes, now);
  const flight done = std::move(f);
  flights_.pop_front();
  settle_cancelled();

  for (const preemption<text_request>& v : preempted) {
    if (!alone || !is_here(*v.request)) continue;
    const auto& s = v.request->state();
    must(s.life == lifecycle::waiting, "a victim waits");
    must(place(*v.request) == places.at(v.request), "a preempted request keeps its place");
    must(s.swapped == (v.mode == preemption_mode::swap), "a victim is swapped or recomputed as the plan said");
  }
  for (std::size_t i = 0; i != entries.size(); ++i) {
    text_request& r = *entries[i].request;
    const outcome& o = done.outcomes[i];
    if (!is_here(r)) continue;
    must(r.state().length == r.length, "a request's length is what was committed");
    if (alone && r.state().computed != tokens{}) {
      must(r.state().computed ==
               (entries[i].samples && !o.failed ? r.length - tokens{1} : entries[i].first + entries[i].count),
           "progress is what the outcome says");
    }
    if (o.failed || o.finished) {
      leave(r, o.failed ? lifecycle::failed : lifecycle::finished);
      continue;
    }
    if (alone) must(r.state().life != lifecycle::waiting, "what ran and goes on is resident");
    const bool turns = o.end_of_reasoning && entries[i].samples;
    must(r.state().phase == (turns ? phase::answering : phases[i]), "the phase changes when the engine says so");
  }
  release_ended();
  check();
}

}  // namespace tessera_test
