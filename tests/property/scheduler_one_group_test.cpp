// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A model of one group, full attention, is a model without groups. Two schedulers, one over a prefix cache and one over
// `kv::groups<1>`, are told the same. They must decide the same, down to the last block of each entry. They get drafts,
// forks, plans in flight, plans that are abandoned, and requests that are parked, preempted or cancelled.

#include <tessera/core/owned_storage.hpp>
#include <tessera/gate/backfill.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <vector>

#include "support/catch.hpp"
#include "support/is_slow.hpp"
#include "support/random_limits.hpp"

namespace {

using namespace tessera;
using namespace tessera::literals;

tokens of(std::size_t n) { return tokens{static_cast<std::int64_t>(n)}; }

struct plain_request : request_hook_for<order::round_robin> {
  std::size_t id = 0;
  std::vector<std::uint64_t> hashes;
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};
struct grouped_request : request_hook_for<order::round_robin> {
  std::size_t id = 0;
  std::vector<std::uint64_t> hashes;
  [[nodiscard]] std::array<std::span<const std::uint64_t>, 1> prefix_hashes() const noexcept { return {hashes}; }
};

/// When a request is refused again, one scheduler may remember that there were no blocks. The other looks again and
/// finds that the admission policy holds it back.
wait_reason reason(wait_reason r) { return r == wait_reason::held_back ? wait_reason::no_blocks : r; }

/// What a plan says, in numbers.
template <class Plan>
std::vector<std::uint64_t> told(const Plan& p) {
  std::vector<std::uint64_t> all{p.decode.size(), p.prefill.size(), static_cast<std::uint64_t>(p.computed.count())};
  const auto& tables = [&]() -> const auto& {
    if constexpr (requires { p.tables.indptr; }) {
      return p.tables;
    } else {
      return p.tables[0].tables;
    }
  }();
  for (std::size_t i = 0; i != p.size(); ++i) {
    const auto& e = p[i];
    for (const std::uint64_t n :
         {std::uint64_t{e.request->id}, static_cast<std::uint64_t>(e.first.count()),
          static_cast<std::uint64_t>(e.count.count()), static_cast<std::uint64_t>(e.lookahead.count()),
          std::uint64_t{e.row}, std::uint64_t{e.new_blocks}, std::uint64_t{e.samples},
          static_cast<std::uint64_t>(e.origin), static_cast<std::uint64_t>(tables.last_page_len[i])}) {
      all.push_back(n);
    }
  }
  for (const std::int32_t n : tables.indptr) all.push_back(static_cast<std::uint64_t>(n));
  for (const std::int32_t n : tables.indices) all.push_back(static_cast<std::uint64_t>(n));
  for (const auto& v : p.preempted) all.push_back(1'000'000 + v.request->id);
  for (const auto* r : p.outgrown) all.push_back(2'000'000 + r->id);
  for (const auto& l : p.late) all.push_back(3'000'000 + static_cast<std::uint64_t>(l.what));
  for (const kv::block_copy& c : p.copies) {
    all.push_back(c.from);
    all.push_back(c.to);
  }
  return all;
}

template <class Order, class Gate>
void play(std::uint32_t seed) {
  using plain = iteration_scheduler<plain_request, Order, preempt::recompute, admit::watermark, kv::prefix_cache,
                                    kv::csr_tables, Gate>;
  using grouped = iteration_scheduler<grouped_request, Order, preempt::recompute, admit::watermark, kv::groups<1>,
                                      kv::csr_tables, Gate>;
  std::mt19937 random{seed};
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::size_t block_size = 1 + below(8);
  scheduler_limits l{.requests = 12, .blocks = 20 + below(60), .block_size = of(block_size), .residents = 3 + below(4)};
  l.plans_in_flight = 1 + seed % 4;
  l.deadlines = 4;
  l.max_length = of(40 + below(100));
  typename plain::config pc{};
  typename grouped::config gc{};
  if constexpr (requires { pc.order.quantum; }) pc.order.quantum = gc.order.quantum = 5_tok;
  if (below(4) == 0) pc.reserve = gc.reserve = reservation::whole_sequence;
  if (below(4) == 0) pc.remember_refusals = gc.remember_refusals = false;
  auto plain_storage = storage_for<plain>(l);
  auto grouped_storage = storage_for<grouped>({l, {kv::group::full(l.block_size)}});
  plain p{plain_storage, pc};
  grouped g{grouped_storage, gc};
  std::deque<plain_request> ps;
  std::deque<grouped_request> gs;
  struct flight {
    typename plain::plan_type plain_plan;
    typename grouped::plan_type grouped_plan;
  };
  std::deque<flight> flights;
  time_point now{};

  const auto make = [&] {
    plain_request& a = ps.emplace_back();
    grouped_request& b = gs.emplace_back();
    a.id = b.id = ps.size();
    a.prompt = b.prompt = of(1 + below(80));
    a.max_output = b.max_output = of(1 + below(30));
    a.priority = b.priority = below(5) == 0 ? 1 : 0;
    const std::size_t common = below(10);
    const std::uint64_t family = below(2);
    for (std::size_t i = 0; i != static_cast<std::size_t>(a.prompt / of(block_size)); ++i) {
      const std::uint64_t own = i < common ? family : 100 + a.id;
      a.hashes.push_back((own * 1000 + i + 1) * 0x9e37'79b9'7f4a'7c15ULL);
    }
    b.hashes = a.hashes;
  };
  const auto commit = [&] {
    const flight f = flights.front();
    flights.pop_front();
    std::vector<outcome> outcomes;
    for (std::size_t i = 0; i != f.plain_plan.size(); ++i) {
      outcome o;
      if (f.plain_plan[i].samples) {
        o.produced =
            static_cast<std::uint16_t>(1 + below(1 + static_cast<std::size_t>(f.plain_plan[i].lookahead.count())));
        o.finished = below(20) == 0 || f.plain_plan[i].request->generated() >= f.plain_plan[i].request->max_output;
        o.failed = below(60) == 0;
      }
      outcomes.push_back(o);
    }
    REQUIRE(p.commit(f.plain_plan, outcomes, now) == status::ok);
    REQUIRE(g.commit(f.grouped_plan, outcomes, now) == status::ok);
    now += 1_s;
  };
  const auto compare = [&] {
    REQUIRE(p.waiting_count() == g.waiting_count());
    REQUIRE(p.resident_count() == g.resident_count());
    REQUIRE(p.store().free() == g.store().free());
    REQUIRE(p.store().cached() == g.store().cached());
    for (std::size_t i = 0; i != ps.size(); ++i) {
      const auto& a = ps[i].state();
      const auto& b = gs[i].state();
      REQUIRE(a.life == b.life);
      if (!is_live(a.life)) continue;
      REQUIRE(a.row == b.row);
      REQUIRE(a.length == b.length);
      REQUIRE(a.computed.count() == b.computed.count());
      REQUIRE(a.shared_blocks == b.shared_blocks);
      REQUIRE(reason(p.why(ps[i])) == reason(g.why(gs[i])));
    }
    REQUIRE(p.counters().hit_blocks == g.counters().hit_blocks);
    REQUIRE(p.counters().started == g.counters().started);
    REQUIRE(p.counters().recomputed == g.counters().recomputed);
  };
  const auto both = [&](auto&& call, std::size_t i) {
    const status s = call(p, ps[i]);
    REQUIRE(call(g, gs[i]) == s);
    return s;
  };

  for (int step = 0; step != 300; ++step) {
    const std::size_t any = ps.empty() ? 0 : below(ps.size());
    const std::size_t what = below(18);
    if (what < 3) {
      make();
      both([&](auto& s, auto& r) { return s.submit(r, now); }, ps.size() - 1);
    } else if (!ps.empty() && is_live(ps[any].state().life) && what < 10) {
      const bool fails = below(4) == 0;
      const time_point until = below(3) == 0 ? time_point::never() : now + 3_s;
      switch (what) {
        case 3: both([](auto& s, auto& r) { return s.cancel(r); }, any); break;
        case 4: both([](auto& s, auto& r) { return s.preempt(r); }, any); break;
        case 5: both([](auto& s, auto& r) { return s.suspend(r); }, any); break;
        case 6: both([](auto& s, auto& r) { return s.resume(r); }, any); break;
        case 7:
          both([&](auto& s, auto& r) { return s.park(r, until, fails ? park_end::fails : park_end::ready); }, any);
          break;
        case 8: both([](auto& s, auto& r) { return s.ready(r); }, any); break;
        default: {
          ps.push_back(ps[any]);
          gs.push_back(gs[any]);
          ps.back().id = gs.back().id = ps.size();
          const status s = p.fork(ps[any], ps.back());
          REQUIRE(g.fork(gs[any], gs.back()) == s);
        }
      }
    } else if (what == 10 && below(6) == 0) {
      REQUIRE(p.forget_prefixes() == g.forget_prefixes());
    } else if (what == 11 && !flights.empty() && p.can_abandon()) {
      REQUIRE(p.abandon(flights.back().plain_plan) == status::ok);
      REQUIRE(g.abandon(flights.back().grouped_plan) == status::ok);
      flights.pop_back();
    } else if (flights.size() == l.plans_in_flight || (!flights.empty() && below(3) == 0)) {
      commit();
    } else {
      const step_limits s = tessera_test::random_limits(below);
      flights.push_back({p.plan(now, s), g.plan(now, s)});
      REQUIRE(told(flights.back().plain_plan) == told(flights.back().grouped_plan));
    }
    compare();
  }
  while (!flights.empty()) commit();
  for (std::size_t i = 0; i != ps.size(); ++i) {
    if (is_live(ps[i].state().life)) both([](auto& s, auto& r) { return s.cancel(r); }, i);
  }
  compare();
}

template <class Order, class Gate = gate::in_line>
void many() {
  for (std::uint32_t seed = 0; seed != (tessera_test::is_slow ? 40 : 400); ++seed) {
    INFO("seed " << seed);
    play<Order, Gate>(seed);
  }
}

}  // namespace

TEST_CASE("one group: decides as the block store alone, fcfs") { many<order::fcfs>(); }
TEST_CASE("one group: decides as the block store alone, round_robin") { many<order::round_robin>(); }
TEST_CASE("one group: decides as the block store alone, backfill") { many<order::fcfs, gate::backfill>(); }
