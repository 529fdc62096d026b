// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// A scheduler of a model with different layers, and an engine that trusts it with nothing. It writes what the KV of a
/// token would be, or the state after it, to each slot that the tables of a group name. It reads all that a token looks
/// at before it computes the next. So each of these shows as a wrong value:
/// - a block that a window gave up too early,
/// - two rows that have one block,
/// - a prefix that a group cannot serve,
/// - a draft that was not taken back,
/// - a copy that is missing,
/// - KV from elsewhere that is not what a group needs, or is written to blocks that a plan in flight reads.
///
/// Plans are run when they are settled, the oldest first. So plans that were made meanwhile build on results that are
/// not known yet. It also checks which row has which block, what windows may hold, and that everything ends.

#include <tessera/core/owned_storage.hpp>
#include <tessera/gate/backfill.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "property/groups_request.hpp"
#include "support/must.hpp"

namespace tessera_test {
namespace grouped {

/// Sees to it, whenever it is asked, that what residents hold for themselves is counted right.
template <std::size_t Groups>
struct counting_admit {
  bool* wrong = nullptr;
  const kv::groups<Groups>* const* kv = nullptr;
  template <class R>
  [[nodiscard]] bool admits(const R& r, const admission_view<R>& view) const noexcept {
    for (const R* q : view.residents) check(*q, view);
    for (const R* q : view.admitted) check(*q, view);
    return admit::watermark{.fraction = 0.05}.admits(r, view);
  }
  template <class R>
  void check(const R& q, const admission_view<R>& view) const noexcept {
    std::uint32_t own = 0;
    for (std::size_t g = 0; g != Groups; ++g) {
      for (const kv::block_id id : (*kv)->blocks_of(g, q.state().row))
        own += (*kv)->store().references(id) == 1 ? 1U : 0U;
    }
    if (view.exclusive[q.state().row] != own) *wrong = true;
  }
};

template <std::size_t Groups, class Order, class Gate>
class world {
 public:
  using request_type = text_request<Groups>;
  using scheduler_type = iteration_scheduler<request_type, Order, preempt::recompute, counting_admit<Groups>,
                                             kv::groups<Groups>, kv::csr_tables, Gate>;
  using limits_type = typename scheduler_type::limits;
  using plan_type = typename scheduler_type::plan_type;

  world(const limits_type& l, const typename scheduler_type::config& c, totals& t)
      : limits_{l}, storage_{storage_for<scheduler_type>(l)}, scheduler_{storage_, with(c, this)}, totals_{t} {
    kv_ = &scheduler_.tables();
    for (const kv::group& g : l.layers) widest_ = std::max(widest_, count(g.block_size));
    device_.assign(l.blocks * widest_, 0);
  }

  [[nodiscard]] scheduler_type& scheduler() { return scheduler_; }
  [[nodiscard]] std::uint64_t digest() const { return digest_; }
  [[nodiscard]] std::size_t in_flight() const { return flights_.size(); }

