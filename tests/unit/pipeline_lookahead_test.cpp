// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// KV slots for speculative tokens: where blocks are free and the budget lasts, at no request's cost, and no longer than
// the step.

#include <tessera/order/round_robin.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>

#include "support/catch.hpp"
#include "support/step_engine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

using request = tessera_test::prompt_request<request_hook_for<order::round_robin>>;
template <class Order = order::fcfs, class Admit = admit::watermark>
using engine_of = tessera_test::step_engine<iteration_scheduler<request, Order, preempt::recompute, Admit>>;

/// One block of the CSR arrays: tokens that entry `i` has slots for.
std::int64_t slots(const kv::csr_view& v, std::size_t i, std::int64_t block_size) {
  return (v.indptr[i + 1] - v.indptr[i] - 1) * block_size + v.last_page_len[i];
}

}  // namespace

TEST_CASE("lookahead: drafts that are never accepted cost nothing: no eviction, no step, no token") {
  struct result {
    std::size_t steps, preemptions;
    tokens computed;
    bool operator==(const result&) const = default;
  };
  const auto run = [](std::int64_t lookahead) {
    engine_of<> e{{.blocks = 56, .block_size = 4_tok, .residents = 8, .max_length = 200_tok}};
    for (int i = 0; i != 8; ++i) e.submit(16, 4 + 2 * i);
    e.run_out({.max_batch = 8, .token_budget = 1000_tok, .lookahead = tokens{lookahead}});
    return result{e.steps, e.preemptions, e.computed};
  };
  const result without = run(0);
  for (const std::int64_t lookahead : {1, 4, 8, 16, 1000}) {
    CAPTURE(lookahead);
    CHECK(run(lookahead) == without);
  }
}

TEST_CASE("lookahead: the next request starts no later for it, and finds the blocks back") {
  for (const std::int64_t lookahead : {0, 32}) {
    CAPTURE(lookahead);
    const step_limits limits{.max_batch = 8, .lookahead = tokens{lookahead}};
    engine_of<> e{{.blocks = 32, .block_size = 4_tok, .residents = 8, .max_length = 120_tok}};
    request& first = e.submit(40, 50);
    const auto p = e.plan(limits);
    CHECK(p[0].lookahead == tokens{lookahead});
    CHECK(e.scheduler.blocks_held(first) == blocks_for(40_tok + tokens{lookahead}, 4_tok));
    e.commit(p);
    CHECK(e.scheduler.blocks_held(first) == blocks_for(first.state().computed, 4_tok));
    request& second = e.submit(60, 1);
    e.step(limits);
    CHECK(second.state().life == lifecycle::finished);
  }
}

TEST_CASE("lookahead: within the budget, after all that compute had their turn; in the tables; not in `computed`") {
  engine_of<> e{{.blocks = 64, .block_size = 4_tok, .residents = 8, .max_length = 200_tok}};
  for (int i = 0; i != 4; ++i) e.submit(8, 100);
  e.step({.max_batch = 8, .lookahead = 6_tok});
  for (const std::int64_t budget : {4, 5, 12, 28, 1000}) {
    CAPTURE(budget);
    const auto p = e.plan({.max_batch = 8, .token_budget = tokens{budget}, .lookahead = 6_tok});
    REQUIRE(p.decode.size() == 4);
    CHECK(p.computed == 4_tok);
    tokens left = tokens{budget} - 4_tok;
    for (std::size_t i = 0; i != p.size(); ++i) {
      CHECK(p[i].lookahead == min(left, 6_tok));  // in rank order
      left -= p[i].lookahead;
      CHECK(slots(p.tables, i, 4) == (p[i].first + p[i].count + p[i].lookahead).count());
      CHECK(e.scheduler.blocks_held(*p[i].request) >= blocks_for(p[i].first + p[i].count + p[i].lookahead, 4_tok));
    }
    e.abandon(p);
  }
}

TEST_CASE("lookahead: no more than the request can still generate, and only for one that samples") {
  engine_of<> e{{.blocks = 64, .block_size = 4_tok, .residents = 8, .max_length = 60_tok}};
  request& three = e.submit(8, 3);
  request& long_one = e.submit(30, 0);
  auto p = e.plan({.token_budget = 20_tok, .lookahead = 6_tok});
  REQUIRE(p.prefill.size() == 2);
  CHECK(p.prefill[0].lookahead == 0_tok);  // the budget is spent
  CHECK_FALSE(p.prefill[1].samples);
  CHECK(p.prefill[1].lookahead == 0_tok);
  e.abandon(p);
  p = e.plan({.token_budget = 30_tok, .max_chunk = 10_tok, .lookahead = 6_tok});
  CHECK(p.prefill[0].lookahead == 2_tok);  // three in all
  CHECK(p.prefill[1].lookahead == 0_tok);
  e.commit(p);
  p = e.plan({.lookahead = 6_tok});
  REQUIRE(p.decode.size() == 1);
  CHECK(p.decode[0].request == &three);
  CHECK(p.decode[0].lookahead == 1_tok);
  e.commit(p, std::vector{outcome{.produced = 2, .finished = true}, outcome{}});
  CHECK(three.generated() == 3_tok);
  // At the end of the context, which has 60 tokens with KV.
  while (long_one.state().length != 58_tok) e.step();
  p = e.plan({.lookahead = 6_tok});
  CHECK(p.decode[0].lookahead == 2_tok);
  e.commit(p, std::vector{outcome{.produced = 3}});
  CHECK(long_one.state().length == 61_tok);
  CHECK(long_one.state().computed == 60_tok);
}

