// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A scheduler of a model whose layers differ, and an engine that trusts it with nothing. It writes to each slot that
// the tables of a group name what the KV of a token would be, or the state after it, and reads all that a token looks
// at before it computes the next: a block that a window gave up too early, two rows that have one block, a prefix that
// a group cannot serve, a draft that was not taken back, or a copy that is missing shows as a wrong value. Plans are
// run when they are settled, the oldest first, so those that were made meanwhile are on top of what nobody knows yet.
// Beside it: who has which block, what windows may hold, that the same calls give the same plans, that an abandoned one
// leaves no trace, and that everything ends.

#include <tessera/core/owned_storage.hpp>
#include <tessera/gate/backfill.hpp>
#include <tessera/kv/hash_chain.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <vector>

#include "support/catch.hpp"
#include "support/is_slow.hpp"

namespace {

using namespace tessera;
using namespace tessera::literals;
using kv::block_id;
using kv::group;

constexpr std::size_t groups = 3;
using layers_type = std::array<group, groups>;

std::size_t count(tokens n) { return static_cast<std::size_t>(n.count()); }
tokens of(std::size_t n) { return tokens{static_cast<std::int64_t>(n)}; }
std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return kv::detail::scramble(a * 31 + b + 7); }

struct text_request : request_hook_for<order::round_robin> {
  std::uint64_t id = 0;
  std::size_t output = 1;
  std::vector<std::int32_t> text;       ///< As far as the engine has come.
  std::vector<std::uint64_t> contents;  ///< Of the KV of each token, and of the state after it.
  std::array<std::vector<std::uint64_t>, groups> hashes;

  // Where it is on the device.
  std::size_t computed = 0;
  std::uint64_t epoch = 0;  ///< How often prefixes had been forgotten when it started.
  bool is_fork = false;     ///< No plan with it was run yet.
  bool ended_there = false;

  [[nodiscard]] std::array<std::span<const std::uint64_t>, groups> prefix_hashes() const noexcept {
    return {hashes[0], hashes[1], hashes[2]};
  }
  void append(std::int32_t token) {
    contents.push_back(mix(contents.empty() ? 1 : contents.back(), static_cast<std::uint64_t>(token)));
    text.push_back(token);
  }
  void hash(const layers_type& layers) {
    for (std::size_t g = 0; g != groups; ++g) {
      hashes[g].resize(text.size() / count(layers[g].block_size));
      kv::hash_chain(text, count(layers[g].block_size), hashes[g]);
    }
  }
  // A slot holds a token's content, and in its low bits the epoch of whoever computed it.
  static constexpr std::uint64_t epochs = 0xffff;
  [[nodiscard]] std::uint64_t written(std::size_t position) const { return (contents[position] & ~epochs) | epoch; }
  [[nodiscard]] bool may_read(std::uint64_t kv, std::size_t position) const {
    return ((kv ^ contents[position]) & ~epochs) == 0 && (kv & epochs) >= epoch;
  }
};

struct totals {
  std::size_t hits = 0;
  std::size_t preempted = 0;
  std::size_t forks = 0;
  std::size_t refused_drafts = 0;
  std::size_t accepted_drafts = 0;
  std::size_t finished = 0;
  std::size_t void_entries = 0;
};

/// Sees to it, whenever it is asked, that what residents hold for themselves is counted right.
struct counting_admit {
  const kv::groups<groups>* const* kv = nullptr;
  template <class R>
  [[nodiscard]] bool admits(const R& r, const admission_view<R>& view) const noexcept {
    for (const R* q : view.residents) check(*q, view);
    for (const R* q : view.admitted) check(*q, view);
    return admit::watermark{.fraction = 0.05}.admits(r, view);
  }
  template <class R>
  void check(const R& q, const admission_view<R>& view) const noexcept {
    std::uint32_t own = 0;
    for (std::size_t g = 0; g != groups; ++g) {
      for (const block_id id : (*kv)->blocks_of(g, q.state().row)) own += (*kv)->store().references(id) == 1 ? 1U : 0U;
    }
    CHECK(view.own[q.state().row] == own);
  }
};