  void plan(const step_limits& step, bool abandoned) {
    const auto p = scheduler_.plan(now_, step);
    left_rows_.clear();
    for (const auto& l : p.late) {
      ++totals_.late;
      note(static_cast<std::uint64_t>(l.what));
      if (l.what == deadline_of::draining) {
        std::erase_if(draining_, [&](const auto& d) { return d.first == l.ticket; });
      } else if (l.what == deadline_of::loading) {
        std::erase_if(jobs_, [&](const job& j) { return j.request == l.request; });
        l.request->announced = 0;
        l.request->has_come = l.request->state().life != lifecycle::waiting;
      } else if (l.request->state().life == lifecycle::failed || l.request->state().ends_as == lifecycle::failed) {
        l.request->ended_there = true;
      }
    }
    flight f{.plan = p, .entries = {}, .copies = {p.copies.begin(), p.copies.end()}};
    for (std::size_t i = 0; i != p.size(); ++i) {
      entry e{.of = p[i], .blocks = {}, .first = {}, .epoch = epoch_};
      for (const fetch_type& t : p.fetch) {
        if (t.request == p[i].request) e.epoch = std::min(e.epoch, t.request->kv_epoch), e.has_kv = true;
      }
      for (std::size_t g = 0; g != Groups; ++g) {
        const auto& t = p.tables[g].tables;
        const auto begin = t.indices.begin() + t.indptr[i];
        e.blocks[g].assign(begin, t.indices.begin() + t.indptr[i + 1]);
        e.first[g] = p.tables[g].first_block[i];
        must(e.first[g] == scheduler_.tables().first_block(g, p[i].row), "the plan shows where a row begins");
        // What is new is at the end of the row, and was not in an earlier plan.
        const std::size_t size = scheduler_.tables().table(g).size(p[i].row);
        must(p.tables[g].new_blocks[i] <= size, "no more new blocks than there are");
      }
      f.entries.push_back(e);
    }
    for (std::size_t k = 1; k < limits_.plans_apart && k <= flights_.size(); ++k) {
      for (const entry& before : flights_[flights_.size() - k].entries) {
        for (const entry& e : f.entries) {
          must(!before.of.samples || before.of.request != e.of.request, "plans that sample for a request are apart");
        }
      }
    }
    must(!counted_wrong_, "blocks that nobody shares are counted right");
    must(p.swap_out.empty(), "nothing is swapped out");
    must(p.swap_in.empty(), "nor in");
    check_lists(p.fetch);
    check_lists(p.load);
    check();
    if (abandoned) {
      scheduler_.abandon(p);
      left_rows_.clear();
      check();
      return;
    }
    for (const entry& e : f.entries) {
      note(e.of.request->id);
      note(static_cast<std::uint64_t>(e.of.first.count() * 1000 + e.of.count.count()));
      note(static_cast<std::uint64_t>(e.of.lookahead.count() * 1000 + e.of.new_blocks));
      for (const auto& ids : e.blocks) {
        for (const std::int32_t id : ids) note(static_cast<std::uint64_t>(id));
      }
    }
    for (const auto& v : p.preempted) note(v.request->id), v.request->has_come = false;
    totals_.preempted += p.preempted.size();
    for (const fetch_type& t : p.fetch) f.fetches.push_back(list_of(t));
    for (const fetch_type& t : p.load) {
      note(t.request->id * 1000 + t.first * 10 + t.group);
      if (t.group == 0) jobs_.push_back({t.request, p.load_after, false, {}});
      jobs_.back().lists.push_back(list_of(t));
      t.request->load_epoch = t.request->kv_epoch;
    }
    for (entry& e : f.entries) {
      request_type& r = *e.of.request;
      if (e.of.origin != entry_origin::going_on) r.announced = 0, ++r.starts;
      e.has_come = std::exchange(r.has_come, false);
      e.load_epoch = r.load_epoch;
      e.start = r.starts;
    }
    for (list& l : f.fetches) l.start = l.of.request->starts;
    for (const job& j : jobs_) {
      if (j.request->announced != 0) j.request->announced = 0, ++j.request->starts;
    }
    note(p.load_after != 0 ? 1 : 0);
    note(p.fetch_after != 0 ? 1 : 0);
    flights_.push_back(f);
    land();
  }

  /// Runs the oldest plan and settles it. `draw(n)`: a number below `n`.
  template <class Draw>
  void commit(Draw&& draw) {
    flight f = flights_.front();
    flights_.pop_front();
    for (const kv::block_copy& c : f.copies) {
      for (std::size_t i = 0; i != widest_; ++i) device_[c.to * widest_ + i] = device_[c.from * widest_ + i];
    }
    for (const list& l : f.fetches) {
      request_type& r = *l.of.request;
      if (l.of.group == 0) {
        const bool comes = draw(5) != 0;
        ++(comes ? totals_.fetched : totals_.spoilt);
        if (!comes) r.void_starts = l.start;
        fetched_ = comes ? l.announced : 0;
      }
      write(l, fetched_);
    }
    std::vector<outcome> outcomes;
    for (const entry& e : f.entries) outcomes.push_back(run(e, draw));
    scheduler_.commit(f.plan, outcomes, now_);
    left_rows_.clear();
    now_ += 1_s;
    land();
    check();
    if (flights_.empty()) check_windows();
  }

