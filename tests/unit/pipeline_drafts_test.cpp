// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// How many drafts a request has in a step. Where their slots come from, and when they go, is in
// pipeline_lookahead_test.cpp.

#include <tessera/draft/per_request.hpp>
#include <tessera/draft/unless_busy.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/catch.hpp"
#include "support/step_engine.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : tessera_test::prompt_request<> {
  tokens drafts{};
};
template <class Draft>
using engine_of = tessera_test::step_engine<iteration_scheduler<request, order::fcfs, preempt::swap, admit::watermark,
                                                                kv::block_pool, kv::csr_tables, gate::in_line, Draft>>;

constexpr scheduler_limits roomy{.blocks = 64, .block_size = 4_tok, .residents = 8, .max_length = 120_tok};

template <class Plan>
std::vector<std::int64_t> drafts_of(const Plan& p) {
  std::vector<std::int64_t> n;
  for (std::size_t i = 0; i != p.size(); ++i) n.push_back(p[i].lookahead.count());
  return n;
}

}  // namespace

TEST_CASE("drafts: each request has what it says, no more than the step allows and the budget lasts for") {
  engine_of<draft::per_request> e{roomy};
  for (const std::int64_t n : {3, 0, -2, 9, 2}) e.submit(4, 50).drafts = tokens{n};
  e.step();
  using list = std::vector<std::int64_t>;
  const auto with = [&](const step_limits& l) {
    const auto p = e.plan(l);
    CHECK(p.computed == 5_tok);
    list n = drafts_of(p);
    e.abandon(p);
    return n;
  };
  CHECK(with({}) == list{0, 0, 0, 0, 0});
  CHECK(with({.lookahead = 20_tok}) == list{3, 0, 0, 9, 2});
  CHECK(with({.lookahead = 4_tok}) == list{3, 0, 0, 4, 2});
  CHECK(with({.token_budget = 10_tok, .lookahead = 20_tok}) == list{3, 0, 0, 2, 0});
  CHECK(with({.token_budget = 5_tok, .lookahead = 20_tok}) == list{0, 0, 0, 0, 0});

  // It is another number in each step, and the tables have room for it.
  for (std::int64_t step = 0; step != 6; ++step) {
    for (request& r : e.requests) r.drafts = tokens{step};
    const auto p = e.plan({.lookahead = 5_tok});
    CHECK(drafts_of(p) == list(5, step));
    std::vector<outcome> outcomes;
    for (std::size_t i = 0; i != p.size(); ++i) {
      CHECK(e.scheduler.blocks_held(*p[i].request) >= blocks_for(p[i].first + 1_tok + tokens{step}, 4_tok));
      outcomes.push_back({.produced = static_cast<std::uint16_t>(1 + step / 2)});
    }
    e.commit(p, outcomes);
    for (const request& r : e.requests) {
      CHECK(e.scheduler.blocks_held(r) == blocks_for(r.state().computed, 4_tok));
    }
  }
}

TEST_CASE("drafts: none from so many requests in the step on, or where so many wait") {
  using policy = draft::unless_busy<>;
  const policy p{.batch = 4, .tokens_for_free = 20_tok, .waiting = 2};
  request r;
  CHECK(p.drafts(r, {.batch = 3, .waiting = 1, .in_step = 3_tok, .most = 5_tok}) == 5_tok);
  CHECK(p.drafts(r, {.batch = 4, .waiting = 1, .in_step = 3_tok, .most = 5_tok}) == 0_tok);
  CHECK(p.drafts(r, {.batch = 3, .waiting = 2, .in_step = 3_tok, .most = 5_tok}) == 0_tok);
  CHECK(p.drafts(r, {.batch = 3, .waiting = 1, .in_step = 17_tok, .most = 5_tok}) == 3_tok);
  CHECK(p.drafts(r, {.batch = 3, .waiting = 1, .in_step = 20_tok, .most = 5_tok}) == 0_tok);
  CHECK(p.drafts(r, {.batch = 3, .waiting = 1, .in_step = 90_tok, .most = 5_tok}) == 0_tok);
  const draft::unless_busy<draft::per_request> q{.batch = 4, .tokens_for_free = 20_tok};
  r.drafts = 4_tok;
  CHECK(q.drafts(r, {.batch = 3, .in_step = 3_tok, .most = 5_tok}) == 4_tok);
  CHECK(q.drafts(r, {.batch = 3, .in_step = 18_tok, .most = 5_tok}) == 2_tok);

  // As the load comes and goes.
  engine_of<policy> e{roomy, {.draft = {.batch = 3, .tokens_for_free = 8_tok, .waiting = 4}}};
  e.submit(4, 40);
  e.step();
  const step_limits l{.max_batch = 4, .lookahead = 5_tok};
  using list = std::vector<std::int64_t>;
  const auto next = [&] {
    const auto p = e.plan(l);
    list n = drafts_of(p);
    e.commit(p);
    return n;
  };
  CHECK(next() == list{5});
  request& second = e.submit(2, 40);
  CHECK(next() == list{5, 0});  // three are computed, five drafts: that is all for free
  CHECK(next() == list{5, 1});
  request& third = e.submit(2, 40);
  CHECK(next() == list{0, 0, 0});
  CHECK(next() == list{0, 0, 0});
  e.scheduler.cancel(third);
  CHECK(next() == list{5, 1});
  e.scheduler.cancel(second);
  for (int i = 0; i != 4; ++i) e.submit(110, 1);
  CHECK(next()[0] == 0);  // there are blocks for one of them, but four wait
}

