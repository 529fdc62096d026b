// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Plans that sample for one request are some plans apart: an engine with pipeline parallelism. Random sequences of
// everything are in tests/property.

#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/catch.hpp"
#include "unit/pipeline_plans_in_flight.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using tessera_test::in_flight::engine_of;
using tessera_test::in_flight::flights;
using tessera_test::in_flight::request;
using tessera_test::in_flight::run_random;
using tessera_test::in_flight::stages;

template <class Plan>
bool has(const Plan& p, const request& r) {
  for (std::size_t i = 0; i != p.size(); ++i) {
    if (p[i].request == &r) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("plans apart: a request with a token to come is passed over, and the others go on") {
  engine_of<> e{stages(2, 2)};
  request& a = e.submit(8, 10);
  request& b = e.submit(4, 10);
  const auto first = e.plan({.max_batch = 1});
  REQUIRE(first.size() == 1);
  CHECK(first[0].samples);
  const auto second = e.plan();
  REQUIRE(second.size() == 1);
  CHECK(second[0].request == &b);
  CHECK(e.why(a) == wait_reason::in_flight);
  e.commit(first);
  const auto third = e.plan();
  REQUIRE(third.decode.size() == 1);
  CHECK(third[0].request == &a);
  CHECK(third[0].first == 8_tok);
  CHECK(a.state().length == 9_tok);  // its last token is known
  CHECK(e.why(b) == wait_reason::in_flight);
  e.commit(second);
  e.commit(third);
  CHECK(e.plan().decode.size() == 2);
}

TEST_CASE("plans apart: a plan is empty if all of its requests are in those before it") {
  engine_of<> e{stages(3, 3)};
  request& r = e.submit(8, 3);
  const auto first = e.plan();
  const auto second = e.plan();
  const auto third = e.plan();
  CHECK(first.size() == 1);
  CHECK(second.empty());
  CHECK(third.empty());
  CHECK(e.why(r) == wait_reason::in_flight);
  e.commit(first);
  const auto fourth = e.plan();
  CHECK(fourth.size() == 1);
  e.commit(second);
  e.commit(third);
  e.commit(fourth);
  CHECK(r.state().length == 10_tok);
}

TEST_CASE("plans apart: a prompt goes on in the very next plan") {
  engine_of<> e{stages(3, 3)};
  request& r = e.submit(8, 10);
  const auto first = e.plan({.max_chunk = 3_tok});
  const auto second = e.plan({.max_chunk = 3_tok});
  const auto third = e.plan({.max_chunk = 3_tok});
  for (const auto& p : {first, second, third}) REQUIRE(p.size() == 1);
  CHECK(second[0].first == 3_tok);
  CHECK_FALSE(second[0].samples);
  CHECK(third[0].first == 6_tok);
  CHECK(third[0].count == 2_tok);
  CHECK(third[0].samples);
  e.commit(first);
  CHECK(e.plan().empty());
  CHECK(e.why(r) == wait_reason::in_flight);
}

TEST_CASE("plans apart: a prompt leaves a token to each request behind it, unless these are in flight") {
  for (const std::size_t apart : {1U, 2U}) {
    engine_of<> e{stages(2, apart)};
    request& prompt = e.submit(40, 10);
    e.submit(4, 10);
    e.submit(4, 10);
    const auto first = e.plan({.token_budget = 12_tok, .max_chunk = 4_tok});
    REQUIRE(first.size() == 3);
    const auto second = e.plan({.token_budget = 12_tok});
    CAPTURE(apart);
    CHECK(second.size() == (apart == 1 ? 3 : 1));
    REQUIRE(second.prefill.size() == 1);
    CHECK(second.prefill[0].request == &prompt);
    CHECK(second.prefill[0].count == (apart == 1 ? 10_tok : 12_tok));
    CHECK(second.computed == 12_tok);
    e.commit(first);
    const auto third = e.plan({.token_budget = 12_tok});
    CHECK(third.size() == 3);
    CHECK(third.computed == 12_tok);
    e.commit(second);
    e.commit(third);
  }
}

TEST_CASE("plans apart: with more plans in flight, a request goes on before its token is known") {
  engine_of<> e{stages(3, 2)};
  request& r = e.submit(8, 10);
  const auto first = e.plan();
  const auto second = e.plan();
  CHECK(second.empty());
  CHECK(e.scheduler.abandon(second) == status::ok);
  const auto again = e.plan();
  CHECK(again.empty());  // an abandoned plan is none between them
  const auto third = e.plan();
  REQUIRE(third.size() == 1);
  CHECK(third[0].first == 8_tok);
  CHECK(r.state().expected == 1);
  e.commit(first);
  CHECK(e.plan().empty());
  CHECK(r.state().length == 9_tok);
  CHECK(r.state().expected == 1);
}

TEST_CASE("plans apart: requests that share the places of a batch take turns") {
  for (const std::size_t n : {2U, 4U}) {
    engine_of<> e{stages(n, n)};
    std::deque<request*> all;
    for (int i = 0; i != 4; ++i) all.push_back(&e.submit(4, 0));
    flights<engine_of<>> plans{e};
    for (int i = 0; i != 60; ++i) plans.add(e.plan({.max_batch = 4 / n}));
    std::int64_t least = 1000;
    std::int64_t most = 0;
    for (const request* r : all) {
      least = std::min(least, r->generated().count());
      most = std::max(most, r->generated().count());
    }
    CAPTURE(n);
    CHECK(most - least <= 1);
    plans.settle_all();
  }
}

TEST_CASE("plans apart: no plan contains a request that one too near samples for; all end as with one plan in flight") {
  const auto run = [](std::size_t in_flight, std::size_t apart, unsigned seed) {
    scheduler_limits l = stages(in_flight, apart);
    l.blocks = 20;
    engine_of<order::round_robin, kv::prefix_cache> e{l, {.order = {.quantum = 3_tok}}};
    std::size_t overlapped = 0;
    const auto made = run_random(e, seed, [&](const auto& p, const auto& plans) {
      for (std::size_t i = 0; i != p.size(); ++i) {
        for (std::size_t k = 1; k <= plans.size(); ++k) {
          const auto& before = plans[plans.size() - k];
          for (std::size_t j = 0; j != before.size(); ++j) {
            if (before[j].request != p[i].request || !before[j].samples) continue;
            REQUIRE(k >= apart);
            ++overlapped;
          }
        }
      }
    });
    CHECK((overlapped != 0) == (apart < in_flight));
    return made;
  };
  for (unsigned seed = 1; seed != 30; ++seed) {
    CAPTURE(seed);
    const auto one = run(1, 1, seed);
    for (const std::size_t n : {2U, 3U, 4U, 5U}) {
      CHECK(run(n, n, seed) == one);
      if (n != 2) CHECK(run(n, n - 1, seed) == one);
    }
  }
}

TEST_CASE("plans apart: a victim that a plan in flight samples for keeps that token, and restarts when it is known") {
  scheduler_limits l = stages(2, 2);
  l.blocks = 6;
  engine_of<> e{l};
  request& low = e.submit(8, 12);
  e.step();
  const auto first = e.plan();
  REQUIRE(has(first, low));
  request& urgent = e.submit(20, 1, 1);
  const auto second = e.plan();
  REQUIRE(second.preempted.size() == 1);
  CHECK(has(second, urgent));
  e.commit(first);
  CHECK(low.state().length == 10_tok);
  CHECK(low.state().life == lifecycle::waiting);
  const auto third = e.plan();
  e.commit(second);
  e.commit(third);
  CHECK(has(e.plan(), low));
}