template <class Order, class Gate>
class world {
 public:
  using scheduler_type = iteration_scheduler<text_request, Order, preempt::recompute, counting_admit,
                                             kv::groups<groups>, kv::csr_tables, Gate>;
  using limits_type = typename scheduler_type::limits;
  using plan_type = typename scheduler_type::plan_type;

  world(const limits_type& l, const typename scheduler_type::config& c, totals& t)
      : limits_{l}, storage_{storage_for<scheduler_type>(l)}, scheduler_{storage_, with(c, &kv_)}, totals_{t} {
    kv_ = &scheduler_.tables();
    for (const group& g : l.layers) widest_ = std::max(widest_, count(g.block_size));
    device_.assign(l.blocks * widest_, 0);
  }

  [[nodiscard]] scheduler_type& scheduler() { return scheduler_; }
  [[nodiscard]] std::uint64_t digest() const { return digest_; }
  [[nodiscard]] std::size_t in_flight() const { return flights_.size(); }

  void plan(const step_limits& step, bool abandoned) {
    const auto p = scheduler_.plan(now_, step);
    left_rows_.clear();
    flight f{.plan = p, .entries = {}, .copies = {p.copies.begin(), p.copies.end()}};
    for (std::size_t i = 0; i != p.size(); ++i) {
      entry e{.of = p[i], .blocks = {}, .first = {}, .epoch = epoch_};
      for (std::size_t g = 0; g != groups; ++g) {
        const auto& t = p.tables[g].tables;
        const auto begin = t.indices.begin() + t.indptr[i];
        e.blocks[g].assign(begin, t.indices.begin() + t.indptr[i + 1]);
        e.first[g] = p.tables[g].first_block[i];
        REQUIRE(e.first[g] == scheduler_.tables().first_block(g, p[i].row));
        // What is new is at the end of the row, and nobody was told of it before.
        const std::size_t size = scheduler_.tables().table(g).size(p[i].row);
        REQUIRE(p.tables[g].new_blocks[i] <= size);
      }
      f.entries.push_back(e);
    }
    REQUIRE(p.swap_out.empty());
    REQUIRE(p.swap_in.empty());
    REQUIRE(p.fetch.empty());
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

  status submit(text_request& r) {
    const status s = scheduler_.submit(r, now_);
    note(static_cast<std::uint64_t>(s));
    if (s != status::accepted) return s;
    all_.push_back(&r);
    check();
    return s;
  }
  void cancel(text_request& r) {
    r.ended_there = scheduler_.cancel(r) == status::ok || r.ended_there;
    check();
  }
  void suspend_or_resume(text_request& r) {
    const status s = r.state().life == lifecycle::suspended ? scheduler_.resume(r) : scheduler_.suspend(r);
    note(static_cast<std::uint64_t>(s));
    check();
  }
  void preempt(text_request& r) {
    note(static_cast<std::uint64_t>(scheduler_.preempt(r)));
    check();
  }
  /// Another instance would begin anew, too.
  void evacuate_and_adopt(text_request& r) {
    const std::uint32_t row = r.state().row;
    const bool leaves_row = scheduler_.can_abandon() && row != no_index;
    if (scheduler_.evacuate(r) != status::ok) return;
    if (leaves_row) left_rows_.push_back(row);
    r.is_fork = false;
    check();
    const auto p = r.progress();
    REQUIRE(p.computed == 0_tok);
    auto wrong = p;
    wrong.computed = 1_tok;
    if (p.length > 1_tok) REQUIRE(scheduler_.adopt(r, wrong) == status::invalid);
    const status s = scheduler_.adopt(r);
    REQUIRE((s == status::accepted || s == status::queue_full));
    if (s != status::accepted) r.ended_there = true;
    check();
  }
  bool fork(const text_request& parent, text_request& child) {
    const status s = scheduler_.fork(parent, child);
    note(static_cast<std::uint64_t>(s));
    REQUIRE(s != status::invalid);
    if (s == status::ok) {
      all_.push_back(&child);
      ++totals_.forks;
    }
    check();
    return s == status::ok;
  }
  /// It is finished, and its blocks are being copied.
  void drain(text_request& r) {
    const std::uint32_t row = r.state().row;
    std::uint64_t ticket = 0;
    if (scheduler_.finish(r, time_point::never(), ticket) != status::ok) return;
    r.ended_there = true;
    draining_.push_back({ticket, row});
    check();
  }
  void drained() {
    if (draining_.empty()) return;
    const auto [ticket, row] = draining_.front();
    draining_.pop_front();
    REQUIRE(scheduler_.drained(ticket) == status::ok);
    if (scheduler_.can_abandon()) left_rows_.push_back(row);
    check();
  }
  void forget_prefixes() {
    if (scheduler_.forget_prefixes() == status::ok) ++epoch_;
    check();
  }
  [[nodiscard]] std::vector<text_request*> live() const {
    std::vector<text_request*> some;
    for (text_request* r : all_) {
      if (is_live(r->state().life)) some.push_back(r);
    }
    return some;
  }

 private:
  struct entry {
    scheduled<text_request> of;
    std::array<std::vector<std::int32_t>, groups> blocks;
    std::array<std::size_t, groups> first;
    std::uint64_t epoch;
  };
  struct flight {
    plan_type plan;
    std::vector<entry> entries;
    std::vector<kv::block_copy> copies;
  };

  [[nodiscard]] std::uint64_t& slot(const entry& e, std::size_t g, std::size_t position) {
    const std::size_t b = count(limits_.layers[g].block_size);
    REQUIRE(position / b >= e.first[g]);
    REQUIRE(position / b - e.first[g] < e.blocks[g].size());
    const auto id = static_cast<std::size_t>(e.blocks[g][position / b - e.first[g]]);
    REQUIRE(id < limits_.blocks);
    return device_[id * widest_ + (limits_.layers[g].is_recurrent() ? 0 : position % b)];
  }
  /// What the token at `position` looks at is there, in every group.
  void read(const entry& e, const text_request& r, std::size_t position) {
    for (std::size_t g = 0; g != groups; ++g) {
      if (limits_.layers[g].is_recurrent()) {
        if (position != 0) REQUIRE(r.may_read(slot(e, g, position - 1), position - 1));
        continue;
      }
      const std::size_t w = count(limits_.layers[g].window);
      const std::size_t first = w == 0 || position + 1 < w ? 0 : position + 1 - w;
      for (std::size_t p = first; p < position; ++p) REQUIRE(r.may_read(slot(e, g, p), p));
    }
  }

  template <class Draw>
  outcome run(const entry& e, Draw&& draw) {
    text_request& r = *e.of.request;
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
    REQUIRE(first <= count(e.of.first));
    REQUIRE((e.of.samples || first == count(e.of.first)));
    std::size_t end = first + count(e.of.count);
    REQUIRE(end <= r.text.size());
    REQUIRE(e.of.samples == (end == r.text.size()));
    read(e, r, first);
    for (std::size_t p = first; p != end; ++p) {
      for (std::size_t g = 0; g != groups; ++g) slot(e, g, p) = r.written(p);
    }
    r.computed = end;
    if (!e.of.samples) return {};

    const std::size_t drafts = count(e.of.lookahead);
    for (const group& g : limits_.layers) REQUIRE((drafts == 0 || !g.is_recurrent()));
    const std::size_t accepted = static_cast<std::size_t>(draw(drafts + 1));
    totals_.accepted_drafts += accepted;
    totals_.refused_drafts += drafts - accepted;
    for (std::size_t i = 0; i != drafts; ++i) {
      if (i < accepted) {
        r.append(static_cast<std::int32_t>(mix(r.id, r.text.size()) & 0xffffff));
        ++r.computed;
      }
      for (std::size_t g = 0; g != groups; ++g) {
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
      for (std::size_t g = 0; g != groups; ++g) {
        for (const block_id id : scheduler_.tables().blocks_of(g, row)) ++owners[id];
      }
    }
    for (const text_request* r : all_) {
      if (r->state().row == no_index) continue;
      std::int64_t held = 0;
      if (is_victim(*r)) continue;
      for (std::size_t g = 0; g != groups; ++g) {
        for (const block_id id : scheduler_.tables().blocks_of(g, r->state().row)) {
          ++owners[id];
          ++held;
        }
      }
      REQUIRE(scheduler_.blocks_held(*r).count() == held);
    }
    std::size_t used = 0;
    for (std::size_t i = 0; i != owners.size(); ++i) {
      REQUIRE(scheduler_.store().references(static_cast<block_id>(i)) == owners[i]);
      used += owners[i] != 0 ? 1U : 0U;
    }
    REQUIRE(scheduler_.store().free() == limits_.blocks - used);
  }
  /// Of the open plan: it has its row still, and its blocks are gone.
  [[nodiscard]] bool is_victim(const text_request& r) const {
    return scheduler_.can_abandon() && scheduler_.why(r) == wait_reason::preempted &&
           r.state().life == lifecycle::resident;
  }
  /// When nothing is in flight, a window holds what it spans.
  void check_windows() const {
    for (const text_request* r : all_) {
      if (r->state().life != lifecycle::resident || r->state().computed == 0_tok) continue;
      for (std::size_t g = 0; g != groups; ++g) {
        const group& layers = limits_.layers[g];
        const std::size_t held = scheduler_.tables().blocks_of(g, r->state().row).size();
        if (layers.window != 0_tok) REQUIRE(held <= layers.most_blocks(r->state().length));
      }
    }
  }

  static typename scheduler_type::config with(typename scheduler_type::config c, const kv::groups<groups>* const* kv) {
    c.admit.kv = kv;
    return c;
  }

  limits_type limits_;
  const kv::groups<groups>* kv_ = nullptr;
  owned_storage<limits_type> storage_;
  scheduler_type scheduler_;
  totals& totals_;
  std::size_t widest_ = 0;
  std::vector<std::uint64_t> device_;
  std::vector<text_request*> all_;
  std::deque<flight> flights_;
  std::vector<std::uint32_t> left_rows_;  ///< Until no plan is open.
  std::deque<std::pair<std::uint64_t, std::uint32_t>> draining_;
  std::uint64_t epoch_ = 0;
  std::uint64_t digest_ = 0;
  time_point now_{};
};

constexpr std::array<layers_type, 5> models{{
    {group::full(4_tok), group::sliding(4_tok, 13_tok), group::recurrent(8_tok)},
    {group::full(4_tok), group::sliding(2_tok, 7_tok), group::sliding(4_tok, 24_tok)},
    {group::sliding(4_tok, 9_tok), group::full(6_tok), group::recurrent(3_tok)},
    {group::sliding(4_tok, 16_tok), group::sliding(8_tok, 5_tok), group::full(2_tok)},
    {group::recurrent(8_tok), group::recurrent(4_tok), group::sliding(4_tok, 3_tok)},
}};

template <class Order, class Gate>
std::uint64_t one_run(std::uint32_t seed, bool with_abandoned, bool remembers, totals& t) {
  std::mt19937 random{seed};
  std::mt19937 extra{seed + 1};
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };

  using world_type = world<Order, Gate>;
  typename world_type::limits_type l;
  l.layers = models[seed % models.size()];
  l.requests = 12;
  l.blocks = 30 + below(90);
  l.residents = 3 + below(4);
  l.max_length = of(60 + below(60));
  l.plans_in_flight = 1 + seed / models.size() % 3;
  l.deadlines = 2;
  typename world_type::scheduler_type::config c{};
  if constexpr (requires { c.order.quantum; }) c.order.quantum = 5_tok;
  if (below(4) == 0) c.reserve = reservation::whole_sequence;
  c.remember_refusals = remembers;
  world_type w{l, c, t};
  std::deque<text_request> requests;

  const auto submit = [&] {
    text_request& r = requests.emplace_back();
    r.id = requests.size();
    const std::size_t length = 1 + below(count(l.max_length));
    std::size_t common = below(length);
    const std::size_t whose = below(requests.size());
    const bool is_next_turn = below(3) == 0;
    if (is_next_turn) {
      // The next turn of a chat, or a branch of it.
      common = std::min(common + 20, requests[whose].text.size());
      for (std::size_t p = 0; p != common; ++p) r.append(requests[whose].text[p]);
    }
    const std::size_t family = below(2);
    while (r.text.size() < length) {
      const std::uint64_t name = r.text.size() < common ? family : 100 + r.id;
      r.append(static_cast<std::int32_t>(mix(name, r.text.size()) & 0xffffff));
    }
    r.prompt = of(r.text.size());
    r.output = 1 + below(30);
    r.max_output = of(r.output);
    r.hash(l.layers);
    const status s = w.submit(r);
    REQUIRE((s == status::accepted || s == status::queue_full || s == status::never_fits));
  };
  const auto some_limits = [](auto& numbers) {
    step_limits step;
    step.max_batch = 1 + numbers() % 6;
    step.token_budget = of(1 + numbers() % 60);
    step.max_chunk = of(numbers() % 3 == 0 ? 1 + numbers() % 12 : 0);
    step.lookahead = of(numbers() % 2 == 0 ? numbers() % 4 : 0);
    if (numbers() % 8 == 0) step.max_starts = numbers() % 2;
    return step;
  };

  for (int i = 0; i != 200; ++i) {
    const auto live = w.live();
    text_request* const any = live.empty() ? nullptr : live[below(live.size())];
    switch (below(16)) {
      case 0:
      case 1:
      case 2: submit(); break;
      case 3:
        if (any != nullptr && below(2) == 0) w.cancel(*any);
        break;
      case 4:
        if (any != nullptr && (any->state().life == lifecycle::suspended || below(4) == 0)) w.suspend_or_resume(*any);
        break;
      case 5:
        if (any != nullptr && below(2) == 0) w.preempt(*any);
        break;
      case 6: {
        if (any == nullptr || any->state().life != lifecycle::resident) break;
        text_request& child = requests.emplace_back(*any);
        child.id = requests.size();
        child.output += below(10);
        child.max_output = of(child.output);
        child.is_fork = true;
        if (!w.fork(*any, child)) child.ended_there = true;
        break;
      }
      case 7:
        if (below(6) == 0) w.forget_prefixes();
        break;
      case 8:
        if (any != nullptr && below(3) == 0) w.evacuate_and_adopt(*any);
        break;
      case 9:
        if (any != nullptr && below(6) == 0) w.drain(*any);
        break;
      case 10: w.drained(); break;
      default:
        if (w.in_flight() == l.plans_in_flight || (w.in_flight() != 0 && below(3) == 0)) {
          w.commit(below);
          break;
        }
        for (std::size_t n = with_abandoned ? extra() % 3 : 0; n != 0; --n) w.plan(some_limits(extra), true);
        w.plan(some_limits(random), false);
    }
  }
  // With an engine that only ever goes on, everything ends.
  for (int i = 0; i != 4; ++i) w.drained();
  while (w.in_flight() != 0) w.commit(below);
  for (text_request* r : w.live()) {
    if (r->state().life == lifecycle::suspended) w.suspend_or_resume(*r);
  }
  std::size_t left = 100;
  for (const text_request* r : w.live()) left += 20 * (r->text.size() + r->output + 10);
  while (!w.scheduler().idle()) {
    REQUIRE(left-- != 0);
    w.plan({.max_batch = 4, .token_budget = 40_tok}, false);
    if (w.in_flight() == l.plans_in_flight) w.commit(below);
  }
  while (w.in_flight() != 0) w.commit(below);
  REQUIRE(w.scheduler().device_blocks_held() == blocks{});
  return w.digest();
}

template <class Order, class Gate = gate::in_line>
void many_runs() {
  totals t;
  const std::uint32_t seeds = tessera_test::is_slow ? 30 : 150;
  for (std::uint32_t seed = 0; seed != seeds; ++seed) {
    INFO("seed " << seed);
    totals again;
    const std::uint64_t digest = one_run<Order, Gate>(seed, false, true, t);
    REQUIRE(one_run<Order, Gate>(seed, true, true, again) == digest);
    REQUIRE(one_run<Order, Gate>(seed, false, false, again) == digest);
  }
  CHECK(t.hits > seeds);
  CHECK(t.preempted > seeds / 2);
  CHECK(t.forks > seeds / 6);
  CHECK(t.refused_drafts > seeds);
  CHECK(t.accepted_drafts > seeds);
  CHECK(t.finished > seeds);
  CHECK(t.void_entries > seeds / 4);
}

}  // namespace

TEST_CASE("groups: any sequence of operations, fcfs") { many_runs<order::fcfs>(); }
TEST_CASE("groups: any sequence of operations, round_robin") { many_runs<order::round_robin>(); }
TEST_CASE("groups: any sequence of operations, fcfs, backfill") { many_runs<order::fcfs, gate::backfill>(); }