TEST_CASE("drafts: a policy gives and takes nothing else: which request computes what stays as it is") {
  for (unsigned seed = 1; seed != 10; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    const auto below = [&](std::size_t n) { return static_cast<std::int64_t>(random() % n); };
    const scheduler_limits limits{.blocks = 40, .block_size = 4_tok, .residents = 6, .max_length = 100_tok};
    engine_of<draft::unless_busy<draft::per_request>> with{
        limits, {.draft = {.batch = 5, .tokens_for_free = 30_tok, .waiting = 3}}};
    engine_of<draft::same_for_all> without{limits};
    std::size_t given = 0;
    for (int step = 0; step != 300; ++step) {
      if (below(4) == 0) {
        const std::int64_t prompt = 1 + below(40);
        const std::int64_t output = 1 + below(30);
        with.submit(prompt, output);
        without.submit(prompt, output);
      }
      for (request& r : with.requests) r.drafts = tokens{below(6)};
      const step_limits l{.token_budget = 40_tok};
      step_limits drafting = l;
      drafting.lookahead = 4_tok;
      const auto p = with.plan(drafting);
      const auto q = without.plan(l);
      REQUIRE(p.size() == q.size());
      tokens run{};
      for (std::size_t i = 0; i != p.size(); ++i) {
        REQUIRE(p[i].first == q[i].first);
        REQUIRE(p[i].count == q[i].count);
        REQUIRE(p[i].lookahead <= min(p[i].request->drafts, 4_tok));
        run += p[i].lookahead;
        given += p[i].lookahead > 0_tok ? 1U : 0U;
      }
      REQUIRE((run == 0_tok || p.computed + run <= 30_tok));
      if (p.size() >= 5) REQUIRE(run == 0_tok);
      with.commit(p);
      without.commit(q);
      REQUIRE(with.scheduler.device_blocks_held() == without.scheduler.device_blocks_held());
    }
    CHECK(given > 50);
  }
}

TEST_CASE("drafts: two steps in flight verify as many tokens in order, whatever is refused") {
  for (unsigned seed = 1; seed != 20; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    scheduler_limits limits = roomy;
    limits.plans_in_flight = 2;
    engine_of<draft::per_request> e{limits};
    for (int i = 0; i != 5; ++i) e.submit(4 + i, 60);
    std::vector<std::int64_t> on_device;  // how long each is where it runs
    for (const request& r : e.requests) on_device.push_back(r.prompt.count());
    std::deque<step_plan<request>> flights;
    std::deque<std::vector<outcome>> came;
    for (int step = 0; step != 60; ++step) {
      for (request& r : e.requests) r.drafts = tokens{static_cast<std::int64_t>(random() % 5)};
      flights.push_back(e.plan({.lookahead = 4_tok}));
      came.emplace_back();
      for (std::size_t i = 0; i != flights.back().size(); ++i) {
        const auto& x = flights.back()[i];
        std::size_t n = 0;
        while (&e.requests[n] != x.request) ++n;
        // The plan may think it further than it is, never less.
        const std::int64_t refused = (x.first + x.count).count() - on_device[n];
        REQUIRE(refused >= 0);
        REQUIRE(refused <= 4);
        const auto produced =
            static_cast<std::uint16_t>(1 + random() % (1 + static_cast<unsigned>(x.lookahead.count())));
        on_device[n] += produced;
        came.back().push_back({.produced = produced, .finished = on_device[n] >= x.request->prompt.count() + 40});
      }
      if (flights.size() != 2) continue;
      e.commit(flights.front(), came.front());
      flights.pop_front();
      came.pop_front();
      for (std::size_t i = 0; i != e.requests.size(); ++i) {
        const request& r = e.requests[i];
        if (r.state().life != lifecycle::resident || r.state().ends_as != lifecycle::idle) continue;
        REQUIRE(r.state().length.count() <= on_device[i]);
        REQUIRE(r.state().reach().count() >= on_device[i]);
      }
    }
    e.commit(flights.front(), came.front());
    for (const request& r : e.requests) CHECK(r.state().life == lifecycle::finished);
    CHECK(e.scheduler.device_blocks_held() == blocks{0});
  }
}
