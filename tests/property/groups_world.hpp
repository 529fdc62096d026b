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
/// - a copy that is missing.
///
/// Plans are run when they are settled, the oldest first. So plans that were made meanwhile build on results that are
/// not known yet. It also checks which row has which block, what windows may hold, and that everything ends.

#include <tessera/core/owned_storage.hpp>
#include <tessera/gate/backfill.hpp>
#include <tessera/kv/hash_chain.hpp>
#include <tessera/order/round_robin.hpp>
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

#include "support/must.hpp"

namespace tessera_test {
namespace grouped {

using namespace tessera;
using namespace tessera::literals;

inline std::size_t count(tokens n) { return static_cast<std::size_t>(n.count()); }
inline tokens of(std::size_t n) { return tokens{static_cast<std::int64_t>(n)}; }
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return kv::detail::scramble(a * 31 + b + 7); }

/// A request with a text that depends on its number, and where it is on the device.
template <std::size_t Groups>
struct text_request : request_hook_for<order::round_robin> {
  std::uint64_t id = 0;
  std::size_t output = 1;
  std::vector<std::int32_t> text;       ///< As far as the engine has come.
  std::vector<std::uint64_t> contents;  ///< Contents of the KV of each token, and of the state after it.
  std::array<std::vector<std::uint64_t>, Groups> hashes;

  // Where it is on the device.
  std::size_t computed = 0;
  std::uint64_t epoch = 0;  ///< How often prefixes had been forgotten when it started.
  bool is_fork = false;     ///< No plan with it was run yet.
  bool ended_there = false;

  [[nodiscard]] std::array<std::span<const std::uint64_t>, Groups> prefix_hashes() const noexcept {
    std::array<std::span<const std::uint64_t>, Groups> all;
    for (std::size_t g = 0; g != Groups; ++g) all[g] = hashes[g];
    return all;
  }
  void append(std::int32_t token) {
    contents.push_back(mix(contents.empty() ? 1 : contents.back(), static_cast<std::uint64_t>(token)));
    text.push_back(token);
  }
  void hash(const std::array<kv::group, Groups>& layers) {
    for (std::size_t g = 0; g != Groups; ++g) {
      hashes[g].resize(text.size() / count(layers[g].block_size));
      kv::hash_chain(text, count(layers[g].block_size), hashes[g]);
    }
  }
  // A slot holds a token's content, and in its low bits the epoch of the request that computed it.
  static constexpr std::uint64_t epochs = 0xffff;
  [[nodiscard]] std::uint64_t written(std::size_t position) const { return (contents[position] & ~epochs) | epoch; }
  [[nodiscard]] bool may_read(std::uint64_t kv, std::size_t position) const {
    return ((kv ^ contents[position]) & ~epochs) == 0 && (kv & epochs) >= epoch;
  }
};

/// What has come about.
struct totals {
  std::size_t hits = 0;
  std::size_t preempted = 0;
  std::size_t forks = 0;
  std::size_t refused_drafts = 0;
  std::size_t accepted_drafts = 0;
  std::size_t finished = 0;
  std::size_t void_entries = 0;
  std::size_t late = 0;
};

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
      } else if (l.request->state().life == lifecycle::failed || l.request->state().ends_as == lifecycle::failed) {
        l.request->ended_there = true;
      }
    }
    flight f{.plan = p, .entries = {}, .copies = {p.copies.begin(), p.copies.end()}};
    for (std::size_t i = 0; i != p.size(); ++i) {
      entry e{.of = p[i], .blocks = {}, .first = {}, .epoch = epoch_};
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
    must(p.fetch.empty(), "nothing comes from elsewhere");
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
    for (const auto& v : p.preempted) note(v.request->id);
    totals_.preempted += p.preempted.size();
    flights_.push_back(f);
  }

  /// Runs the oldest plan and settles it. `draw(n)`: a number below `n`.
  template <class Draw>
  void commit(Draw&& draw) {
    flight f = flights_.front();
    flights_.pop_front();
    for (const kv::block_copy& c : f.copies) {
      for (std::size_t i = 0; i != widest_; ++i) device_[c.to * widest_ + i] = device_[c.from * widest_ + i];
    }
    std::vector<outcome> outcomes;
    for (const entry& e : f.entries) outcomes.push_back(run(e, draw));
    scheduler_.commit(f.plan, outcomes, now_);
    left_rows_.clear();
    now_ += 1_s;
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
    check();
  }
  /// Another instance would begin anew, too.
  void evacuate_and_adopt(request_type& r) {
    const std::uint32_t row = r.state().row;
    const bool leaves_row = scheduler_.can_abandon() && row != no_index;
    if (scheduler_.evacuate(r) != status::ok) return;
    if (leaves_row) left_rows_.push_back(row);
    r.is_fork = false;
    check();
    const auto p = r.progress();
    must(p.computed == 0_tok, "who is evacuated keeps no KV");
    auto wrong = p;
    wrong.computed = 1_tok;
    if (p.length > 1_tok) must(scheduler_.adopt(r, wrong) == status::invalid, "KV does not come from elsewhere");
    const status s = scheduler_.adopt(r);
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
  };
  struct flight {
    plan_type plan;
    std::vector<entry> entries;
    std::vector<kv::block_copy> copies;
  };

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
    // A fork goes on where its parent was.
    if (e.of.origin == entry_origin::resumed || (e.of.origin == entry_origin::started && !r.is_fork)) {
      r.computed = count(e.of.first);
      r.epoch = e.epoch;
      totals_.hits += r.computed != 0 ? 1U : 0U;
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
        if (layers.window != 0_tok) must(held <= layers.most_blocks(r->state().length), "a window holds what it spans");
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
  std::uint64_t epoch_ = 0;
  std::uint64_t digest_ = 0;
  time_point now_{};
};

}  // namespace grouped
}  // namespace tessera_test