  status submit(request_type& r) {
    const status s = scheduler_.submit(r, now_);
    note(static_cast<std::uint64_t>(s));
    if (s != status::accepted) return s;
    all_.push_back(&r);
    check();
    return s;
  }
  void cancel(request_type& r) {
    r.ended_there = scheduler_.cancel(r) == status::ok || r.ended_there;
    check();
  }
  void suspend_or_resume(request_type& r) {
    const status s = r.state().life == lifecycle::suspended ? scheduler_.resume(r) : scheduler_.suspend(r);
    note(static_cast<std::uint64_t>(s));
    check();
  }
  void preempt(request_type& r) {
    note(static_cast<std::uint64_t>(scheduler_.preempt(r)));
    if (r.state().life == lifecycle::waiting) r.has_come = false;
    check();
  }
  /// The KV of its first `n` tokens is elsewhere. It comes with the plan that starts it, or is `loading` for at most so
  /// many `steps`; 0: for as long as it takes.
  void announce(request_type& r, std::size_t n, bool loads, std::size_t steps) {
    const time_point until = steps == 0 ? time_point::never() : now_ + duration{static_cast<double>(steps)};
    const status s = loads ? scheduler_.loading(r, of(n), until) : scheduler_.fetching(r, of(n));
    note(static_cast<std::uint64_t>(s));
    if (s == status::ok) r.announced = n, r.kv_epoch = epoch_;
    check();
  }
  /// KV on its way has come: all of it if `spared` is 0, or some tokens less.
  void arrive(std::size_t spared) {
    if (scheduler_.can_abandon()) return;
    const auto landed = std::find_if(jobs_.begin(), jobs_.end(), [](const job& j) { return j.has_landed; });
    if (landed == jobs_.end()) return;
    const job j = *landed;
    jobs_.erase(landed);
    request_type& r = *j.request;
    const std::size_t all = j.lists.front().announced;
    const std::size_t n = all - std::min(spared, all);
    for (const list& l : j.lists) write(l, n);
    must(scheduler_.arrived(r, of(all + 1)) == status::invalid, "no more comes than was announced");
    must(scheduler_.arrived(r, of(n)) == status::ok, "what was on its way comes");
    const bool waits = r.state().life == lifecycle::waiting;
    r.has_come = !waits;
    must(!waits || n != all, "who has all its KV goes on");
    if (is_live(r.state().life)) ++(n == all ? totals_.loaded : waits ? totals_.lost : totals_.partly);
    check();
  }
  [[nodiscard]] bool is_loading() const { return !jobs_.empty(); }
  /// With its KV, or without.
  void evacuate_and_adopt(request_type& r, bool keeps_kv) {
    const std::uint32_t row = r.state().row;
    const bool leaves_row = scheduler_.can_abandon() && row != no_index;
    if (scheduler_.evacuate(r) != status::ok) return;
    if (leaves_row) left_rows_.push_back(row);
    r.is_fork = false;
    check();
    auto p = r.progress();
    must(p.computed < p.length, "something is left to compute");
    r.kv_epoch = epoch_;  // as KV of another instance, of which nothing was forgotten here
    if (!keeps_kv) p.computed = {};
    r.announced = count(p.computed);
    const status s = scheduler_.adopt(r, p);
    must((s == status::accepted || s == status::queue_full), "who was here fits here");
    if (s != status::accepted) r.ended_there = true;
    check();
  }
  bool fork(const request_type& parent, request_type& child) {
    const status s = scheduler_.fork(parent, child);
    note(static_cast<std::uint64_t>(s));
    must(s != status::invalid, "a child that goes on as its parent is valid");
    if (s == status::ok) {
      all_.push_back(&child);
      ++totals_.forks;
    }
    check();
    return s == status::ok;
  }
  /// It is parked, until `ready` or the deadline.
  void park_or_ready(request_type& r, std::size_t steps, bool fails) {
    const time_point until = steps == 0 ? time_point::never() : now_ + duration{static_cast<double>(steps)};
    const status s = r.state().parked && steps % 2 == 0
                         ? scheduler_.ready(r)
                         : scheduler_.park(r, until, fails ? park_end::fails : park_end::ready);
    note(static_cast<std::uint64_t>(s));
    must(s != status::invalid, "parked or ready");
    check();
  }
  void finish(request_type& r) {
    const status s = scheduler_.finish(r);
    note(static_cast<std::uint64_t>(s));
    r.ended_there = s == status::ok || r.ended_there;
    check();
  }
  /// It is finished, and its blocks are being copied. After `steps` steps the copy is no longer waited for; 0: for
  /// ever.
  void drain(request_type& r, std::size_t steps) {
    const std::uint32_t row = r.state().row;
    std::uint64_t ticket = 0;
    if (scheduler_.finish(r, steps == 0 ? time_point::never() : now_ + duration{static_cast<double>(steps)}, ticket) !=
        status::ok)
      return;
    r.ended_there = true;
    draining_.push_back({ticket, row});
    check();
  }
  void drained() {
    if (draining_.empty()) return;
    const auto [ticket, row] = draining_.front();
    draining_.pop_front();
    must(scheduler_.drained(ticket) == status::ok, "what drains is known");
    if (scheduler_.can_abandon()) left_rows_.push_back(row);
    check();
  }
  void forget_prefixes() {
    if (scheduler_.forget_prefixes() == status::ok) ++epoch_;
    check();
  }
  [[nodiscard]] std::vector<request_type*> live() const {
    std::vector<request_type*> some;
    for (request_type* r : all_) {
      if (is_live(r->state().life)) some.push_back(r);
    }
    return some;
  }