TEST_CASE("lookahead: what was produced keeps its blocks, the rest is given back at once") {
  engine_of<> e{{.blocks = 64, .block_size = 4_tok, .residents = 8, .max_length = 200_tok}};
  request& r = e.submit(8, 0);
  e.step();
  for (const int produced : {1, 7, 3, 8, 1, 5}) {
    const auto p = e.plan({.lookahead = 7_tok});
    const auto before = e.row(r);
    const tokens first = p[0].first;
    CHECK(first == r.state().length - 1_tok);
    e.commit(p, std::vector{outcome{.produced = static_cast<std::uint16_t>(produced)}});
    CHECK(r.state().computed == first + tokens{produced});
    CHECK(r.state().length == first + tokens{produced + 1});
    const auto after = e.row(r);
    CHECK(blocks{static_cast<std::int64_t>(after.size())} == blocks_for(r.state().computed, 4_tok));
    CHECK(std::equal(after.begin(), after.end(), before.begin()));
    CHECK(e.scheduler.device_blocks_held() == blocks{static_cast<std::int64_t>(after.size())});
  }
}

TEST_CASE("lookahead: an engine with tables that only grow keeps the blocks, and is told of each once") {
  for (const std::size_t in_flight : {1U, 2U}) {
    CAPTURE(in_flight);
    engine_of<> e{
        {.blocks = 64, .block_size = 4_tok, .residents = 8, .max_length = 200_tok, .plans_in_flight = in_flight},
        {.keep_draft_blocks = true}};
    request& r = e.submit(8, 100);
    e.step();
    std::vector<kv::block_id> told{e.row(r)};
    std::mt19937 random{7};
    std::size_t refused = 0;
    std::deque<decltype(e.plan())> flying;
    while (r.generated() < 80_tok) {
      const auto p = e.plan({.lookahead = 7_tok});
      REQUIRE(p.size() == 1);
      const auto row = e.row(r);
      REQUIRE(row.size() == told.size() + p[0].new_blocks);
      REQUIRE(std::equal(told.begin(), told.end(), row.begin()));
      REQUIRE(tokens{static_cast<std::int64_t>(row.size()) * 4} >= p[0].first + p[0].count + p[0].lookahead);
      told.assign(row.begin(), row.end());
      flying.push_back(p);
      if (flying.size() < in_flight) continue;
      const auto produced = static_cast<std::uint16_t>(1 + random() % 8);
      const auto most = static_cast<std::uint16_t>(1 + flying.front()[0].lookahead.count());
      refused += produced < most ? 1U : 0U;
      e.commit(flying.front(), std::vector{outcome{.produced = std::min(produced, most)}});
      flying.pop_front();
      REQUIRE(e.row(r).size() == told.size());
    }
    CHECK(refused > 10);
    CHECK(e.scheduler.device_blocks_held() == blocks{static_cast<std::int64_t>(told.size())});
    e.scheduler.cancel(r);
    while (!flying.empty()) {
      e.commit(flying.front(), std::vector{outcome{}});
      flying.pop_front();
    }
    CHECK(e.scheduler.device_blocks_held() == 0_blk);
  }
}

TEST_CASE("lookahead: with and without drafts the same requests do the same, over random loads") {
  for (unsigned seed = 1; seed != 13; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    const auto below = [&](std::size_t n) { return static_cast<std::int64_t>(random() % n); };
    using engine = engine_of<order::round_robin>;
    const scheduler_limits limits{.blocks = 40, .block_size = 4_tok, .residents = 6, .max_length = 100_tok};
    engine with{limits, {.order = {.quantum = 6_tok}}};
    engine without{limits, {.order = {.quantum = 6_tok}}};
    const auto number = [](const engine& e, const request& r) {
      std::size_t i = 0;
      while (&e.requests[i] != &r) ++i;
      return i;
    };
    std::size_t drafts = 0;
    std::size_t preempted = 0;
    for (int step = 0; step != 400; ++step) {
      if (below(3) == 0) {
        const std::int64_t prompt = 1 + below(40);
        const std::int64_t output = 1 + below(30);
        const int priority = static_cast<int>(below(3));
        with.submit(prompt, output, priority);
        without.submit(prompt, output, priority);
      }
      step_limits l{.max_batch = static_cast<std::size_t>(1 + below(6)), .token_budget = tokens{1 + below(60)}};
      const auto q = without.plan(l);
      l.lookahead = tokens{1 + below(12)};
      const auto p = with.plan(l);
      REQUIRE(p.size() == q.size());
      tokens run{};
      for (std::size_t i = 0; i != p.size(); ++i) {
        REQUIRE(number(with, *p[i].request) == number(without, *q[i].request));
        REQUIRE(p[i].first == q[i].first);
        REQUIRE(p[i].count == q[i].count);
        run += p[i].count + p[i].lookahead;
        drafts += p[i].lookahead > 0_tok ? 1U : 0U;
        REQUIRE(slots(p.tables, i, 4) == (p[i].first + p[i].count + p[i].lookahead).count());
      }
      REQUIRE(run <= l.token_budget);
      REQUIRE(p.computed == q.computed);
      REQUIRE(p.preempted.size() == q.preempted.size());
      preempted += p.preempted.size();
      for (std::size_t i = 0; i != with.requests.size(); ++i) {
        REQUIRE(with.why(with.requests[i]) == without.why(without.requests[i]));
      }
      with.commit(p);
      without.commit(q);
      REQUIRE(with.scheduler.device_blocks_held() == without.scheduler.device_blocks_held());
    }
    CHECK(drafts > 100);
    CHECK(preempted > 5);
  }
}
