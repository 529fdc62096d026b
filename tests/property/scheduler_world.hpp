// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// A scheduler and an engine that trusts it with nothing: `scheduler_world` passes every call on and compares what
/// comes back with what must hold. The engine has memory: it writes what the KV of each token would be to the slots
/// that the block tables name, copies blocks to and from host memory as it is told, and reads everything a request
/// needs before each step. A block that two requests own, a copy too few or in the wrong order, a position that is
/// skipped or a prefix that is not equal shows as a wrong value.
///
/// It runs plans in their order, and some time after they were made: what a request has come to on the device is known
/// here before the scheduler hears of it. Where drafts were refused by a plan that was not settled when the next one
/// was made, it goes on from where the request really is.
///
/// A broken promise is a `broken` exception, so that the same checks serve tests and fuzz targets.

#include <tessera/admit/future_peak.hpp>
#include <tessera/draft/unless_busy.hpp>
#include <tessera/gate/adapter_slots.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/gate/backfill.hpp>
#include <tessera/gate/encoder_cache.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/kv/hash_chain.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/earliest_due.hpp>
#include <tessera/order/paced.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/cheapest.hpp>
#include <tessera/preempt/least_lost.hpp>
#include <tessera/preempt/recompute.hpp>
#include <tessera/preempt/swap.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/must.hpp"

namespace tessera_test {

using namespace tessera;

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return kv::detail::scramble(a * 0x9e37'79b9'7f4a'7c15ULL ^ (b + 0x1234'5678'9abc'def1ULL));
}

/// A request with a text, of which the first `common` tokens are those of its family.
struct text_request;
struct slow_reader;
struct expects_the_most;
using paced_order = order::paced<slow_reader>;
using due_order = order::earliest_due<expects_the_most, slow_reader>;
using text_hook =
    request_hook_for<order::round_robin, order::two_phase, order::ranked<>, order::paced<>, order::earliest_due<>>;
struct text_request : text_hook {
  float score = 0;
  std::uint32_t adapter = 0;
  std::uint32_t tenant = 0;
  std::vector<gate::encoder_input> images;
  std::size_t id = 0;
  tokens output{};          ///< Tokens after which the engine ends it. At least 1.
  tokens reasoning{};       ///< Tokens after which its reasoning ends; 0: it does not reason, or never ends.
  time_point keep_until{};  ///< For a cache that goes by it.
  std::vector<std::uint64_t> hashes;