 private:
  struct entry {
    scheduled<request_type> of;
    std::array<std::vector<std::int32_t>, Groups> blocks;
    std::array<std::size_t, Groups> first;
    std::uint64_t epoch;
    bool has_kv = false;    ///< That comes with the plan,
    bool has_come = false;  ///< or has come since the request began to load, in this epoch.
    std::uint64_t load_epoch = 0;
    std::size_t start = 0;
  };
  using fetch_type = kv_fetch<request_type>;
  struct list {
    fetch_type of;
    std::vector<kv::block_id> ids;
    std::size_t announced;
    std::uint64_t epoch;
    std::size_t start = 0;
  };
  static list list_of(const fetch_type& t) {
    return {t, {t.device.begin(), t.device.end()}, t.request->announced, t.request->kv_epoch};
  }
  struct flight {
    plan_type plan;
    std::vector<entry> entries;
    std::vector<kv::block_copy> copies;
    std::vector<list> fetches = {};
  };
  /// KV on its way to a request.
  struct job {
    request_type* request;
    std::uint64_t after;  ///< The last plan that reads its blocks.
    bool has_landed;
    std::vector<list> lists;
  };

  /// Each request with KV from elsewhere has a list for each group, of the blocks that its next token looks at.
  void check_lists(std::span<const fetch_type> all) const {
    must(all.size() % Groups == 0, "a list for each group");
    for (std::size_t i = 0; i != all.size(); ++i) {
      const fetch_type& t = all[i];
      must(t.group == i % Groups && t.request == all[i - t.group].request, "group by group");
      const kv::group& layers = limits_.layers[t.group];
      const std::size_t end = (t.request->announced + count(layers.block_size) - 1) / count(layers.block_size);
      must(t.first + t.device.size() == end, "up to what was announced");
      const std::size_t needed = kv::detail::needed_from(layers, of(t.request->announced));
      must(t.first >= needed, "no more than is needed");
      const std::size_t found = t.request->state().shared_blocks * count(limits_.layers[0].block_size);
      must(t.first == std::max(needed, found / count(layers.block_size)), "all that is not here");
    }
  }
  /// KV of all its tokens is written; that of the first `n` is right.
  void write(const list& l, std::size_t n) {
    const kv::group& layers = limits_.layers[l.of.group];
    const std::size_t b = count(layers.block_size);
    for (std::size_t p = l.of.first * b; p < l.announced; ++p) {
      const std::size_t id = l.ids[p / b - l.of.first];
      device_[id * widest_ + (layers.is_recurrent() ? 0 : p % b)] =
          p < n ? l.of.request->written(p, l.epoch) : ~std::uint64_t{0};
    }
  }
  /// KV is written as early as can be.
  void land() {
    for (job& j : jobs_) {
      if (j.has_landed || (!flights_.empty() && flights_.front().plan.id <= j.after)) continue;
      j.has_landed = true;
      for (const list& l : j.lists) write(l, l.announced);
    }
  }

