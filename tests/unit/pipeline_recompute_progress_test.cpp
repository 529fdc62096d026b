// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A request that loses its KV and must begin anew is not made to do so twice for nothing. From its start on it keeps
// its blocks until it has sampled a token.

#include <tessera/gate/backfill.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>
#include <tessera/preempt/swap.hpp>

#include "support/catch.hpp"
#include "support/step_engine.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

using request = tessera_test::prompt_request<request_hook_for<order::round_robin>>;
template <class Order, class Preempt = preempt::recompute, class Gate = gate::in_line>
using engine_of = tessera_test::step_engine<
    iteration_scheduler<request, Order, Preempt, admit::watermark, kv::block_pool, kv::csr_tables, Gate>>;

}  // namespace

TEST_CASE("progress: a long prompt gets through although more urgent ones displace it time and again") {
  engine_of<order::fcfs> e{{.blocks = 1000, .block_size = 16_tok, .residents = 64, .max_length = 16'000_tok}};
  request& large = e.submit(12'000, 2);
  // Half of what the steps can compute.
  int step = 0;
  for (; step != 4000 && is_live(large.state().life); ++step) {
    if (step % 20 == 10) e.submit(4800, 2, 1);
    e.step({.token_budget = 512_tok});
  }
  // 24 steps of its own, which are made anew for the one preemption there can be before its first token.
  CHECK(large.state().life == lifecycle::finished);
  CHECK(large.state().preemptions <= 2);
  CHECK(step <= 200);
}

TEST_CASE("progress: a request that has begun anew is before all others, whatever the priority, until its next token") {
  engine_of<order::fcfs> e{{.blocks = 20, .block_size = 4_tok, .residents = 8, .max_length = 80_tok}};
  request& low = e.submit(40, 20);
  e.step({.token_budget = 10_tok});
  REQUIRE(low.state().computed == 10_tok);
  request& high = e.submit(72, 2, 1);  // takes the blocks of both
  while (low.state().life == lifecycle::resident) e.step({.token_budget = 30_tok});
  CHECK(low.state().preemptions == 1);
  CHECK(low.state().computed == 0_tok);
  CHECK(low.state().restarted);
  while (is_live(high.state().life)) e.step({.token_budget = 30_tok});
  // It starts again, with all blocks of its sequence.
  const step_limits limits{.token_budget = 30_tok, .max_chunk = 10_tok};
  e.step(limits);
  REQUIRE(low.state().life == lifecycle::resident);
  CHECK(low.state().computed == 10_tok);
  CHECK(e.scheduler.blocks_held(low) == blocks_for(low.state().length, 4_tok));
  // No request displaces it now,
  request& urgent = e.submit(60, 2, 7);
  e.step(limits);
  CHECK(e.why(urgent) == wait_reason::no_blocks);
  CHECK(low.state().computed == 20_tok);
  // nor gets ahead of it in the step,
  REQUIRE(e.scheduler.cancel(urgent) == status::ok);
  request& small = e.submit(4, 2, 7);
  const auto p = e.plan(limits);
  REQUIRE(p.prefill.size() == 2);
  CHECK(p.prefill[0].request == &low);
  CHECK(p.prefill[1].request == &small);
  e.commit(p);
  REQUIRE(e.scheduler.cancel(small) == status::ok);
  // until it has sampled.
  e.submit(urgent);
  e.step(limits);
  CHECK(low.generated() == 1_tok);
  CHECK_FALSE(low.state().restarted);
  e.step({.token_budget = 30_tok});
  CHECK(urgent.state().life == lifecycle::resident);
  for (int i = 0; i != 3; ++i) e.step({.token_budget = 30_tok});
  CHECK(low.state().preemptions == 2);
}

TEST_CASE("progress: an explicit preempt takes it all the same, and it keeps the right") {
  engine_of<order::fcfs> e{{.blocks = 20, .block_size = 4_tok, .residents = 8, .max_length = 80_tok}};
  request& r = e.submit(40, 20);
  e.step({.token_budget = 10_tok});
  for (std::uint32_t i = 1; i != 4; ++i) {
    REQUIRE(e.scheduler.preempt(r) == status::ok);
    CHECK(r.state().preemptions == i);
    CHECK(r.state().restarted);
    CHECK(r.state().computed == 0_tok);
    e.step({.token_budget = 10_tok});
    CHECK(r.state().computed == 10_tok);
  }
}

TEMPLATE_TEST_CASE("progress: between two preemptions by which it loses its KV, a request has sampled a token", "",
                   (engine_of<order::fcfs>), (engine_of<order::round_robin>),
                   (engine_of<order::round_robin, preempt::recompute, gate::backfill>),
                   (engine_of<order::round_robin, preempt::swap>)) {
  std::size_t lost = 0;
  std::size_t again = 0;
  for (unsigned seed = 1; seed != 9; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    const auto below = [&](std::size_t n) { return static_cast<std::int64_t>(random() % n); };
    auto config = [] {
      typename decltype(TestType::scheduler)::config c{};
      if constexpr (requires { c.order.quantum; }) c.order.quantum = 4_tok;
      return c;
    }();
    TestType e{{.blocks = 24, .block_size = 4_tok, .residents = 6, .host_blocks = 10, .max_length = 90_tok}, config};
    // What it had sampled when it lost its KV last.
    std::map<const typename TestType::request*, tokens> when;
    for (int step = 0; step != 1500; ++step) {
      if (e.scheduler.waiting_count() < 4) e.submit(1 + below(60), 1 + below(25), static_cast<int>(below(4)));
      const auto p = e.plan({.max_batch = static_cast<std::size_t>(1 + below(6)),
                             .token_budget = tokens{1 + below(30)},
                             .max_chunk = tokens{below(2) * (1 + below(9))}});
      if (below(5) == 0) {
        e.abandon(p);
        continue;
      }
      for (const auto& victim : p.preempted) {
        if (victim.mode != preemption_mode::recompute) continue;
        ++lost;
        const auto before = when.find(victim.request);
        if (before != when.end()) {
          ++again;
          REQUIRE(victim.request->generated() > before->second);
        }
        when[victim.request] = victim.request->generated();
      }
      e.commit(p);
      if (below(40) == 0 && e.scheduler.resident_count() != 0) {
        auto& forced = *e.scheduler.residents()[static_cast<std::size_t>(below(e.scheduler.resident_count()))];
        REQUIRE(e.scheduler.preempt(forced) == status::ok);
        when.erase(&forced);
      }
      for (std::size_t i = p.outgrown.size(); i-- != 0;) {
        if (is_live(p.outgrown[i]->state().life)) REQUIRE(e.scheduler.finish(*p.outgrown[i]) == status::ok);
      }
    }
  }
  CHECK(lost > 200);
  CHECK(again > 20);
}
