// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What happens on the device, and what the engine's books say of it: members of scheduler_world, which includes this.

#include "property/scheduler_world.hpp"
#include "support/must.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tessera_test {

template <class Order, class BlockStore, class Gate>
auto scheduler_world<Order, BlockStore, Gate>::copied_out(std::size_t i) -> copy_out {
  copy_out c = copies_out_[i];
  copies_out_.erase(copies_out_.begin() + static_cast<std::ptrdiff_t>(i));
  for (std::size_t p = 0; p != c.contents.size(); ++p) {
    must(slot(c.blocks, p) == c.contents[p], "nobody writes to what is copied out");
  }
  return c;
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::hear_of_deadlines() {
  for (const deadline_passed<text_request>& d : plan_.late) {
    ++late_;
    if (d.what == deadline_of::draining) {
      const auto i =
          std::find_if(copies_out_.begin(), copies_out_.end(), [&](const copy_out& c) { return c.ticket == d.ticket; });
      must(i != copies_out_.end() && d.request == nullptr, "a copy that is late was waited for");
      static_cast<void>(copied_out(static_cast<std::size_t>(i - copies_out_.begin())));
      continue;
    }
    text_request& r = *d.request;
    const auto& s = r.state();
    r.computed_before = s.computed;
    switch (d.what) {
      case deadline_of::parked:
        must(is_here(r) && !s.parked, "who was parked is ready");
        if (s.life == lifecycle::failed || s.ends_as == lifecycle::failed) leave(r, lifecycle::failed);
        break;
      case deadline_of::loading:
        must(!s.loads, "what has not come is computed");
        if (is_here(r)) must(s.life != lifecycle::suspended, "and nobody waits for it");
        break;
      default:  // or fails by another deadline that has passed since
        must(is_here(r) &&
                 (s.life == lifecycle::waiting || s.life == lifecycle::failed || s.ends_as == lifecycle::failed),
             "who is told of as waiting waits");
    }
  }
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::leave(text_request& r, lifecycle how) {
  r.cancelled_while_planned = false;
  if (!is_live(r.state().life)) {
    must(!in_a_plan(r), "nobody goes while a plan in flight has it");
    end(r, how);
    return;
  }
  must((!flights_.empty() || is_loading(r)) && r.state().ends_as == how, "only plans in flight hold who has ended");
  forget(r);
  ending_.push_back({&r, how});
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::settle_cancelled() {
  const auto all = live_;
  for (text_request* r : all) {
    if (r->cancelled_while_planned) leave(*r, lifecycle::cancelled);
  }
  release_ended();
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::release_ended() {
  const auto all = std::exchange(ending_, {});
  for (const ending& e : all) {
    if (is_live(e.request->state().life)) {
      must(!flights_.empty() || is_loading(*e.request), "who has ended goes when no plan has it");
      ending_.push_back(e);
      continue;
    }
    must(!in_a_plan(*e.request), "nobody goes while a plan in flight has it");
    live_.push_back(e.request);
    end(*e.request, e.how);
  }
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::launch() {
  if (!open_) return;
  open_ = false;
  left_rows_.clear();
  flight& f = flights_.back();
  for (const kv_fetch<text_request>& t : f.plan.fetch) {
    const std::size_t n = count(t.request->computed_before);
    must(t.request->in_transit.size() == n, "an adopted request brings its KV");
    must(t.first + t.device.size() == (n + block_size_ - 1) / block_size_ && !t.device.empty(),
         "an adopted request has room for its KV");
    f.fetched.push_back(t.request->in_transit);
  }
  for (const kv_transfer<text_request>& t : f.plan.swap_in) {
    must(t.device.size() == t.host.size() && !t.host.empty(), "as many blocks in as out");
    text_request& r = *t.request;
    if (is_load(t)) {
      ++loads_;
      continue;
    }
    // Drafts that were refused after it had left are not brought back.
    const std::size_t written = (count(r.computed_before) + block_size_ - 1) / block_size_;
    must(written > r.host_first && written - r.host_first <= r.host_ids.size(), "its copy has all that is computed");
    r.host_ids.resize(written - r.host_first);
    must(t.first >= r.host_first && t.first - r.host_first + t.host.size() == r.host_ids.size() &&
             std::equal(t.host.rbegin(), t.host.rend(), r.host_ids.rbegin()),
         "a request comes back from where it went");
  }
  for (const kv_fetch<text_request>& t : f.plan.load) {
    text_request& r = *t.request;
    must(t.first + t.device.size() == count(blocks_for_length(r.announced)) && !t.device.empty(),
         "there is room for what is on its way");
    r.load_first = t.first;
    r.load_to.assign(t.device.begin(), t.device.end());
    r.epoch = epoch_;
  }
  for (std::size_t i = 0; i != f.plan.size(); ++i) {
    text_request& r = *f.plan[i].request;
    // A request that starts with nothing of its own has what is known now.
    if (waits(r) && r.in_transit.empty() && r.host_ids.empty()) r.epoch = epoch_;
    if (waits(r) && count(f.plan[i].first) <= r.state().shared_blocks * block_size_) r.epoch = epoch_;
    for (const kv_transfer<text_request>& t : f.plan.swap_in) {
      if (t.request == &r && is_load(t)) r.epoch = epoch_;
    }
    f.epochs.push_back(r.epoch);
    r.in_transit.clear();
    r.host_ids.clear();
  }
  for (const kv_transfer<text_request>& t : f.plan.swap_out) {
    must(t.device.size() == t.host.size() && !t.host.empty(), "as many blocks out as in");
    t.request->host_ids.assign(t.host.begin(), t.host.end());
    t.request->host_first = t.first;
  }
}

template <class Order, class BlockStore, class Gate>
template <class Choose>
void scheduler_world<Order, BlockStore, Gate>::run(flight& f, Choose&& choose) {
  const plan_type& plan = f.plan;
  for (const kv::block_copy& c : plan.copies) {
    for (std::size_t i = 0; i != block_size_; ++i) {
      device_.at(c.to * block_size_ + i) = device_.at(c.from * block_size_ + i);
    }
  }
  for (const kv_transfer<text_request>& t : plan.swap_out) {
    for (std::size_t b = 0; b != t.device.size(); ++b) {
      for (std::size_t i = 0; i != block_size_; ++i) {
        host_.at(t.host[b] * block_size_ + i) = device_.at(t.device[b] * block_size_ + i);
      }
    }
  }
  for (const kv_demotion& d : plan.demoted) {
    for (std::size_t i = 0; i != block_size_; ++i) {
      host_.at(d.host * block_size_ + i) = device_.at(d.device * block_size_ + i);
    }
    ++demotions_;
  }
  for (std::size_t k = 0; k != plan.fetch.size(); ++k) {
    const kv_fetch<text_request>& t = plan.fetch[k];
    for (std::size_t p = t.first * block_size_; p != f.fetched[k].size(); ++p) {
      slot(t.device, p - t.first * block_size_) = f.fetched[k][p];
    }
  }
  for (const kv_transfer<text_request>& t : plan.swap_in) {
    for (std::size_t b = 0; b != t.device.size(); ++b) {
      for (std::size_t i = 0; i != block_size_; ++i) {
        device_.at(t.device[b] * block_size_ + i) = host_.at(t.host[b] * block_size_ + i);
      }
    }
  }
  f.has_run = true;
  for (const landing& l : f.landings) land(l);
  // Where the requests really are: drafts may have been refused that the plan did not know of. One that was ended by
  // a plan before this is in it in vain, and writes nonsense to what it was given.
  struct range {
    std::size_t first, end;
    bool is_void;
  };
  std::vector<range> ranges;
  for (std::size_t i = 0; i != plan.size(); ++i) {
    const scheduled<text_request>& e = plan[i];
    text_request& r = *e.request;
    const tokens refused = e.samples && !r.ended_there ? e.first + e.count - r.on_device : tokens{};
    must(refused >= tokens{} && refused.count() <= f.expected[i], "a plan goes on where its request can be at most");
    must(e.samples || r.ended_there || e.first + e.count < r.on_device, "tokens that are computed are there");
    ranges.push_back({count(e.first - refused), count(e.first + e.count - refused), r.ended_there});
  }
  // The kernels read what was there before the step ...
  for (std::size_t i = 0; i != plan.size(); ++i) {
    for (std::size_t p = 0; p != ranges[i].first && !ranges[i].is_void; ++p) {
      must(plan[i].request->may_read(slot(f.rows[i], p), p, f.epochs[i]),
           "the KV of every earlier token is in place, and not too old");
    }
  }
  // ... sample, and write what is new, wrong guesses included.
  for (std::size_t i = 0; i != plan.size(); ++i) {
    const scheduled<text_request>& e = plan[i];
    text_request& r = *e.request;
    const range& x = ranges[i];
    const outcome o = f.outcomes.emplace_back(choose(r, e, r.on_device - r.prompt));
    const bool is_wrong = x.is_void || o.failed;
    for (std::size_t p = x.first; p != x.end; ++p) {
      slot(f.rows[i], p) = is_wrong ? 0xdead : r.written(p, f.epochs[i]);
    }
    for (std::size_t p = x.end; p != x.end + count(e.lookahead); ++p) {
      slot(f.rows[i], p) = p + 1 < x.end + o.produced && !is_wrong ? r.written(p, f.epochs[i]) : 0xdead;
    }
    if (e.samples && !x.is_void) r.on_device += tokens{o.produced};
    r.ended_there = r.ended_there || o.finished || o.failed;
  }
  for (std::size_t i = 0; i != plan.size(); ++i) {
    for (std::size_t p = 0; p != ranges[i].end && !ranges[i].is_void && !f.outcomes[i].failed; ++p) {
      must(plan[i].request->may_read(slot(f.rows[i], p), p, f.epochs[i]), "nobody else writes to a request's KV");
    }
  }
}

}  // namespace tessera_test