  [[nodiscard]] std::uint64_t& slot(const entry& e, std::size_t g, std::size_t position) {
    const std::size_t b = count(limits_.layers[g].block_size);
    must(position / b >= e.first[g], "a block that a window gave up");
    must(position / b - e.first[g] < e.blocks[g].size(), "a position without a block");
    const auto id = static_cast<std::size_t>(e.blocks[g][position / b - e.first[g]]);
    must(id < limits_.blocks, "a block that there is");
    return device_[id * widest_ + (limits_.layers[g].is_recurrent() ? 0 : position % b)];
  }
  /// What the token at `position` looks at is there, in every group.
  void read(const entry& e, const request_type& r, std::size_t position) {
    for (std::size_t g = 0; g != Groups; ++g) {
      if (limits_.layers[g].is_recurrent()) {
        if (position != 0)
          must(r.may_read(slot(e, g, position - 1), position - 1), "a state that is not that before the token");
        continue;
      }
      const std::size_t w = count(limits_.layers[g].window);
      std::size_t first = w == 0 || position + 1 < w ? 0 : position + 1 - w;
      if (limits_.layers[g].in_chunks) first = position - position % w;
      for (std::size_t p = first; p < position; ++p)
        must(r.may_read(slot(e, g, p), p), "KV that is not that of the token");
    }
  }

  template <class Draw>
  outcome run(const entry& e, Draw&& draw) {
    request_type& r = *e.of.request;
    if (r.ended_there) {
      ++totals_.void_entries;
      return {};
    }
    if (e.start <= r.void_starts) {
      for (std::size_t p = count(e.of.first); p != count(e.of.first + e.of.count + e.of.lookahead); ++p) {
        for (std::size_t g = 0; g != Groups; ++g) slot(e, g, p) = ~std::uint64_t{0};
      }
      outcome o;
      o.spoilt = true;
      return o;
    }
    // A fork goes on where its parent was.
    const bool starts = e.of.origin == entry_origin::resumed || (e.of.origin == entry_origin::started && !r.is_fork);
    if (starts || e.has_come) {
      r.computed = count(e.of.first);
      r.epoch = e.has_come ? std::min(e.epoch, e.load_epoch) : e.epoch;
      totals_.hits += r.computed != 0 && !e.has_kv && !e.has_come ? 1U : 0U;
    }
    r.is_fork = false;
    const std::size_t first = r.computed;
    // Less only by drafts that were refused after the plan was made.
    must(first <= count(e.of.first), "goes on no earlier than it is");
    must((e.of.samples || first == count(e.of.first)), "a chunk goes on where it is");
    std::size_t end = first + count(e.of.count);
    must(end <= r.text.size(), "computes what is known");
    must(e.of.samples == (end == r.text.size()), "samples at the end");
    read(e, r, first);
    for (std::size_t p = first; p != end; ++p) {
      for (std::size_t g = 0; g != Groups; ++g) {
        if (!limits_.layers[g].at_ends || p + 1 == end) slot(e, g, p) = r.written(p);
      }
    }
    r.computed = end;
    if (!e.of.samples) return {};

    const std::size_t drafts = count(e.of.lookahead);
    for (const kv::group& g : limits_.layers) must((drafts == 0 || !g.is_recurrent()), "a state takes no drafts");
    const std::size_t accepted = static_cast<std::size_t>(draw(drafts + 1));
    totals_.accepted_drafts += accepted;
    totals_.refused_drafts += drafts - accepted;
    for (std::size_t i = 0; i != drafts; ++i) {
      if (i < accepted) {
        r.append(static_cast<std::int32_t>(mix(r.id, r.text.size()) & 0xffffff));
        ++r.computed;
      }
      for (std::size_t g = 0; g != Groups; ++g) {
        slot(e, g, end + i) = i < accepted ? r.written(end + i) : ~std::uint64_t{0};
      }
    }
    r.append(static_cast<std::int32_t>(mix(r.id, r.text.size()) & 0xffffff));
    r.hash(limits_.layers);
    outcome o;
    o.produced = static_cast<std::uint16_t>(1 + accepted);
    o.finished = r.text.size() >= count(r.prompt) + r.output;
    o.failed = draw(60) == 0;
    if (o.finished || o.failed) {
      r.ended_there = true;
      ++totals_.finished;
    }
    return o;
  }
  void note(std::uint64_t n) { digest_ = mix(digest_, n); }

