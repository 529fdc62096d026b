// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// When a prompt that is computed in chunks takes its blocks, and what is promised to it.

#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>

#include "support/catch.hpp"
#include "support/step_engine.hpp"

#include <cstdint>
#include <random>

namespace {

using namespace tessera;
using namespace tessera::literals;

using request = tessera_test::prompt_request<>;
template <class Admit = admit::always, class Store = kv::block_pool>
using engine_of =
    tessera_test::step_engine<iteration_scheduler<request, order::fcfs, preempt::recompute, Admit, Store>>;

constexpr scheduler_limits twenty{.blocks = 20, .block_size = 4_tok, .residents = 8, .max_length = 80_tok};

}  // namespace

TEST_CASE("chunks: a prompt takes blocks as it is computed, or all of them at its start") {
  for (const reservation reserve : {reservation::by_chunk, reservation::whole_sequence}) {
    engine_of<admit::watermark> e{{.blocks = 3000, .block_size = 16_tok, .residents = 64, .max_length = 40'000_tok},
                                  {.reserve = reserve}};
    request& a = e.submit(20'000, 5);
    request& b = e.submit(16'000, 5);
    e.step({.token_budget = 1025_tok, .max_chunk = 1024_tok});
    CHECK(a.state().computed == 1024_tok);
    CHECK(b.state().computed == 1_tok);
    const bool whole = reserve == reservation::whole_sequence;
    CHECK(e.scheduler.blocks_held(a) == (whole ? 1250_blk : 64_blk));
    CHECK(e.scheduler.blocks_held(b) == (whole ? 1000_blk : 1_blk));
    while (b.generated() == 0_tok) {
      e.step({.token_budget = 1025_tok, .max_chunk = 1024_tok});
      if (!whole && is_live(a.state().life)) {
        CHECK(e.scheduler.blocks_held(a) == blocks_for(a.state().computed, 16_tok));
      }
      if (!whole) CHECK(e.scheduler.blocks_held(b) == blocks_for(b.state().computed, 16_tok));
    }
    CHECK(e.preemptions == 0);
  }
}

TEST_CASE("chunks: a request that starts after a prompt does not get what is promised to it") {
  for (const reservation reserve : {reservation::by_chunk, reservation::whole_sequence}) {
    engine_of<> e{twenty, {.reserve = reserve}};
    request& large = e.submit(60, 1);  // 15 blocks
    request& fits = e.submit(16, 50);  // 4 blocks
    request& waits = e.submit(5, 2);   // 2 blocks
    for (int i = 0; i != 4; ++i) {
      e.step({.token_budget = 40_tok, .max_chunk = 8_tok});
      CHECK(large.state().life == lifecycle::resident);
      CHECK(fits.state().life == lifecycle::resident);
      CHECK(e.why(waits) == wait_reason::no_blocks);
    }
    CHECK(e.preemptions == 0);
  }
}

TEST_CASE("chunks: what is promised counts for the policies, too") {
  engine_of<admit::watermark> e{twenty, {.admit = {.fraction = 0.2}}};  // four of twenty
  e.submit(40, 1);                                                      // 10 blocks
  request& fits = e.submit(24, 1);                                      // leaves four
  request& waits = e.submit(4, 1);
  e.step({.token_budget = 9_tok, .max_chunk = 4_tok});
  CHECK(fits.state().life == lifecycle::resident);
  CHECK(e.why(waits) == wait_reason::held_back);
  e.step({.token_budget = 40_tok, .max_chunk = 4_tok});
  CHECK(e.why(waits) == wait_reason::held_back);
}

TEST_CASE("chunks: a running request grows into what was promised; if it is missed then, the lowest-ranked gives way") {
  engine_of<> e{twenty};
  request& runs = e.submit(20, 30);    // grows from 5 blocks to 13
  request& prompt = e.submit(56, 20);  // 14 blocks: they fit together now
  int steps = 0;
  for (; prompt.state().preemptions == 0 && prompt.generated() == 0_tok && steps != 60; ++steps) {
    CHECK(runs.state().preemptions == 0);
    e.step({.token_budget = 40_tok, .max_chunk = 2_tok});
  }
  // A block was never taken from a request that ranks before. The prompt gave way.
  CHECK(prompt.state().preemptions == 1);
  e.run_out({.token_budget = 40_tok, .max_chunk = 2_tok});
  CHECK(runs.state().preemptions == 0);
  CHECK(prompt.generated() == 20_tok);
}

TEST_CASE("chunks: where blocks are missing for all of a chunk, part of it is computed; without any it stalls") {
  engine_of<> e{twenty};
  request& runs = e.submit(20, 30);
  request& prompt = e.submit(60, 5);  // they fit exactly, until the first grows
  bool part = false;
  bool stalled = false;
  for (int i = 0; i != 12 && prompt.state().preemptions == 0; ++i) {
    const auto p = e.plan({.token_budget = 60_tok, .max_chunk = 12_tok});
    for (std::size_t k = 0; k != p.size(); ++k) {
      const auto& entry = p[k];
      CHECK(e.scheduler.blocks_held(*entry.request) >= blocks_for(entry.first + entry.count, 4_tok));
      if (entry.request != &prompt || entry.count == 12_tok) continue;
      part = true;
      CHECK(entry.first == 48_tok);
      CHECK(entry.count == 8_tok);
      CHECK_FALSE(entry.samples);
      CHECK(e.scheduler.store().free() == 0);
    }
    if (e.why(prompt) == wait_reason::stalled) {
      stalled = true;
      CHECK(part);
      CHECK(p.preempted.empty());
    }
    e.commit(p);
  }
  CHECK(part);
  CHECK(stalled);
  CHECK(prompt.state().preemptions == 1);
  CHECK(runs.state().preemptions == 0);
}

TEST_CASE("chunks: a request that starts anew after it lost its KV takes all of its blocks at once") {
  engine_of<> e{twenty};
  request& r = e.submit(60, 5);
  e.step({.token_budget = 8_tok});
  CHECK(e.scheduler.blocks_held(r) == 2_blk);
  REQUIRE(e.scheduler.preempt(r) == status::ok);
  CHECK(e.scheduler.blocks_held(r) == 0_blk);
  e.step({.token_budget = 8_tok});
  CHECK(e.scheduler.blocks_held(r) == 15_blk);
  CHECK(r.state().computed == 8_tok);
}

TEST_CASE("chunks: a start that is impossible in the end does not begin") {
  // 14 blocks of a prompt, of which the first chunk would have room, and the last would not: nothing can give way.
  engine_of<> e{twenty};
  e.submit(40, 40, 1);
  e.step();
  request& prompt = e.submit(56, 5);
  for (int i = 0; i != 5; ++i) {
    e.step({.token_budget = 40_tok, .max_chunk = 4_tok});
    CHECK(e.why(prompt) == wait_reason::no_blocks);
  }
}

TEST_CASE("chunks: of a prefix in the cache only the rest is promised and taken") {
  engine_of<admit::always, kv::prefix_cache> e{twenty};
  e.submit_hashed(41, 1, 10, 10);
  e.run_out();
  request& holds = e.submit_hashed(41, 30, 10, 10);
  e.step();
  REQUIRE(holds.state().shared_blocks == 10);
  request& prompt = e.submit_hashed(70, 2, 17, 10);  // 18 blocks, 10 of them held: 8 of the 9 that are free
  e.step({.token_budget = 40_tok, .max_chunk = 4_tok});
  CHECK(prompt.state().life == lifecycle::resident);
  CHECK(prompt.state().computed == 44_tok);
  CHECK(e.scheduler.blocks_held(prompt) == 11_blk);
  request& waits = e.submit(8, 1);
  e.step({.token_budget = 40_tok, .max_chunk = 4_tok});
  CHECK(e.why(waits) == wait_reason::no_blocks);
}
