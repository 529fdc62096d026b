// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Backfilled requests delay no other request. Two schedulers get one sequence of requests; in one of them requests may
// pass the first that waits. Until a request that has passed would have had its turn anyway, all others compute the
// same in both, step by step. So each request that is first in the queue and blocked starts no later for it. After that
// the two are different loads, and the one that is no longer compared runs to its end.

#include <tessera/admit/future_peak.hpp>
#include <tessera/gate/backfill.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>

#include "support/catch.hpp"
#include "support/is_slow.hpp"
#include "support/step_engine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <tuple>
#include <vector>

namespace {

using namespace tessera;

struct request : tessera_test::prompt_request<request_hook_for<order::ranked<>, order::round_robin>> {
  std::size_t id = 0;
  float score = 0;
};

template <class Order, class Admit, class Gate>
using engine_of = tessera_test::step_engine<
    iteration_scheduler<request, Order, preempt::recompute, Admit, kv::block_pool, kv::csr_tables, Gate>>;

/// Every request that fits may pass, however long it stays: the promise does not rest on which requests the gate lets
/// in.
struct whoever_fits {
  static constexpr bool backfills = true;
  std::size_t most_skipped = 8;
  template <schedulable R>
  [[nodiscard]] passage ask(const R& /*candidate*/, const gate_view<R>& view) const noexcept {
    return view.needed <= view.free ? passage::start : passage::skip;
  }
};

struct arrival {
  std::size_t step;
  std::int64_t prompt, output, max_output;
  int priority;
  float score;
};

struct scenario {
  scheduler_limits limits;
  reservation reserve;
  bool chunked;
  double watermark;
  std::int64_t quantum;
  std::vector<arrival> arrivals;
  std::vector<step_limits> steps;  ///< Again and again.
};

scenario make(unsigned seed) {
  std::mt19937 random{seed};
  const auto upto = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % (static_cast<std::uint32_t>(n) + 1));
  };
  scenario s{};
  s.limits.blocks = static_cast<std::size_t>(8 + upto(32));
  s.limits.block_size = tokens{1 + upto(5)};
  s.limits.residents = static_cast<std::size_t>(3 + upto(7));
  s.reserve = upto(3) == 0 ? reservation::whole_sequence : reservation::by_chunk;
  s.chunked = upto(4) != 0;
  s.watermark = 0.05 * static_cast<double>(upto(3));
  s.quantum = 1 + upto(12);
  const std::int64_t longest = s.limits.longest().count();
  const std::int64_t large_in = 2 + upto(4);
  const std::int64_t gap = upto(6);
  std::size_t at = 0;
  for (int i = 0; i != 24; ++i) {
    arrival a{};
    at += static_cast<std::size_t>(upto(gap));
    a.step = at;
    const std::int64_t most = upto(large_in) == 0 ? longest - 1 : longest / 4;
    a.prompt = 1 + upto(std::max<std::int64_t>(most - 1, 0));
    a.max_output = 1 + upto(std::min(longest - a.prompt, longest / 3 + 4));
    a.output = upto(2) == 0 ? a.max_output : 1 + upto(a.max_output - 1);
    a.priority = upto(5) == 0 ? 1 : 0;
    a.score = static_cast<float>(upto(10));
    s.arrivals.push_back(a);
  }
  for (int i = 0; i != 7; ++i) {
    step_limits l{};
    l.max_batch = static_cast<std::size_t>(1 + upto(upto(2) == 0 ? 3 : 12));
    l.token_budget = tokens{1 + upto(upto(2) == 0 ? 8 : longest)};
    l.max_chunk = tokens{upto(1) == 0 ? 0 : 1 + upto(12)};
    s.steps.push_back(l);
  }
  return s;
}

/// What happened, over all seeds.
struct tally {
  std::size_t backfilled = 0;          ///< Requests that passed.
  std::size_t blocked = 0;             ///< Requests that were first in the queue, blocked, and compared at their start.
  std::size_t blocked_steps = 0;       ///< Steps in which a request was, and others could have passed.
  std::size_t evicted_backfilled = 0;  ///< Requests that had passed, and were evicted.
  std::size_t evicted_others = 0;      ///< Other requests that lost their blocks meanwhile.
  std::int64_t tokens_in_line = 0;     ///< Computed in those steps if no request may pass,
  std::int64_t tokens_passing = 0;     ///< or if some may.
};