  /// Every block has as many owners as the rows that name it.
  void check() {
    std::vector<std::uint32_t> owners(limits_.blocks);
    std::vector<std::uint32_t> rows = left_rows_;
    for (const auto& d : draining_) rows.push_back(d.second);
    for (const std::uint32_t row : rows) {
      for (std::size_t g = 0; g != Groups; ++g) {
        for (const kv::block_id id : scheduler_.tables().blocks_of(g, row)) ++owners[id];
      }
    }
    for (const request_type* r : all_) {
      if (r->state().row == no_index) continue;
      std::int64_t held = 0;
      if (is_victim(*r)) continue;
      for (std::size_t g = 0; g != Groups; ++g) {
        for (const kv::block_id id : scheduler_.tables().blocks_of(g, r->state().row)) {
          ++owners[id];
          ++held;
        }
      }
      must(scheduler_.blocks_held(*r).count() == held, "blocks held");
    }
    std::size_t used = 0;
    for (std::size_t i = 0; i != owners.size(); ++i) {
      must(scheduler_.store().references(static_cast<kv::block_id>(i)) == owners[i],
           "as many owners as rows that name it");
      used += owners[i] != 0 ? 1U : 0U;
    }
    must(scheduler_.store().free() == limits_.blocks - used, "free is what nobody has");
  }
  /// Whether it is a victim of the open plan: it has its row still, and its blocks are gone.
  [[nodiscard]] bool is_victim(const request_type& r) const {
    return scheduler_.can_abandon() && scheduler_.why(r) == wait_reason::preempted &&
           r.state().life == lifecycle::resident;
  }
  /// When nothing is in flight, a window holds what it spans.
  void check_windows() const {
    for (const request_type* r : all_) {
      if (r->state().life != lifecycle::resident || r->state().computed == 0_tok) continue;
      for (std::size_t g = 0; g != Groups; ++g) {
        const kv::group& layers = limits_.layers[g];
        const std::size_t held = scheduler_.tables().blocks_of(g, r->state().row).size();
        const std::size_t most = layers.most_blocks(r->state().length, limits_.kept_behind);
        if (layers.window != 0_tok) must(held <= most, "a window holds what it spans");
      }
    }
  }

  static typename scheduler_type::config with(typename scheduler_type::config c, world* w) {
    c.admit.kv = &w->kv_;
    c.admit.wrong = &w->counted_wrong_;
    return c;
  }

  bool counted_wrong_ = false;
  limits_type limits_;
  const kv::groups<Groups>* kv_ = nullptr;
  owned_storage<limits_type> storage_;
  scheduler_type scheduler_;
  totals& totals_;
  std::size_t widest_ = 0;
  std::vector<std::uint64_t> device_;
  std::vector<request_type*> all_;
  std::deque<flight> flights_;
  std::vector<std::uint32_t> left_rows_;  ///< Until no plan is open.
  std::deque<std::pair<std::uint64_t, std::uint32_t>> draining_;
  std::deque<job> jobs_;
  std::size_t fetched_ = 0;  ///< Tokens of the present fetch that come.
  std::uint64_t epoch_ = 0;
  std::uint64_t digest_ = 0;
  time_point now_{};
};

}  // namespace grouped
}  // namespace tessera_test
