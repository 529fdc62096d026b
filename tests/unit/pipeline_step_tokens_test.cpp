// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// How many tokens of a request a step has.

#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/catch.hpp"
#include "unit/pipeline_bare_scheduler.hpp"

#include <cstdint>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using tessera_test::bare_scheduler::fixture;
using tessera_test::bare_scheduler::make;
using tessera_test::bare_scheduler::request;
using tessera_test::bare_scheduler::small;

}  // namespace

TEST_CASE("prompts are computed in chunks, within the budget and the chunk's limit") {
  request r = make(25);
  fixture<> f{small};
  REQUIRE(f.submit(r) == status::accepted);
  const auto expect = [&](const step_limits& limits, std::int64_t first, std::int64_t count, bool samples) {
    const auto p = f.plan(limits);
    REQUIRE(p.prefill.size() == 1);
    CHECK(p.prefill[0].first == tokens{first});
    CHECK(p.prefill[0].count == tokens{count});
    CHECK(p.prefill[0].samples == samples);
    CHECK(p.computed == tokens{count});
    // What an engine says of a chunk that does not sample is ignored.
    f.commit(p, {.produced = 1, .end_of_reasoning = !samples});
    CHECK(r.state().phase == phase::reasoning);
    CHECK(r.generated() == tokens{samples ? 1 : 0});
  };
  expect({.token_budget = 10_tok}, 0, 10, false);
  expect({.token_budget = 10_tok, .max_chunk = 3_tok}, 10, 3, false);
  expect({.token_budget = 2_tok, .max_chunk = 3_tok}, 13, 2, false);
  expect({.token_budget = 100_tok}, 15, 10, true);
  const auto p = f.plan();
  REQUIRE(p.decode.size() == 1);
  CHECK(p.decode[0].first == 25_tok);
  f.commit(p, {.end_of_reasoning = true});
  CHECK(r.state().phase == phase::answering);
  CHECK(r.state().reasoning == 2_tok);
  CHECK(f.scheduler.cancel(r) == status::ok);
}

TEST_CASE("without chunks, a prompt waits for a step with the budget for it") {
  std::deque<request> r;
  fixture<> f{small, {.chunked_prefill = false}};
  for (const int n : {6, 6, 12}) REQUIRE(f.submit(r.emplace_back(make(n))) == status::accepted);
  auto p = f.plan({.token_budget = 10_tok});
  CHECK(p.size() == 1);
  CHECK(f.scheduler.why(r[1]) == wait_reason::budget_spent);
  f.commit(p);
  p = f.plan({.token_budget = 10_tok});
  REQUIRE(p.prefill.size() == 1);
  CHECK(p.prefill[0].count == 6_tok);
  f.commit(p);
  p = f.plan({.token_budget = 10_tok});  // longer than any step: alone among the prefills, it runs
  REQUIRE(p.prefill.size() == 1);
  CHECK(p.prefill[0].count == 12_tok);
  CHECK(p.prefill[0].samples);
  f.commit(p);
  for (request& x : r) static_cast<void>(f.scheduler.cancel(x));
}

TEST_CASE("without chunks and with a firm budget, a prompt waits until decodes leave enough of it") {
  std::deque<request> r;
  fixture<> f{small, {.chunked_prefill = false, .firm_budget = true}};
  for (const int n : {2, 9, 2}) REQUIRE(f.submit(r.emplace_back(make(n))) == status::accepted);
  f.commit(f.plan({.token_budget = 10_tok}));
  CHECK(f.scheduler.why(r[1]) == wait_reason::budget_spent);
  // One token of the first leaves too little; the one behind it would have room, and waits.
  auto p = f.plan({.token_budget = 9_tok});
  CHECK(p.size() == 1);
  CHECK(p.decode.size() == 1);
  CHECK(f.scheduler.why(r[1]) == wait_reason::budget_spent);
  CHECK(f.scheduler.why(r[2]) == wait_reason::behind_others);
  f.commit(p);
  p = f.plan({.token_budget = 10_tok});
  CHECK(p.computed == 10_tok);
  REQUIRE(p.prefill.size() == 1);
  CHECK(p.prefill[0].count == 9_tok);
  f.commit(p);
  p = f.plan({.token_budget = 10_tok, .prefill_budget = 2_tok});
  CHECK(p.decode.size() == 2);
  REQUIRE(p.prefill.size() == 1);
  CHECK(p.prefill[0].count == 2_tok);
  f.commit(p);
  CHECK(f.scheduler.cancel(r[1]) == status::ok);
  // One that no step takes runs all the same, as the only prefill of its step.
  REQUIRE(f.submit(r.emplace_back(make(11))) == status::accepted);
  p = f.plan({.token_budget = 11_tok});
  CHECK(p.prefill.empty());
  f.commit(p);
  p = f.plan({.token_budget = 10_tok});
  REQUIRE(p.prefill.size() == 1);
  CHECK(p.prefill[0].count == 11_tok);
  f.commit(p);
  for (request& x : r) static_cast<void>(f.scheduler.cancel(x));
}