template <class Order, class Admit, class Gate>
class side {
 public:
  using engine = engine_of<Order, Admit, Gate>;
  using share = std::tuple<std::size_t, std::int64_t, std::int64_t>;

  explicit side(const scenario& s) : engine_{s.limits, config_of(s)} {}

  void submit(const arrival& a) {
    request& r = engine_.add(a.prompt, a.output, a.priority);
    r.id = engine_.requests.size() - 1;
    r.max_output = tokens{a.max_output};
    r.score = a.score;
    engine_.submit(r);
  }
  void plan(const step_limits& l) {
    plan_ = engine_.plan(l);
    in_plan_.assign(engine_.requests.size(), false);
    for (std::size_t i = 0; i != plan_.size(); ++i) in_plan_[plan_[i].request->id] = true;
    line_.clear();
    for (const request& r : engine_.requests) {
      if (r.state().life == lifecycle::waiting) line_.push_back(&r);
    }
    std::sort(line_.begin(), line_.end(), [](const request* a, const request* b) { return Order::before(*a, *b); });
    const auto first = std::find_if(line_.begin(), line_.end(), [&](const request* r) { return !in_plan_[r->id]; });
    first_ = first == line_.end() ? nullptr : *first;
    backfilled_.assign(engine_.requests.size(), false);
    for (auto r = first; r != line_.end(); ++r) backfilled_[(*r)->id] = in_plan_[(*r)->id];
    for (const request& r : engine_.requests) {
      if (r.state().backfilled) backfilled_[r.id] = true;
    }
  }
  void commit() { engine_.commit(plan_); }
  [[nodiscard]] bool idle() const { return engine_.scheduler.idle(); }

  [[nodiscard]] const auto& latest() const { return plan_; }
  [[nodiscard]] bool in_plan(std::size_t id) const { return in_plan_[id]; }
  /// Passes in the plan, or has passed and gives way.
  [[nodiscard]] bool is_backfilled(std::size_t id) const { return backfilled_[id]; }
  /// Has begun, or begins in the plan.
  [[nodiscard]] bool has_started(std::size_t id) const {
    const auto& s = engine_.requests[id].state();
    return s.life != lifecycle::waiting || s.preemptions != 0 || in_plan_[id];
  }
  [[nodiscard]] const request& at(std::size_t id) const { return engine_.requests[id]; }
  /// The requests that waited before the plan, in order.
  [[nodiscard]] const std::vector<const request*>& line() const { return line_; }
  /// The first of them that does not start; null: all do.
  [[nodiscard]] const request* first() const { return first_; }
  [[nodiscard]] bool is_blocked() const {
    if (first_ == nullptr) return false;
    const wait_reason why = engine_.why(*first_);
    return why == wait_reason::no_blocks || why == wait_reason::held_back;
  }
  /// Which request computes what, and which loses its blocks, without the backfilled ones.
  [[nodiscard]] std::vector<share> ordinary() const {
    std::vector<share> out;
    for (std::size_t i = 0; i != plan_.size(); ++i) {
      const auto& e = plan_[i];
      if (!backfilled_[e.request->id]) out.emplace_back(e.request->id, e.first.count(), e.count.count());
    }
    for (const auto& v : plan_.preempted) {
      if (!backfilled_[v.request->id]) out.emplace_back(v.request->id, -1, -1);
    }
    return out;
  }

 private:
  static typename engine::plan_type no_plan() { return {}; }
  static auto config_of(const scenario& s) {
    typename iteration_scheduler<request, Order, preempt::recompute, Admit, kv::block_pool, kv::csr_tables,
                                 Gate>::config c{.chunked_prefill = s.chunked, .reserve = s.reserve};
    if constexpr (requires { c.admit.fraction; }) c.admit.fraction = s.watermark;
    if constexpr (requires { c.order.quantum; }) c.order.quantum = tokens{s.quantum};
    if constexpr (requires { c.order.threshold; }) c.order.threshold = duration::forever();  // no request ages
    return c;
  }

  engine engine_;
  typename engine::plan_type plan_ = no_plan();
  std::vector<bool> in_plan_, backfilled_;
  std::vector<const request*> line_;
  const request* first_ = nullptr;
};