  // What must have become of it.
  int accepted = 0;
  int ended = 0;
  bool cancelled_while_planned = false;
  tokens computed_before{};
  tokens length{};                        ///< What is known of it: what has been committed.
  tokens on_device{};                     ///< Its length where it runs.
  bool ended_there = false;               ///< A plan that was run ended it; later ones have it in vain.
  bool copy_pending = false;              ///< It was forked, and no plan with the copy of its last block was settled.
  std::vector<kv::block_id> host_ids;     ///< Where it was swapped to,
  std::size_t host_first = 0;             ///< from this block of its sequence on.
  std::vector<std::uint64_t> in_transit;  ///< Its KV on the way between two instances.
  std::uint64_t epoch = 0;                ///< How often prefixes had been forgotten when its oldest KV was computed.
  std::vector<std::uint64_t> contents;    ///< What the KV of its tokens is, by position.
  tokens announced{};                     ///< KV that is on its way: so many tokens,
  std::size_t load_first = 0;             ///< from this block on,
  std::vector<kv::block_id> load_to;      ///< to these blocks.

  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }

  [[nodiscard]] std::span<const gate::encoder_input> encoder_inputs() const noexcept { return images; }

  void write(std::size_t name, tokens length, tokens common, std::uint64_t family, tokens block_size) {
    id = name;
    keep_until = time_point::at_seconds(static_cast<double>(mix(name, 77) % 64));
    prompt = length;
    std::vector<std::int32_t> text;
    std::uint64_t chain = 0;
    contents.clear();
    for (std::int64_t i = 0; i != length.count(); ++i) {
      text.push_back(static_cast<std::int32_t>(
          mix(i < common.count() ? family : 1000 + name, static_cast<std::uint64_t>(i)) & 0x7fff'ffff));
      chain = mix(chain, static_cast<std::uint64_t>(text.back()));
      contents.push_back(chain);
    }
    hashes.resize(text.size() / static_cast<std::size_t>(block_size.count()));
    kv::hash_chain(text, static_cast<std::size_t>(block_size.count()), hashes);
  }

  std::uint64_t content(std::size_t position) {
    while (contents.size() <= position) contents.push_back(mix(contents.back(), id));
    return contents[position];
  }

  // A slot holds a token's content, and in its low bits the epoch of whoever computed it.
  static constexpr std::uint64_t epochs = 0xffff;
  [[nodiscard]] std::uint64_t written(std::size_t position, std::uint64_t in_epoch) {
    return (content(position) & ~epochs) | in_epoch;
  }
  /// Whether that is its own KV, or such as it may share: not computed before its own was.
  [[nodiscard]] bool may_read(std::uint64_t kv, std::size_t position, std::uint64_t in_epoch) {
    return ((kv ^ content(position)) & ~epochs) == 0 && (kv & epochs) >= in_epoch;
  }
};

/// A reader of 1.5 tokens a second.
struct slow_reader {
  [[nodiscard]] time_point operator()(const text_request& r) const noexcept {
    const tokens answered = r.generated() - r.state().reasoning;
    if (answered <= tokens{}) return time_point::never();
    return r.state().answering_since + duration{static_cast<double>(answered.count()) / 1.5};
  }
};

/// Expects what the request says it will generate at most.
struct expects_the_most {
  [[nodiscard]] tokens operator()(const text_request& r) const noexcept { return r.max_output; }
};

/// Policies chosen at run time, so that all combinations are one type.
struct any_preempt {
  int kind = 0;
  template <schedulable R>
  [[nodiscard]] preemption_mode mode(const R& r, blocks held) const noexcept {
    if (kind == 0) return preempt::swap{}.mode(r, held);
    if (kind == 1) return preempt::recompute{}.mode(r, held);
    // Such rates that both answers occur among the short sequences of a test.
    return preempt::cheapest{.seconds_per_block = 1.0, .seconds_per_token = 0.1, .seconds_per_token_squared = 0.05}
        .mode(r, held);
  }
};
/// The same with victims that are chosen.
struct any_victim : any_preempt {
  static constexpr bool chooses = true;
  std::size_t window = 4;
  template <schedulable R>
  [[nodiscard]] double loss(const R& r, const victim_view& v) const noexcept {
    return preempt::least_lost{{.seconds_per_block = 1.0, .seconds_per_token = 0.1, .seconds_per_token_squared = 0.05}}
        .loss(r, v);
  }
};
/// Says that victims are chosen. Nobody passes who lacks blocks.
struct chosen_victims : gate::in_line {};
template <class Gate>
inline constexpr bool chooses_victims = std::same_as<Gate, chosen_victims>;

struct any_admit {
  int kind = 0;
  template <schedulable R>
  [[nodiscard]] bool admits(const R& r, const admission_view<R>& view) const noexcept {
    if (kind == 0) return admit::always{}.admits(r, view);
    if (kind == 1) return admit::watermark{.fraction = 0.1}.admits(r, view);
    return admit::basic_future_peak<admit::max_output_bound>{.expected_output = {.if_unknown = tokens{8}}}.admits(r,
                                                                                                                  view);
  }
};

struct any_draft {
  int kind = 0;
  template <schedulable R>
  [[nodiscard]] tokens drafts(const R& r, const draft_view& view) const noexcept {
    if (kind == 0) return draft::same_for_all{}.drafts(r, view);
    if (kind == 1) return tokens{static_cast<std::int64_t>(r.id % 5) - 1};
    return draft::unless_busy<>{.batch = 3, .tokens_for_free = tokens{8}, .waiting = 2}.drafts(r, view);
  }
};

/// Adapters, tenants, images and backfilling at once.
using all_gates =
    gate::all<gate::basic_adapter_slots<4>, gate::basic_fair_tenants<4>, gate::basic_encoder_cache<8>, gate::backfill>;
template <class Gate>
inline constexpr bool screens = tessera::detail::gate_screens<Gate>;

template <class Order, class BlockStore, class Gate = gate::in_line>
using any_scheduler =
    iteration_scheduler<text_request, Order, std::conditional_t<chooses_victims<Gate>, any_victim, any_preempt>,
                        any_admit, BlockStore, kv::csr_tables, Gate, any_draft>;

template <class Order, class BlockStore, class Gate = gate::in_line>
class scheduler_world {
 public:
  using scheduler_type = any_scheduler<Order, BlockStore, Gate>;
  using plan_type = step_plan<text_request>;

  scheduler_world(const scheduler_limits& l, const typename scheduler_type::config& c)
      : limits_{l},
        config_{c},
        block_size_{static_cast<std::size_t>(l.block_size.count())},
        storage_(scheduler_type::required_bytes(l)),
        scheduler_{storage_, l, c},
        order_{c.order},
        device_(l.blocks * block_size_),
        host_(l.host_blocks * block_size_) {}

  [[nodiscard]] scheduler_type& scheduler() { return scheduler_; }
  [[nodiscard]] const std::vector<text_request*>& live() const { return live_; }
  [[nodiscard]] bool pending() const { return !flights_.empty(); }
  /// Whether the newest plan can be abandoned.
  [[nodiscard]] bool open() const { return open_; }
  [[nodiscard]] std::size_t in_flight() const { return flights_.size(); }
  /// The plan to be settled next.
  [[nodiscard]] const plan_type& oldest() const { return flights_.front().plan; }
  /// Tells runs apart: everything that the scheduler has decided so far.
  [[nodiscard]] std::uint64_t digest() const { return digest_; }
  void set_digest(std::uint64_t d) { digest_ = d; }
  /// Transfers from the second level of the cache, and blocks that went there.
  [[nodiscard]] std::size_t loads() const { return loads_; }
  [[nodiscard]] std::size_t demotions() const { return demotions_; }
  /// Deadlines that have passed.
  [[nodiscard]] std::size_t late() const { return late_; }
  /// Nothing is looked at but what becomes part of the digest: faster, and nobody ages because somebody looks.
  void look_away() { looks_ = false; }

  status submit(text_request& r, time_point now) {
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

  /// `progress` null: as it was evacuated.
  status adopt(text_request& r, const request_progress<seconds_clock>* progress = nullptr) {
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

  /// Saves the KV, as an engine does, and gives the request up.
  status evacuate(text_request& r) {
    const auto& s = r.state();
    std::vector<std::uint64_t> saved;
    const bool has_it = in_a_plan(r) || (r.copy_pending && count(s.computed) % block_size_ != 0) || is_loading(r);
    const bool busy = (open_ && (s.life != lifecycle::suspended || r.cancelled_while_planned)) || has_it ||
                      scheduler_.is_in_flight(r);
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

  /// A suspended request keeps blocks, KV, progress and place, and leaves the others theirs.
  void suspend(text_request& r) {
    const bool may = r.state().life == lifecycle::resident;
    const auto before = place(r);
    const auto blocks_before = row_of(r);
    const status done = scheduler_.suspend(r);
    must(done == (!may ? status::unknown_request : open_ ? status::busy : status::ok), "residents can be suspended");
    must(place(r) == before && row_of(r) == blocks_before, "who is suspended keeps its place and its blocks");
    if (done == status::ok) must(scheduler_.why(r) == wait_reason::suspended, "who is suspended knows");
    check();
  }
  void resume(text_request& r) {
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

  /// A parked request keeps blocks, progress and place, and holds nobody up.
  status park(text_request& r, time_point deadline, park_end at_deadline) {
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
  status ready(text_request& r) {
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

  /// KV of so many tokens is on its way.
  status loading(text_request& r, tokens n, time_point deadline) {
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
  /// So many came: written when the plan has run that named the blocks, and nonsense behind them.
  status arrived(text_request& r, tokens n) {
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
  status start_by(text_request& r, time_point deadline) {
    const status done = scheduler_.start_by(r, deadline);
    note(static_cast<std::uint64_t>(done));
    check();
    return done;
  }

  /// A request leaves, or is finished, and a copy of its blocks is not done.
  status drain(text_request& r, bool is_finished, time_point deadline) {
    const auto& s = r.state();
    const bool has_row = s.row != no_index;
    const bool busy =
        open_ || in_a_plan(r) || (r.copy_pending && count(s.computed) % block_size_ != 0) || is_loading(r);
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
  [[nodiscard]] std::size_t copies_out() const { return copies_out_.size(); }
  /// The copy is done: until now nobody has written to its blocks.
  void drained(std::size_t i) {
    const copy_out c = copied_out(i);
    must(scheduler_.drained(c.ticket) == status::ok, "a copy that is waited for can be done");
    must(scheduler_.drained(c.ticket) == status::unknown_request, "and only once");
    if (open_) left_rows_.push_back(c.row);
    check();
  }
  /// Those whose KV is on its way, ended ones included.
  [[nodiscard]] std::vector<text_request*> loading_ones() const {
    std::vector<text_request*> all;
    for (text_request* r : live_) {
      if (is_loading(*r)) all.push_back(r);
    }
    for (const ending& e : ending_) {
      if (is_loading(*e.request)) all.push_back(e.request);
    }
    return all;
  }

  /// Its priority is another.
  void update(text_request& r, int priority) {
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

  void cancel(text_request& r) {
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

  const plan_type& plan(time_point now, const step_limits& step) {
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
    check();
    note_plan();
    return plan_;
  }

  /// A resident loses its KV.
  void preempt(text_request& r) {
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

  /// `child` goes on where `parent` is, with a text of its own from there on.
  status fork(text_request& parent, text_request& child) {
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

  void forget_prefixes()
    requires kv::prefix_store<BlockStore>
  {
    must(scheduler_.forget_prefixes() == (open_ ? status::busy : status::ok), "prefixes are forgotten between plans");
    must(open_ || scheduler_.store().cached() == 0, "nothing is known any more");
    if (!open_) ++epoch_;
    check();
  }

  void abandon() {
    scheduler_.abandon(plan_);
    open_ = false;
    flights_.pop_back();
    left_rows_.clear();
    for (text_request* r : live_) {
      must(r->state().computed == r->computed_before || r->cancelled_while_planned,
           "an abandoned plan computes nothing");
    }
    settle_cancelled();
    check();
  }

  /// Runs the oldest plan, and those before it, and commits it; `choose(request, entry, generated)` makes up what the
  /// engine says of one that has generated so much.
  template <class Choose>
  void commit(time_point now, Choose&& choose) {
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

  /// What holds at any moment.
  void check() {
    if (!looks_) return;
    const auto residents = scheduler_.residents();
    const std::size_t kept = residents.size() - (chooses_victims<Gate> && open_ ? plan_.preempted.size() : 0);
    for (std::size_t i = 1; i < kept; ++i) {
      must(before(*residents[i - 1], *residents[i]), "residents are in rank order");
    }
    const std::vector<text_request*> line = in_line();
    const std::size_t waiting = line.size();
    for (std::size_t i = 0; i != waiting; ++i) {
      must(i == 0 || order_.before(*line[i - 1], *line[i]), "waiting requests are in rank order");
      must(line[i]->state().life == lifecycle::waiting, "who waits is waiting");
    }
    must(waiting == scheduler_.waiting_count() && residents.size() == scheduler_.resident_count(), "counts are true");
    std::vector<const text_request*> holding{residents.begin(), residents.end()};
    for (const text_request* r : live_) {
      if (r->state().life != lifecycle::suspended) continue;
      must(scheduler_.why(*r) == (r->state().parked  ? wait_reason::parked
                                  : r->state().loads ? wait_reason::loading
                                                     : wait_reason::suspended),
           "who is suspended stands aside");
      holding.push_back(r);
    }
    std::size_t parked = 0;
    for (const text_request* r : live_) parked += r->state().parked && r->state().life == lifecycle::waiting;
    std::size_t loading = 0;
    for (const ending& e : ending_) loading += is_loading(*e.request);
    must(holding.size() - residents.size() + loading == scheduler_.suspended_count(), "suspended requests are counted");
    must(scheduler_.parked_count() == parked && scheduler_.draining_count() == copies_out_.size(), "as are all others");
    must(waiting + parked + holding.size() == live_.size(), "every live request is in one place");
    must(holding.size() + loading + copies_out_.size() <= limits_.residents,
         "no more hold blocks than the limits allow");
    must(scheduler_.idle() == (live_.empty() && ending_.empty()), "idle means empty");
    must(scheduler_.plans_in_flight() == flights_.size() && scheduler_.can_abandon() == open_, "plans are counted");
    for (const text_request* r : live_) {
      std::int64_t expected = 0;
      for (const flight& f : flights_) {
        if (open_ && &f == &flights_.back()) continue;
        for (std::size_t i = 0; i != f.plan.size(); ++i) {
          if (f.plan[i].request == r && f.plan[i].samples) expected += 1 + f.plan[i].lookahead.count();
        }
      }
      must(r->state().expected == expected && r->state().length == r->length, "what is in flight is expected");
    }

    // Whose are the blocks?
    std::vector<std::uint32_t> owners(limits_.blocks);
    std::size_t rows = 0;
    const auto own = [&](std::uint32_t row) {
      std::set<kv::block_id> once;
      for (const kv::block_id b : scheduler_.tables().row(row)) {
        must(b < limits_.blocks, "a block of this instance");
        must(once.insert(b).second, "a request owns a block once");
        ++owners[b];
      }
      ++rows;
    };
    std::set<const text_request*> victims;
    for (const std::uint32_t row : left_rows_) own(row);
    for (const copy_out& c : copies_out_) own(c.row);
    for (const ending& e : ending_) {
      if (e.request->state().row != no_index) own(e.request->state().row);
    }
    if (open_) {
      for (const auto& v : plan_.preempted) victims.insert(v.request);
      for (std::size_t i = 0; i != plan_.size(); ++i) {
        if (plan_[i].request->state().life == lifecycle::waiting) own(plan_[i].row);
      }
      for (const auto& t : plan_.load) own(t.request->state().row);
    }
    for (const text_request* r : residents) must(r->state().life == lifecycle::resident, "who is resident is resident");
    for (const text_request* r : holding) {
      const auto& s = r->state();
      must(s.reach() > s.computed && count(s.computed) <= scheduler_.tables().row(s.row).size() * block_size_,
           "there is KV room for what is computed, and a token to come");
      if (victims.count(r) == 0) {
        own(s.row);
      } else {
        ++rows;
      }
    }
    std::size_t preempted_meanwhile = 0;
    for (const flight& f : flights_) {
      if (!open_ || &f != &flights_.back()) rows += f.plan.preempted.size();
      preempted_meanwhile += f.preempted_meanwhile;
    }
    const std::size_t used_rows = scheduler_.tables().rows() - scheduler_.tables().free_rows();
    must(rows <= used_rows && used_rows <= rows + preempted_meanwhile, "every row is somebody's");
    std::size_t used = 0;
    for (std::size_t b = 0; b != owners.size(); ++b) {
      must(scheduler_.store().references(static_cast<kv::block_id>(b)) == owners[b],
           "a block has as many owners as the store counts");
      used += owners[b] != 0;
    }
    must(scheduler_.device_blocks_held() == blocks{static_cast<std::int64_t>(used)}, "no block is lost");

    if (flights_.empty()) {
      std::size_t host = 0;
      for (const text_request* r : live_) {
        const auto& s = r->state();
        if (s.host_head != no_index) {
          must(s.swapped && s.life == lifecycle::waiting, "only swapped requests hold host blocks");
          must(scheduler_.host().size(s.host_head) == count(blocks_for_length(s.computed)) - r->host_first,
               "its copy is as long as what is computed");
          host += scheduler_.host().size(s.host_head);
        }
        must(s.ends_as == lifecycle::idle, "nothing stays of a settled plan");
        must(!s.guest || (Gate::passes && s.life != lifecycle::waiting), "only residents are guests");
        if (s.life == lifecycle::resident && s.shared_blocks == 0) {
          // Blocks beyond the known length are lookahead, which goes back with the plan that had it.
          must(scheduler_.tables().row(s.row).size() <= count(blocks_for_length(s.length)), "no lookahead is kept");
        }
      }
      must(scheduler_.host_blocks_held() == blocks{static_cast<std::int64_t>(host)}, "no host block is lost");
    }
  }

  /// Nothing may be left when everybody has gone.
  void check_empty() {
    check();
    must(live_.empty() && ending_.empty() && flights_.empty() && copies_out_.empty() && scheduler_.idle(),
         "all requests have ended");
    must(scheduler_.store().free() == limits_.blocks, "all blocks are free");
    must(scheduler_.host().free() == limits_.host_blocks, "all host blocks are free");
    must(scheduler_.tables().free_rows() == scheduler_.tables().rows(), "all rows are free");
  }

 private:
  static std::size_t count(tokens n) { return static_cast<std::size_t>(n.count()); }
  static std::size_t count(blocks n) { return static_cast<std::size_t>(n.count()); }
  [[nodiscard]] blocks blocks_for_length(tokens n) const { return blocks_for(n, limits_.block_size); }
  /// What the order keeps about a request.
  static auto place(const text_request& r) {
    const auto& s = order_state<Order>(r);
    std::tuple<std::uint64_t, std::uint64_t, double, double, std::uint8_t, std::uint64_t> p{};
    std::get<0>(p) = r.state().sequence;
    if constexpr (requires { s.turn; }) std::get<1>(p) = s.turn;
    if constexpr (requires { s.boost_at; }) std::get<2>(p) = s.boost_at.seconds();
    if constexpr (requires { s.urgent_at; }) std::get<2>(p) = s.urgent_at.seconds();
    if constexpr (requires { s.rank; }) std::get<3>(p) = static_cast<double>(s.rank);
    if constexpr (requires { s.quantum_used; }) std::get<3>(p) = static_cast<double>(s.quantum_used.count());
    if constexpr (requires { s.level; }) std::get<4>(p) = s.level;
    if constexpr (requires { s.boosted; }) std::get<4>(p) = s.boosted;
    std::get<5>(p) = r.state().carried;
    return p;
  }
  static auto place(const text_request& r)
    requires std::same_as<Order, order::fcfs>
  {
    return r.state().sequence;
  }
  /// The order among residents: who had to start anew, everybody else, guests.
  [[nodiscard]] bool before(const text_request& a, const text_request& b) const {
    const auto rank = [](const text_request& r) { return r.state().restarted ? 0 : r.state().guest ? 2 : 1; };
    return rank(a) != rank(b) ? rank(a) < rank(b) : order_.before(a, b);
  }
  [[nodiscard]] bool displaces(const text_request& waiting, const text_request& resident) const {
    return !resident.state().restarted && (resident.state().guest || order_.displaces(waiting, resident));
  }
  /// Those who wait, in the order in which they are served. Looking makes those age whose turn has come.
  [[nodiscard]] std::vector<text_request*> in_line() {
    using queue_type = std::remove_cvref_t<decltype(scheduler_.waiting())>;
    auto& queue = const_cast<queue_type&>(scheduler_.waiting());
    std::vector<text_request*> line;
    if constexpr (requires { typename queue_type::line; }) {
      typename queue_type::line all{queue};
      for (text_request* r = all.first(); r != nullptr; r = all.take()) line.push_back(r);
    } else {
      for (text_request* r = queue.front(); r != nullptr; r = queue.next(*r)) line.push_back(r);
    }
    return line;
  }
  /// KV that comes to the blocks that a plan has named.
  struct landing {
    text_request* request;
    std::uint64_t epoch;
    tokens announced;
    tokens came;
    std::size_t first;
    std::vector<kv::block_id> to;
  };
  /// A plan that was made and not settled.
  struct flight {
    plan_type plan;
    std::vector<std::vector<kv::block_id>> rows{};      ///< Of its tables, as they were when it was made.
    std::vector<std::int64_t> expected{};               ///< What its requests expected of the plans before it.
    std::vector<std::uint64_t> epochs{};                ///< Theirs, when it was made.
    std::vector<text_request*> copied{};                ///< Whose last blocks it copies.
    std::vector<std::vector<std::uint64_t>> fetched{};  ///< What it fetches.
    std::vector<outcome> outcomes{};
    std::size_t preempted_meanwhile = 0;
    std::vector<landing> landings{};  ///< What has arrived before it was run.
    bool has_run = false;
  };
  /// A request that has ended, and is held by plans in flight.
  struct ending {
    text_request* request;
    lifecycle how;
  };

  [[nodiscard]] static bool in_plan(const text_request& r, const flight& f) {
    for (std::size_t i = 0; i != f.plan.size(); ++i) {
      if (f.plan[i].request == &r) return true;
    }
    return std::any_of(f.plan.preempted.begin(), f.plan.preempted.end(),
                       [&](const auto& v) { return v.request == &r; }) ||
           std::any_of(f.plan.load.begin(), f.plan.load.end(), [&](const auto& t) { return t.request == &r; });
  }
  [[nodiscard]] bool in_a_plan(const text_request& r) const {
    return std::any_of(flights_.begin(), flights_.end(), [&](const flight& f) { return in_plan(r, f); });
  }
  [[nodiscard]] static bool is_loading(const text_request& r) {
    return r.state().life == lifecycle::suspended && r.state().loads;
  }
  /// Blocks whose copy is not done.
  struct copy_out {
    std::uint64_t ticket = 0;
    std::uint32_t row = no_index;
    std::vector<kv::block_id> blocks{};
    std::vector<std::uint64_t> contents{};
  };
  copy_out copied_out(std::size_t i) {
    copy_out c = copies_out_[i];
    copies_out_.erase(copies_out_.begin() + static_cast<std::ptrdiff_t>(i));
    for (std::size_t p = 0; p != c.contents.size(); ++p) {
      must(slot(c.blocks, p) == c.contents[p], "nobody writes to what is copied out");
    }
    return c;
  }
  void land(const landing& l) {
    for (std::size_t p = l.first * block_size_; p != count(l.announced); ++p) {
      slot(l.to, p - l.first * block_size_) = p < count(l.came) ? l.request->written(p, l.epoch) : 0xdead;
    }
  }
  void hear_of_deadlines() {
    for (const deadline_passed<text_request>& d : plan_.late) {
      ++late_;
      if (d.what == deadline_of::draining) {
        const auto i = std::find_if(copies_out_.begin(), copies_out_.end(),
                                    [&](const copy_out& c) { return c.ticket == d.ticket; });
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
  [[nodiscard]] bool is_here(const text_request& r) const {
    return std::find(live_.begin(), live_.end(), &r) != live_.end();
  }
  /// What those who compute their prompts have yet to take.
  [[nodiscard]] std::int64_t promised() const {
    std::int64_t n = 0;
    for (std::size_t i = 0; i != plan_.size(); ++i) {
      const auto& s = plan_[i].request->state();
      if (s.reach() - plan_[i].first == tokens{1}) continue;
      n += std::max<std::int64_t>(
          blocks_for_length(s.reach()).count() - static_cast<std::int64_t>(scheduler_.tables().row(s.row).size()), 0);
    }
    if (step_.prefill_budget == tokens{}) return n;
    for (const text_request* r : scheduler_.residents()) {  // whose prompts go on in a later step
      const auto& s = r->state();
      if (scheduler_.why(*r) != wait_reason::budget_spent || s.reach() - s.computed == tokens{1}) continue;
      n += std::max<std::int64_t>(
          blocks_for_length(s.reach()).count() - static_cast<std::int64_t>(scheduler_.tables().row(s.row).size()), 0);
    }
    return n;
  }
  void note(std::uint64_t x) { digest_ = mix(digest_, x); }
  [[nodiscard]] std::vector<kv::block_id> row_of(const text_request& r) const {
    if (r.state().row == no_index) return {};
    const auto row = scheduler_.tables().row(r.state().row);
    return {row.begin(), row.end()};
  }

  std::uint64_t& slot(std::span<const kv::block_id> row, std::size_t position) {
    return device_.at(row[position / block_size_] * block_size_ + position % block_size_);
  }

  void forget(text_request& r) {
    const auto at = std::find(live_.begin(), live_.end(), &r);
    must(at != live_.end(), "who ends was live");
    live_.erase(at);
  }
  void end(text_request& r, lifecycle how) {
    must(r.state().life == how, "a request ends as it was told to");
    must(scheduler_.why(r) == wait_reason::none, "who is gone waits for nothing");
    ++r.ended;
    r.host_ids.clear();
    r.in_transit.clear();
    forget(r);
  }
  /// A request has ended: at once, or when the last plan is settled that has it.
  void leave(text_request& r, lifecycle how) {
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
  void settle_cancelled() {
    const auto all = live_;
    for (text_request* r : all) {
      if (r->cancelled_while_planned) leave(*r, lifecycle::cancelled);
    }
    release_ended();
  }
  void release_ended() {
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

  /// The newest plan will be run: what is told to the engine's books, at once.
  void launch() {
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
      // Who starts with nothing of its own has what is known now.
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

  /// Does what a plan says to device and host memory, and samples.
  template <class Choose>
  void run(flight& f, Choose&& choose) {
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

  static constexpr bool two_levels = requires { typename BlockStore::host_type; };
  /// Whether a transfer brings what was found by its hash, not what the request itself left there.
  [[nodiscard]] bool is_load(const kv_transfer<text_request>& t) const {
    if (!two_levels) return false;
    const auto& s = t.request->state();
    return s.host_head == no_index || t.first < t.request->host_first || s.shared_blocks < t.request->host_first;
  }
  [[nodiscard]] static bool waits(const text_request& r) noexcept { return r.state().life == lifecycle::waiting; }
  /// Whether it has ended if all comes of it that can.
  [[nodiscard]] bool may_end(const text_request& r) const {
    const auto& s = r.state();
    const tokens made = s.reach() - r.prompt;
    return s.expected != 0 && (s.reach() > limits_.longest() || (r.max_output != tokens{} && made >= r.max_output));
  }

  /// No more adapters than slots, and images than room, whoever holds blocks or is about to.
  void check_adapters() {
    if constexpr (std::same_as<Gate, all_gates>) {
      std::set<std::uint32_t> used;
      std::map<std::uint64_t, tokens> images;
      const auto count_in = [&](const text_request& r) {
        if (r.state().row != no_index && r.adapter != 0) used.insert(r.adapter);
        for (const auto& i : r.images) {
          if (r.state().row != no_index) images[i.hash] = i.size;
        }
      };
      for (const text_request* r : live_) count_in(*r);
      for (const ending& e : ending_) count_in(*e.request);
      must(used.size() <= std::get<0>(config_.gate.gates).slots, "no more adapters are used than there are slots");
      tokens size{};
      for (const auto& [hash, n] : images) size += n;
      must(size <= std::get<2>(config_.gate.gates).capacity, "no more images are used than there is room for");
    }
  }

  void check_plan() {
    if (!looks_) return;
    const std::size_t n = plan_.size();
    must(n <= step_.max_batch && n <= limits_.residents, "the batch is within its limit");

    tokens sum{};
    tokens drafts{};
    std::map<const text_request*, const scheduled<text_request>*> entry;
    std::size_t started = 0;
    for (std::size_t i = 0; i != n; ++i) {
      const scheduled<text_request>& e = plan_[i];
      const auto& s = e.request->state();
      sum += e.count;
      drafts += e.lookahead;
      must(entry.emplace(e.request, &e).second, "nobody is in a plan twice");
      must(std::find(live_.begin(), live_.end(), e.request) != live_.end(), "who runs is live");
      must(s.life != lifecycle::suspended, "who is suspended does not run");
      must(e.count >= tokens{1} && (i >= plan_.decode.size() || e.count == tokens{1}), "a decode is one token");
      must(e.samples == (e.first + e.count == s.reach()), "it samples when all is computed");
      must(s.expected == 0 || (!waits(*e.request) && !may_end(*e.request)),
           "who may have ended, or has lost its blocks since, is waited for");
      must(step_.max_chunk <= tokens{} || !config_.chunked_prefill || e.count <= step_.max_chunk,
           "a chunk is within its limit");
      must(e.lookahead >= tokens{} && e.lookahead <= step_.lookahead, "lookahead is what was wanted, or less");
      must((e.first + e.count + e.lookahead).count() <=
               static_cast<std::int64_t>(scheduler_.tables().row(e.row).size() * block_size_),
           "there is a block for every token");
      must(e.lookahead == tokens{} || e.request->max_output == tokens{} ||
               s.reach() - e.request->prompt + tokens{1} + e.lookahead <= e.request->max_output,
           "nobody guesses beyond what it may generate");
      must((e.origin == entry_origin::going_on) == (!waits(*e.request) && !e.request->copy_pending) ||
               e.request->copy_pending || !waits(*e.request),
           "who starts is said to");
      must(e.new_blocks == scheduler_.tables().size(e.row) || !waits(*e.request), "who starts has new blocks only");
      must(e.row == s.row && scheduler_.why(*e.request) == wait_reason::none, "who is planned is known to be");
      if (waits(*e.request)) {
        ++started;
        if (s.swapped) {
          must(e.first == s.computed || kv::prefix_store<BlockStore>, "a swapped request goes on where it was");
        }
        if (!s.swapped && !kv::prefix_store<BlockStore>) must(e.first == tokens{}, "a new request starts at the front");
        must(e.first < s.length, "one token at least is computed");
      } else {
        must(e.first == s.computed, "positions are consecutive");
      }
    }
    std::set<const text_request*> loads;
    for (const kv_fetch<text_request>& t : plan_.load) {
      must(waits(*t.request) && entry.count(t.request) == 0 && loads.insert(t.request).second,
           "nobody computes on KV that is on its way");
      must(t.request->state().loads && scheduler_.why(*t.request) == wait_reason::none, "who loads was announced");
      ++started;
      for (const kv::block_id id : t.device) {
        for (const flight& f : flights_) {
          const bool reads = std::any_of(f.rows.begin(), f.rows.end(), [&](const std::vector<kv::block_id>& row) {
            return std::find(row.begin(), row.end(), id) != row.end();
          });
          must(!reads || f.plan.id == plan_.id || plan_.load_after >= f.plan.id,
               "what is loaded waits for its readers");
        }
        for (const kv_transfer<text_request>& out : plan_.swap_out) {
          const bool copies = std::find(out.device.begin(), out.device.end(), id) != out.device.end();
          must(!copies || plan_.load_after == plan_.id, "what is loaded waits for copies of this plan");
        }
      }
    }
    for (const text_request* r : loads) must(!r->state().parked, "who is parked stands aside");
    must(sum == plan_.computed, "the plan knows what it computes");
    tokens prefill{};
    for (const scheduled<text_request>& e : plan_.prefill) prefill += e.count;
    const bool prefill_spent = step_.prefill_budget > tokens{} && prefill >= step_.prefill_budget;
    tokens whole_budget = step_.token_budget;
    if (step_.prefill_budget > tokens{}) whole_budget = std::min(whole_budget, step_.prefill_budget);
    const bool may_exceed = !config_.chunked_prefill && plan_.prefill.size() == 1 &&
                            (!config_.firm_budget || plan_.prefill[0].count > whole_budget);
    must(step_.prefill_budget == tokens{} || prefill <= step_.prefill_budget || may_exceed,
         "prefill is within its budget");
    must(started <= step_.max_starts, "no more start than are wanted");
    must(sum + drafts <= step_.token_budget || may_exceed, "the step is within its budget");
    for (const auto list : {plan_.decode, plan_.prefill}) {
      // Who displaces a resident goes first, others wait for their turn behind all residents.
      for (std::size_t i = 1; i < list.size(); ++i) {
        const text_request &a = *list[i - 1].request, &b = *list[i].request;
        if (waits(a) && waits(b)) must(screens<Gate> || order_.before(a, b), "a plan is in rank order");
        if (!waits(a) && !waits(b)) must(before(a, b), "a plan is in rank order");
        if (waits(a) && !waits(b)) must(displaces(a, b), "only who displaces goes before a resident");
      }
    }

    // Block tables.
    must(plan_.tables.indptr.size() == n + 1 && plan_.tables.last_page_len.size() == n,
         "one table entry per scheduled one");
    must(plan_.tables.indptr[0] == 0, "tables start at 0");
    for (std::size_t i = 0; i != n; ++i) {
      const auto length = count(plan_[i].first + plan_[i].count + plan_[i].lookahead);
      const auto row = scheduler_.tables().row(plan_[i].row);
      const auto begin = static_cast<std::size_t>(plan_.tables.indptr[i]);
      const auto end = static_cast<std::size_t>(plan_.tables.indptr[i + 1]);
      must(end - begin == (length + block_size_ - 1) / block_size_, "a table entry covers what is computed");
      must(static_cast<std::size_t>(plan_.tables.last_page_len[i]) == (length - 1) % block_size_ + 1, "last_page_len");
      for (std::size_t j = begin; j != end; ++j) {
        must(plan_.tables.indices[j] == static_cast<std::int32_t>(row[j - begin]), "tables are the rows");
      }
    }

    // Victims.
    std::set<const text_request*> victims, outgrown{plan_.outgrown.begin(), plan_.outgrown.end()};
    const auto residents = scheduler_.residents();
    for (const preemption<text_request>& v : plan_.preempted) {
      must(victims.insert(v.request).second && entry.count(v.request) == 0, "who runs is not a victim");
      must(v.request == residents[residents.size() - victims.size()], "the lowest-ranked residents are the victims");
      bool gained = false;
      for (const auto& [r, e] : entry) {
        const bool grew = !waits(*r) && static_cast<std::int64_t>(scheduler_.tables().row(e->row).size()) >
                                            blocks_for(r->computed_before, limits_.block_size).count();
        const bool first = waits(*r) ? displaces(*r, *v.request) : before(*r, *v.request);
        gained = gained || ((waits(*r) || grew) && first);
      }
      for (const text_request* r : loads) gained = gained || displaces(*r, *v.request);
      must(gained, "a victim makes room for one that ranks before it");
      must(scheduler_.why(*v.request) == wait_reason::preempted, "a victim knows");
    }
    const std::size_t suspended = scheduler_.suspended_count() + copies_out_.size();
    must(residents.size() - victims.size() + started + suspended <= limits_.residents,
         "no more residents than the limits allow");
    if constexpr (!kv::prefix_store<BlockStore>) {
      if (!victims.empty() && residents.size() - (victims.size() - 1) + started + suspended <= limits_.residents) {
        const auto held = scheduler_.tables().row(plan_.preempted.back().request->state().row).size();
        must(scheduler_.store().free() < held, "nobody is evicted without need");
      }
    }
    for (const kv_transfer<text_request>& t : plan_.swap_out)
      must(victims.count(t.request) == 1, "victims are swapped out");
    for (const kv_transfer<text_request>& t : plan_.swap_in) {
      must(entry.count(t.request) == 1, "who is swapped in runs");
      if (is_load(t)) {
        must(two_levels && t.first == t.request->state().shared_blocks &&
                 entry.at(t.request)->first == limits_.block_size * static_cast<std::int64_t>(t.first + t.host.size()),
             "what is found on the host follows what is found on the device");
      } else {
        must(t.request->state().swapped, "who was swapped out is swapped in");
      }
    }
    for (const kv_fetch<text_request>& t : plan_.fetch) {
      must(entry.count(t.request) == 1 && t.request->state().swapped, "who was adopted is fetched");
    }

    // Who has to wait for whom: residents and waiting requests in the order in which they have their turn.
    std::vector<text_request*> turn;
    const std::vector<text_request*> line = in_line();
    auto w = line.begin();
    for (std::size_t i = 0; i != residents.size() || w != line.end();) {
      if (w != line.end() && (i == residents.size() || displaces(**w, *residents[i]))) {
        turn.push_back(*w++);
      } else {
        turn.push_back(residents[i++]);
      }
    }
    const bool full = n >= std::min(step_.max_batch, limits_.residents) || sum >= step_.token_budget;
    bool nobody_starts = false;
    // Only so many that the gate has skipped are known.
    const auto is_gated = [&](const text_request* r) { return scheduler_.why(*r) == wait_reason::gated; };
    const bool list_is_full =
        static_cast<std::size_t>(std::count_if(line.begin(), line.end(), is_gated)) >= limits_.residents;
    bool gated = list_is_full;
    bool perhaps_behind = list_is_full;
    std::vector<text_request*> not_run;  // residents
    // For a block of their prompts: their places and their blocks are kept. A gate may have asked of one before others.
    std::size_t held = 0;
    std::int64_t kept_for_held = 0;
    const auto hold = [&](const text_request& r) {
      ++held;
      kept_for_held += blocks_for_length(r.state().reach()).count() - r.state().cached_blocks;
    };
    const auto is_held = [&](const text_request* r) { return scheduler_.why(*r) == wait_reason::prefix_in_flight; };
    if (screens<Gate>) {
      for (const text_request* r : line) {
        if (is_held(r)) hold(*r);
      }
    }
    for (text_request* r : turn) {
      const bool runs = entry.count(r) == 1 || loads.count(r) == 1;
      const wait_reason why = scheduler_.why(*r);
      if (runs) {
        const auto is_displaced = [&](const text_request* resident) { return waits(*r) && displaces(*r, *resident); };
        must(std::all_of(not_run.begin(), not_run.end(), is_displaced), "nobody overtakes a resident");
        must(!waits(*r) || !nobody_starts || Gate::passes, "nobody overtakes");
        for (const text_request* v : victims) {
          must(!waits(*r) || v->state().guest || order_.before(*r, *v),
               "nobody starts on what was taken from one who ranks before");
        }
        continue;
      }
      must(why != wait_reason::none && why != wait_reason::not_planned, "who waits knows why");
      if (victims.count(r) != 0) continue;
      if (!waits(*r) && may_end(*r)) {
        must(why == wait_reason::in_flight || r->state().length > limits_.longest() || full, "who is waited for knows");
        continue;
      }
      if (r->state().length > limits_.longest()) {
        must(why == wait_reason::stalled, "who has outgrown the limits knows");
        must(outgrown.count(r) == 1 || full || nobody_starts || gated || outgrown.size() == limits_.residents,
             "who has outgrown the limits is told");
        // Its turn had not come when the step was full: then it is the one that the others are behind.
        // Unless the list of those who are told is full: then nobody can see whether its turn had come.
        const bool untold = waits(*r) && outgrown.count(r) == 0;
        if (untold && outgrown.size() != limits_.residents) nobody_starts = true;
        if (untold && full) perhaps_behind = true;
        continue;
      }
      must(outgrown.count(r) == 0, "only who has outgrown the limits is told so");
      if (waits(*r)) {
        // It may rank behind the first who cannot start, if that was asked again after others had started.
        if (why == wait_reason::gated) {
          must(screens<Gate>, "only a gate that screens skips");
          perhaps_behind = gated = true;
          continue;
        }
        const bool behind_victim =
            std::any_of(victims.begin(), victims.end(), [&](const text_request* v) { return !order_.before(*r, *v); });
        must(why == wait_reason::behind_others ? nobody_starts || behind_victim || perhaps_behind
                                               : !nobody_starts || (screens<Gate> && is_held(r)),
             "the first who cannot start says why");
        if (gated && !nobody_starts && why == wait_reason::behind_others) continue;  // skipped, too
        if (is_held(r)) {
          must(has_leader(*r), "who ranks before it computes what it waits for");
          if (!screens<Gate>) hold(*r);
          continue;
        }
        switch (why) {
          case wait_reason::not_wanted: must(started == step_.max_starts, "nobody else was wanted"); break;
          case wait_reason::batch_full:
            must(n + held >= std::min(step_.max_batch, limits_.residents), "the batch is full");
            break;
          case wait_reason::budget_spent:
            must(sum >= step_.token_budget || prefill_spent || !config_.chunked_prefill, "the budget is spent");
            break;
          case wait_reason::residents_full:
            must(residents.size() - victims.size() + started + held + suspended == limits_.residents ||
                     (scheduler_.tables().free_rows() == 0 && flights_.size() > 1),
                 "rows are full");
            break;
          case wait_reason::in_flight: must(r->state().expected != 0, "who has lost its blocks is waited for"); break;
          case wait_reason::no_blocks: {
            must(kv::prefix_store<BlockStore> || static_cast<std::int64_t>(scheduler_.store().free()) <
                                                     blocks_for_length(r->state().reach()).count() + promised(),
                 "blocks are short");
            break;
          }
          case wait_reason::held_back:
            must(residents.size() - victims.size() + started + held > 0, "held back for others");
            break;
          default: must(why == wait_reason::behind_others, "a reason to wait");
        }
        if (why == wait_reason::no_blocks || why == wait_reason::held_back)
          check_refusal(*r, victims.size(), started, kept_for_held);
        nobody_starts = true;
      } else if (why == wait_reason::stalled) {
        must(scheduler_.store().free() == 0, "a stalled request lacks a block");
        nobody_starts = true;
      } else if (prefill_spent && r->state().reach() - r->state().computed > tokens{1} &&
                 why == wait_reason::budget_spent) {
        continue;  // and those who decode go on
      } else {
        must((full || !config_.chunked_prefill) && (why == wait_reason::batch_full || why == wait_reason::budget_spent),
             "a resident waits for its turn");
        not_run.push_back(r);
      }
    }
    must(n != 0 || !loads.empty() || gated || turn.empty() || outgrown.size() != 0 || nobody_starts ||
             flights_.size() > 1,
         "an idle step has a reason");
    // Somebody always gets on. One who has outgrown the limits may be in the way: that is for the engine to end. One
    // that the gate has deferred may find no room after those whose turn it was.
    const bool may_be_deferred =
        screens<Gate> && !turn.empty() && waits(*turn.front()) && (started != 0 || list_is_full);
    if (flights_.size() == 1 && !may_be_deferred && !turn.empty() &&
        turn.front()->state().length <= limits_.longest() && suspended == 0 &&
        (!waits(*turn.front()) || step_.max_starts != 0) && scheduler_.why(*turn.front()) != wait_reason::gated) {
      must(entry.count(turn.front()) + loads.count(turn.front()) == 1, "the first in turn runs");
    }
  }

  /// One that outranks nobody is refused when all others have had their turn: what there is now is what there was then,
  /// but for lookahead. It was refused rightly if it would be refused with every block of its prefix that there is.
  void check_refusal(const text_request& r, std::size_t victims, std::size_t started, std::int64_t kept_for_held) {
    if (step_.lookahead > tokens{} || Gate::passes) return;
    const auto residents = scheduler_.residents();
    const auto kept = residents.first(residents.size() - victims);
    if (std::any_of(kept.begin(), kept.end(), [&](const text_request* k) { return displaces(r, *k); })) return;
    const auto free = static_cast<std::int64_t>(scheduler_.store().free());
    std::int64_t lacks = blocks_for_length(r.state().length).count();
    std::vector<kv::block_id> known(kv::prefix_store<BlockStore> ? r.hashes.size() : 0);
    if constexpr (kv::prefix_store<BlockStore>) {
      const auto most = std::min(known.size(), (count(r.state().length) - 1) / block_size_);
      known.resize(scheduler_.store().match(std::span{r.hashes}.first(most), known));
      for (const kv::block_id b : known) lacks -= scheduler_.store().references(b) != 0;
    }
    std::vector<text_request*> admitted;
    for (std::size_t i = 0; i != plan_.size(); ++i) {
      if (plan_[i].request->state().life == lifecycle::waiting) admitted.push_back(plan_[i].request);
    }
    for (const kv_fetch<text_request>& t : plan_.load) admitted.push_back(t.request);
    must(admitted.size() == started, "who waits and is in the plan is admitted");
    std::int64_t capacity = static_cast<std::int64_t>(limits_.blocks);
    for (const text_request* s : live_) {
      if (s->state().life == lifecycle::suspended) capacity -= static_cast<std::int64_t>(row_of(*s).size());
    }
    for (const ending& e : ending_) {
      if (is_loading(*e.request)) capacity -= static_cast<std::int64_t>(row_of(*e.request).size());
    }
    for (const copy_out& c : copies_out_) capacity -= static_cast<std::int64_t>(c.blocks.size());
    std::vector<std::uint32_t> own(scheduler_.tables().rows());
    for (const auto list : {std::span<text_request* const>{kept}, std::span<text_request* const>{admitted}}) {
      for (const text_request* k : list) {
        for (const kv::block_id b : row_of(*k)) {
          // What the candidate would share stays when another ends.
          const bool would_share = std::find(known.begin(), known.end(), b) != known.end();
          own[k->state().row] +=
              !kv::prefix_store<BlockStore> || (scheduler_.store().references(b) == 1 && !would_share);
        }
      }
    }
    const admission_view<text_request> view{.free_after = blocks{free - lacks - promised() - kept_for_held},
                                            .needed = blocks{lacks},
                                            .capacity = blocks{std::max(std::max<std::int64_t>(capacity, 0), free)},
                                            .block_size = limits_.block_size,
                                            .residents = kept,
                                            .admitted = admitted,
                                            .own = own};
    must(free < lacks + promised() + kept_for_held || !config_.admit.admits(r, view),
         "nobody is refused who may start");
  }

  /// Whether a prompt that begins as that of `r` is being computed for one that ranks before it.
  [[nodiscard]] bool has_leader(const text_request& r) const {
    const auto leads = [&](const scheduled<text_request>& e) {
      const auto i = static_cast<std::size_t>(e.first / limits_.block_size);
      const text_request& q = *e.request;
      return &q != &r && order_.before(q, r) && i < q.hashes.size() && i < r.hashes.size() &&
             q.hashes[i] == r.hashes[i];
    };
    if (std::any_of(plan_.prefill.begin(), plan_.prefill.end(), leads)) return true;
    return std::any_of(flights_.begin(), flights_.end(), [&](const flight& f) {
      return std::any_of(f.plan.prefill.begin(), f.plan.prefill.end(), leads);
    });
  }

  void note_plan() {
    note(plan_.size());
    for (std::size_t i = 0; i != plan_.size(); ++i) {
      const scheduled<text_request>& e = plan_[i];
      for (const auto x :
           {e.first.count(), e.count.count(), e.lookahead.count(), static_cast<std::int64_t>(e.samples)}) {
        note(static_cast<std::uint64_t>(x));
      }
      note(e.request->id);
      note(e.row);
    }
    for (const auto b : plan_.tables.indices) note(static_cast<std::uint64_t>(b));
    for (const auto list : {plan_.swap_out, plan_.swap_in}) {
      for (const kv_transfer<text_request>& t : list) {
        note(t.request->id);
        for (const auto b : t.device) note(b);
        for (const auto b : t.host) note(b);
      }
    }
    for (const kv_fetch<text_request>& t : plan_.fetch) {
      note(t.request->id);
      for (const auto b : t.device) note(b);
    }
    for (const kv_demotion& d : plan_.demoted) note(mix(d.device, d.host));
    for (const auto& v : plan_.preempted) note(v.request->id * 2 + (v.mode == preemption_mode::swap));
    for (const text_request* r : plan_.outgrown) note(r->id);
    for (const kv_fetch<text_request>& t : plan_.load) {
      note(t.request->id);
      for (const auto b : t.device) note(b);
    }
    for (const text_request* r : live_) {
      // Which of two reasons it is that one is refused for may be left open where refusals are remembered.
      const wait_reason why = scheduler_.why(*r);
      note(static_cast<std::uint64_t>(why == wait_reason::held_back ? wait_reason::no_blocks : why));
    }
  }

  scheduler_limits limits_;
  typename scheduler_type::config config_;
  std::size_t block_size_;
  std::vector<std::byte> storage_;
  scheduler_type scheduler_;
  Order order_;  ///< To compare with.
  bool looks_ = true;
  std::size_t loads_ = 0;
  std::size_t demotions_ = 0;
  std::vector<std::uint64_t> device_;
  std::vector<std::uint64_t> host_;
  std::vector<text_request*> live_;
  plan_type plan_{};  ///< The newest.
  step_limits step_{};
  std::deque<flight> flights_;
  bool open_ = false;  ///< Whether the newest can be abandoned.
  std::vector<copy_out> copies_out_;
  std::size_t late_ = 0;
  std::vector<ending> ending_;
  std::vector<std::uint32_t> left_rows_;  ///< Of those who left while the plan could be.
  std::uint64_t digest_ = 0;
  std::uint64_t epoch_ = 0;  ///< How often prefixes have been forgotten.
};

}  // namespace tessera_test