TEST_CASE("lookahead: slots for speculative tokens where blocks are free, never at the cost of an eviction") {
  std::deque<request> r;
  fixture<> f{small};
  REQUIRE(f.submit(r.emplace_back(make(4))) == status::accepted);
  auto p = f.plan({.lookahead = 3_tok});
  CHECK(p[0].lookahead == 3_tok);  // two blocks
  CHECK(f.scheduler.store().free() == 6);
  f.commit(p);
  p = f.plan({.lookahead = 3_tok});
  CHECK(p[0].lookahead == 3_tok);  // 5 + 3 fill them
  f.commit(p, {.produced = 4});
  CHECK(r[0].state().length == 9_tok);
  CHECK(r[0].state().computed == 8_tok);
  p = f.plan();
  CHECK(p[0].first == 8_tok);
  CHECK(p[0].lookahead == 0_tok);
  f.commit(p);
  REQUIRE(f.submit(r.emplace_back(make(19))) == status::accepted);
  f.step();  // takes the other five blocks; the first has 12 slots and length 11
  REQUIRE(f.scheduler.store().free() == 0);
  REQUIRE(r[0].state().length == 11_tok);
  p = f.plan({.lookahead = 3_tok});
  CHECK(p.preempted.empty());
  CHECK(p[0].lookahead == 1_tok);
  CHECK(p[1].lookahead == 0_tok);
  f.commit(p);
  for (request& x : r) static_cast<void>(f.scheduler.cancel(x));

  // At the end of the context there is nothing to look ahead to.
  scheduler_limits l = small;
  l.max_length = 6_tok;
  fixture<> g{l};
  request last = make(5);
  REQUIRE(g.submit(last) == status::accepted);
  p = g.plan({.lookahead = tokens{std::numeric_limits<std::int64_t>::max()}});
  CHECK(p[0].lookahead == 1_tok);
  g.commit(p, {.produced = 2});
  p = g.plan();
  CHECK(p.empty());
  REQUIRE(p.outgrown.size() == 1);
  g.abandon(p);
  CHECK(g.scheduler.cancel(last) == status::ok);
}

TEST_CASE("one that has outgrown the limits is told, keeps none from starting, and is never started again") {
  std::deque<request> r;
  scheduler_limits l = small;
  l.max_length = 16_tok;
  fixture<> f{l};
  const auto add = [&](std::int64_t prompt, int priority) -> request& {
    request& x = r.emplace_back(make(prompt, 0, priority));
    REQUIRE(f.submit(x) == status::accepted);
    return x;
  };
  request& a = add(13, 1);
  request& b = add(16, 0);
  f.step();
  REQUIRE(b.state().length == 17_tok);
  request& c = add(16, 2);
  auto p = f.plan();  // c takes the blocks of b
  REQUIRE(p.preempted.size() == 1);
  CHECK(p.preempted[0].request == &b);
  f.commit(p, {.finished = true});
  CHECK(a.state().life == lifecycle::finished);
  CHECK(c.state().life == lifecycle::finished);
  request& d = add(4, 0);
  p = f.plan();
  REQUIRE(p.outgrown.size() == 1);
  CHECK(p.outgrown[0] == &b);
  CHECK(f.scheduler.why(b) == wait_reason::stalled);
  REQUIRE(p.size() == 1);
  CHECK(p[0].request == &d);
  f.commit(p);
  CHECK(f.scheduler.cancel(b) == status::ok);
  CHECK(f.scheduler.cancel(d) == status::ok);
  CHECK(f.scheduler.host_blocks_held() == 0_blk);
}

TEST_CASE("a prompt with a cached front starts behind it, and computes at least one token") {
  using cached = fixture<order::fcfs, preempt::swap, admit::always, kv::prefix_cache>;
  cached f{small};
  std::deque<request> r;
  const auto add = [&](std::int64_t prompt, std::vector<std::uint64_t> hashes) -> request& {
    request& x = r.emplace_back(make(prompt));
    x.hashes = std::move(hashes);
    REQUIRE(f.submit(x) == status::accepted);
    return x;
  };
  request& a = add(9, {1, 2});
  f.commit(f.plan(), {.finished = true});
  REQUIRE(a.state().life == lifecycle::finished);
  CHECK(f.scheduler.device_blocks_held() == 0_blk);
  add(9, {1, 2});
  add(8, {1, 2});  // both blocks are known, but its last token is needed for its logits
  add(12, {1, 7, 3});
  add(6, {8});
  const auto p = f.plan();
  REQUIRE(p.size() == 4);
  CHECK(p.decode[0].first == 8_tok);  // one token is left: as cheap as a decode
  CHECK(p.prefill[0].first == 4_tok);
  CHECK(p.prefill[1].first == 4_tok);
  CHECK(p.prefill[2].first == 0_tok);
  CHECK(f.scheduler.device_blocks_held() == 1_blk + 1_blk + 1_blk + 1_blk + 2_blk + 2_blk);
  f.commit(p, {.finished = true});
  CHECK(f.scheduler.store().free() == 8);
}
