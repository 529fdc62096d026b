// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Which requests may pass the first that waits and cannot start: none, or backfilled ones that give way to it.

#include <tessera/gate/backfill.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>
#include <tessera/preempt/swap.hpp>

#include "support/catch.hpp"
#include "support/step_engine.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

using request = tessera_test::prompt_request<>;
template <class Gate, class Preempt = preempt::recompute, class Admit = admit::watermark, class Store = kv::block_pool>
using engine_of =
    tessera_test::step_engine<iteration_scheduler<request, order::fcfs, Preempt, Admit, Store, kv::csr_tables, Gate>>;

constexpr scheduler_limits thousand{.blocks = 1000, .block_size = 16_tok, .residents = 64, .max_length = 16'000_tok};

}  // namespace

TEST_CASE("backfill: small requests run while a large one waits, which starts when it would have without them") {
  struct result {
    std::size_t started = 0;       ///< The step in which the large one started.
    std::size_t small_done = 0;    ///< How many small ones had ended by then.
    std::size_t tokens_until = 0;  ///< Tokens computed and generated until then.
    std::size_t steps = 0;
  };
  const auto run = [](auto& e) {
    result out;
    e.submit(1600, 1500);
    e.step();
    request& large = e.submit(14'500, 10);
    std::vector<request*> small;
    for (int i = 0; i != 200; ++i) small.push_back(&e.submit(160, 20));
    e.count_from_here();
    while (large.state().life == lifecycle::waiting && e.steps != 5000) {
      const auto p = e.plan();
      if (large.state().row == no_index) out.tokens_until += p.size();
      e.commit(p);
    }
    out.started = e.steps;
    out.small_done = static_cast<std::size_t>(std::count_if(
        small.begin(), small.end(), [](const request* r) { return r->state().life == lifecycle::finished; }));
    e.run_out();
    out.steps = e.steps;
    return out;
  };
  engine_of<gate::in_line> in_line{thousand};
  engine_of<gate::backfill> backfill{thousand};
  const result one = run(in_line);
  const result other = run(backfill);
  CHECK(one.small_done == 0);
  CHECK(other.small_done == 200);
  CHECK(other.started == one.started);  // not later by one
  CHECK(other.steps <= one.steps);
  // Each small one generates 20; the large one's wait is 1499 steps of the one that runs.
  CHECK(other.tokens_until >= one.tokens_until + 200 * 20);
}

TEST_CASE("backfill: at least five times the tokens per step where small ones keep coming") {
  const auto throughput = [](auto& e) {
    e.submit(1600, 1500);
    e.step();
    request& large = e.submit(14'500, 10);
    e.count_from_here();
    while (large.state().life == lifecycle::waiting && e.steps != 5000) {
      while (e.scheduler.waiting_count() < 50) e.submit(160, 20);
      e.step();
    }
    return std::pair{static_cast<double>(e.batch) / static_cast<double>(e.steps), e.steps};
  };
  engine_of<gate::in_line> in_line{thousand};
  engine_of<gate::backfill> backfill{thousand};
  const auto one = throughput(in_line);
  const auto other = throughput(backfill);
  CHECK(other.first >= 5 * one.first);
  CHECK(other.second == one.second);
}

TEST_CASE(
    "backfill: backfilled requests stand last, are said to be backfilled, and give way at once to what they passed") {
  engine_of<gate::backfill, preempt::swap, admit::always> e{
      {.blocks = 20, .block_size = 4_tok, .residents = 8, .host_blocks = 20, .max_length = 80_tok}};
  request& runs = e.submit(16, 20);  // 4 blocks, and more
  e.step();
  request& large = e.submit(72, 4);   // 18 blocks
  request& ends = e.submit(12, 4);    // ended long before `runs`
  request& lasts = e.submit(20, 60);  // neither ended then nor fitting next to it
  e.step();
  CHECK(e.why(large) == wait_reason::no_blocks);
  CHECK(ends.state().life == lifecycle::resident);
  CHECK(ends.state().backfilled);
  CHECK(e.scheduler.residents().back() == &ends);
  CHECK(lasts.state().life == lifecycle::waiting);
  CHECK(e.why(lasts) == wait_reason::behind_others);

  SECTION("`runs` ends early: the backfilled request goes, and its KV is not worth a copy") {
    REQUIRE(e.scheduler.finish(runs) == status::ok);
    const auto p = e.plan({.token_budget = 100_tok});
    REQUIRE(p.preempted.size() == 1);
    CHECK(p.preempted[0].request == &ends);
    CHECK(p.preempted[0].mode == preemption_mode::recompute);
    CHECK(p.swap_out.empty());
    CHECK(e.why(large) == wait_reason::none);
    e.commit(p);
    CHECK_FALSE(ends.state().backfilled);
    CHECK(ends.state().life == lifecycle::waiting);
    // It may not pass again: it keeps its blocks, once it has them back.
    e.step();
    CHECK(ends.state().life == lifecycle::waiting);
    e.run_out();
    CHECK(ends.generated() == 4_tok);
  }
  SECTION("the first is cancelled: the request is backfilled no more") {
    REQUIRE(e.scheduler.cancel(large) == status::ok);
    e.step();
    CHECK_FALSE(ends.state().backfilled);
    CHECK(ends.state().life == lifecycle::resident);
    CHECK(e.preemptions == 0);
    e.run_out();
  }
}

TEST_CASE(
    "backfill: a backfilled request's child is backfilled, too, and delays the first no more than its parent does") {
  engine_of<gate::backfill, preempt::recompute, admit::always> e{
      {.blocks = 20, .block_size = 4_tok, .residents = 8, .max_length = 80_tok}};
  request& runs = e.submit(16, 20);
  e.step();
  request& large = e.submit(72, 4);
  request& backfilled = e.submit(12, 4);
  e.step();
  REQUIRE(backfilled.state().backfilled);
  request& child = e.add(12, 4);
  REQUIRE(e.scheduler.fork(backfilled, child) == status::ok);
  CHECK(child.state().backfilled);
  REQUIRE(e.scheduler.finish(runs) == status::ok);
  e.step();
  CHECK(large.state().life == lifecycle::resident);
  e.run_out();
  CHECK(child.generated() == 4_tok);
}

TEST_CASE("backfill: backfilled requests lose their places in the batch and the budget before any other's suffer") {
  engine_of<gate::backfill, preempt::recompute, admit::always> e{
      {.blocks = 40, .block_size = 4_tok, .residents = 8, .max_length = 160_tok}};
  request& runs = e.submit(80, 40);
  e.step();
  request& large = e.submit(100, 4);
  request& backfilled = e.submit(8, 4);
  e.step();
  REQUIRE(backfilled.state().backfilled);
  const auto p = e.plan({.max_batch = 1});
  REQUIRE(p.size() == 1);
  CHECK(p[0].request == &runs);
  CHECK(e.why(backfilled) == wait_reason::batch_full);
  e.abandon(p);
  const auto q = e.plan({.token_budget = 1_tok});
  REQUIRE(q.size() == 1);
  CHECK(q[0].request == &runs);
  e.commit(q);
  CHECK(large.state().life == lifecycle::waiting);
}

TEST_CASE("backfill: what backfilled requests hold is free to a resident that cannot have its whole chunk") {
  const auto share_of_prompt = [](auto& e, bool with_backfill) {
    e.submit(14, 20, 1);  // 4 blocks of 10, and soon one more
    e.step();
    e.submit(36, 2);  // blocked
    const request& backfilled = e.submit(1, 5);
    e.step();
    CHECK(backfilled.state().backfilled == with_backfill);
    const request& prompt = e.submit(24, 2, 1);
    e.step({.max_chunk = 4_tok});
    REQUIRE(prompt.state().computed == 4_tok);
    e.step();  // of the 5 blocks that it lacks, 4 can be had
    CHECK((backfilled.state().life == lifecycle::waiting));
    return prompt.state().computed;
  };
  const scheduler_limits ten{.blocks = 10, .block_size = 4_tok, .residents = 8, .max_length = 40_tok};
  engine_of<gate::in_line, preempt::recompute, admit::always> in_line{ten};
  engine_of<gate::backfill, preempt::recompute, admit::always> backfill{ten};
  CHECK(share_of_prompt(in_line, false) == 20_tok);
  CHECK(share_of_prompt(backfill, true) == 20_tok);
}

TEST_CASE("backfill: a request that lacks a place, and not blocks, is passed by one that gives it back") {
  engine_of<gate::in_line> strict{thousand};
  engine_of<gate::backfill> e{thousand, {.admit = {.fraction = 0.5}}};
  // Held back by the watermark, not for want of blocks: the small ones pass as far as free blocks go.
  e.submit(160, 300);
  e.step();
  request& large = e.submit(12'000, 4);
  request& small = e.submit(160, 4);
  e.step();
  CHECK(e.why(large) == wait_reason::held_back);
  CHECK(small.state().backfilled);
}

TEST_CASE("backfill: asks no more than so many in vain") {
  gate::backfill few{.most_skipped = 3};
  engine_of<gate::backfill, preempt::recompute, admit::always> e{
      {.blocks = 20, .block_size = 4_tok, .residents = 8, .max_length = 80_tok}, {.gate = few}};
  e.submit(16, 20);
  e.step();
  e.submit(68, 4);
  for (int i = 0; i != 3; ++i) e.submit(20, 60);  // in vain
  request& behind = e.submit(4, 2);
  e.step();
  CHECK(behind.state().life == lifecycle::waiting);
  few.most_skipped = 4;
  engine_of<gate::backfill, preempt::recompute, admit::always> patient{
      {.blocks = 20, .block_size = 4_tok, .residents = 8, .max_length = 80_tok}, {.gate = few}};
  patient.submit(16, 20);
  patient.step();
  patient.submit(68, 4);
  for (int i = 0; i != 3; ++i) patient.submit(20, 60);
  request& other = patient.submit(4, 2);
  patient.step();
  CHECK(other.state().life == lifecycle::resident);
}

TEST_CASE("backfill: what it answers") {
  std::array<request, 3> r{};
  request& blocked = r[0];
  request& runs = r[1];
  request& candidate = r[2];
  runs.prompt = 16_tok;
  runs.max_output = 20_tok;
  request_access::state(runs).length = 26_tok;  // 10 to come
  request_access::state(runs).row = 0;
  candidate.prompt = 8_tok;
  const std::array<request*, 1> residents{&runs};
  const std::array<std::uint32_t, 1> own{7};
  gate_view<request> view{.blocked = &blocked,
                          .lacks = 5_blk,
                          .free = 4_blk,
                          .needed = 2_blk,
                          .block_size = 4_tok,
                          .residents = residents,
                          .admitted = {},
                          .exclusive = own};
  const auto ask = [&](std::int64_t max_output) {
    candidate.max_output = tokens{max_output};
    request_access::state(candidate).length = candidate.prompt;
    return gate::backfill{}.ask(candidate, view);
  };
  // Ended by then; or, since 7 come back and 5 are lacking, 2 blocks fit next to it.
  CHECK(ask(10) == passage::start);
  CHECK(ask(1000) == passage::start);
  view.backfilled_blocks = 1_blk;
  CHECK(ask(1000) == passage::skip);
  CHECK(ask(10) == passage::start);
  CHECK(ask(11) == passage::skip);
  view.lacks = 8_blk;  // it is unknown when
  CHECK(ask(1) == passage::skip);
  view.lacks = 5_blk;
  view.free = 1_blk;
  CHECK(ask(1) == passage::skip);
  view.free = 4_blk;
  view.lacks = 0_blk;  // a place is lacking
  CHECK(ask(1000) == passage::start);
}

TEMPLATE_TEST_CASE("backfill: over random loads the first in line never starts later than if none could pass it", "",
                   kv::block_pool, kv::prefix_cache) {
  // Two engines up to the moment at which a request cannot start; from then on one lets others pass. No request comes
  // meanwhile, and requests that run at that moment run as long in both.
  std::size_t waited = 0;
  std::size_t passed = 0;
  for (unsigned seed = 1; seed != 40; ++seed) {
    CAPTURE(seed);
    const auto play = [&](auto& e, std::size_t& backfilled) {
      std::mt19937 random{seed};
      const auto below = [&](std::size_t n) { return static_cast<std::int64_t>(random() % n); };
      for (int i = 0; i != 6; ++i) {
        e.submit_hashed(8 + below(40), 5 + below(60), 2, 2);
        e.step({.max_chunk = 8_tok});
      }
      request& large = e.submit(200 + below(100), 3);
      for (int i = 0; i != 10; ++i) e.submit_hashed(8 + below(30), 1 + below(80), 2, 2);
      std::size_t steps = 0;
      for (; large.state().life == lifecycle::waiting && steps != 1000; ++steps) {
        e.step({.max_chunk = 8_tok});
        backfilled += static_cast<std::size_t>(
            std::count_if(e.requests.begin(), e.requests.end(), [](const request& r) { return r.state().backfilled; }));
      }
      return steps;
    };
    const scheduler_limits limits{.blocks = 90, .block_size = 4_tok, .residents = 12, .max_length = 360_tok};
    engine_of<gate::in_line, preempt::recompute, admit::watermark, TestType> in_line{limits};
    engine_of<gate::backfill, preempt::recompute, admit::watermark, TestType> backfill{limits};
    std::size_t none = 0;
    const std::size_t alone = play(in_line, none);
    const std::size_t with_backfill = play(backfill, passed);
    CHECK(none == 0);
    CHECK(with_backfill <= alone);
    waited += alone;
  }
  CHECK(waited > 500);
  CHECK(passed > 100);
}