template <class Order, class Admit, class Gate>
void play(unsigned seed, tally& all) {
  const scenario s = make(seed);
  side<Order, Admit, gate::in_line> strict{s};
  side<Order, Admit, Gate> passing{s};
  std::vector<bool> passed(s.arrivals.size()), was_first(s.arrivals.size()), owes(s.arrivals.size());
  bool same_load = true;
  std::size_t next = 0;
  for (std::size_t step = 0; next != s.arrivals.size() || !passing.idle(); ++step) {
    if (step == 20'000) FAIL("not everything ends, seed " << seed);
    for (; next != s.arrivals.size() && s.arrivals[next].step <= step; ++next) {
      if (same_load) strict.submit(s.arrivals[next]);
      passing.submit(s.arrivals[next]);
    }
    const step_limits& limits = s.steps[step % s.steps.size()];
    passing.plan(limits);

    // A request that passes has lost nothing, or has made up for it.
    for (const request* r : passing.line()) {
      if (!passing.is_backfilled(r->id)) continue;
      if (owes[r->id] || r->state().restarted)
        FAIL("a request that starts again is backfilled, seed " << seed << ", step " << step);
      all.backfilled += 1;
      passed[r->id] = true;
    }
    for (const auto& v : passing.latest().preempted) {
      if (owes[v.request->id]) FAIL("evicted twice without a token between, seed " << seed << ", step " << step);
      owes[v.request->id] = true;
      (passing.is_backfilled(v.request->id) ? all.evicted_backfilled : all.evicted_others) += 1;
    }
    for (std::size_t i = 0; i != passing.latest().size(); ++i) {
      const auto& e = passing.latest()[i];
      if (e.samples) owes[e.request->id] = false;
    }

    if (same_load) {
      strict.plan(limits);
      const request* first = strict.first();
      // Every request that starts, and waits behind none that has passed, has started with backfilling, too.
      for (const request* r : strict.line()) {
        if (r == first || passed[r->id]) break;
        if (!passing.has_started(r->id)) FAIL("request " << r->id << " is delayed, seed " << seed << ", step " << step);
        all.blocked += was_first[r->id] ? 1U : 0U;
        was_first[r->id] = false;
      }
      // A request that has passed has its turn: from here on the loads differ.
      for (std::size_t id = 0; id != next; ++id) {
        if (!passed[id]) continue;
        const bool settled = passing.in_plan(id) && !passing.is_backfilled(id);
        const bool resident = passing.at(id).state().life == lifecycle::resident && !passing.is_backfilled(id);
        const bool has_turn = strict.in_plan(id) || (first != nullptr && first->id == id);
        if (settled || resident || has_turn) same_load = false;
      }
      if (same_load) {
        if (strict.ordinary() != passing.ordinary()) {
          FAIL("backfilled requests change what others compute, seed " << seed << ", step " << step);
        }
        if (strict.is_blocked()) {
          was_first[first->id] = true;
          ++all.blocked_steps;
          all.tokens_in_line += strict.latest().computed.count();
          all.tokens_passing += passing.latest().computed.count();
        }
      }
      strict.commit();
    }
    passing.commit();
  }
}

template <class Order, class Admit = admit::watermark>
void compare() {
  tally all{};
  tally any{};
  constexpr unsigned seeds = tessera_test::is_slow ? 250 : 2500;
  for (unsigned seed = 0; seed != seeds; ++seed) {
    play<Order, Admit, gate::backfill>(seed, all);
    play<Order, Admit, whoever_fits>(seed, any);
  }
  for (const tally& t : {all, any}) {
    CAPTURE(t.backfilled, t.blocked, t.blocked_steps, t.evicted_backfilled, t.evicted_others, t.tokens_in_line,
            t.tokens_passing);
    CHECK(t.backfilled > seeds * 1000 / 2500);
    CHECK(t.blocked > seeds * 1000 / 2500);
    CHECK(t.evicted_backfilled > seeds * 100 / 2500);
    CHECK(t.evicted_others > seeds * 1000 / 2500);
    CHECK(static_cast<double>(t.tokens_passing) > 1.2 * static_cast<double>(t.tokens_in_line));
  }
}

}  // namespace

TEST_CASE("backfill does not delay the first in line: fcfs") { compare<order::fcfs>(); }
TEST_CASE("backfill does not delay the first in line: fcfs, by future peaks") {
  compare<order::fcfs, admit::future_peak>();
}
TEST_CASE("backfill does not delay the first in line: ranked") { compare<order::ranked<>>(); }
TEST_CASE("backfill does not delay the first in line: round_robin") { compare<order::round_robin>(); }
