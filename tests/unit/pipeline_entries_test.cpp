// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What a plan's entries say besides what to compute, and the calls that an engine makes between two plans.

#include <tessera/admit/future_peak.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/kv/row_tables.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>
#include <tessera/preempt/swap.hpp>

#include "support/catch.hpp"
#include "support/step_engine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

using request = tessera_test::prompt_request<>;
template <class Preempt = preempt::recompute, class Admit = admit::always, class Store = kv::block_pool>
using engine_of = tessera_test::step_engine<iteration_scheduler<request, order::fcfs, Preempt, Admit, Store>>;
using cached_engine = engine_of<preempt::recompute, admit::always, kv::prefix_cache>;

constexpr scheduler_limits small{
    .requests = 8, .blocks = 12, .block_size = 4_tok, .residents = 4, .host_blocks = 12, .max_length = 48_tok};

struct said {
  entry_origin origin;
  std::uint32_t new_blocks;
  bool operator==(const said&) const = default;
};
template <class Plan>
said of(const Plan& p, const request& r) {
  for (std::size_t i = 0; i != p.size(); ++i) {
    if (p[i].request == &r) return {p[i].origin, p[i].new_blocks};
  }
  FAIL("not in the plan");
  return {};
}
constexpr auto started = entry_origin::started;
constexpr auto resumed = entry_origin::resumed;
constexpr auto going_on = entry_origin::going_on;

}  // namespace

TEST_CASE("entries: where they come from, and which of their blocks are new") {
  engine_of<> e{small};
  request& r = e.submit(10, 30);
  const step_limits chunks{.max_chunk = 5_tok};
  auto p = e.plan(chunks);
  CHECK(of(p, r) == said{started, 2});
  e.abandon(p);  // it was not run: the engine has not heard of it
  p = e.plan(chunks);
  CHECK(of(p, r) == said{started, 2});
  e.commit(p);
  p = e.plan(chunks);
  CHECK(of(p, r) == said{going_on, 1});
  e.abandon(p);
  p = e.plan(chunks);
  CHECK(of(p, r) == said{going_on, 1});
  e.commit(p);
  p = e.plan();  // the 11th token: within the third block
  CHECK(of(p, r) == said{going_on, 0});
  e.commit(p);
  REQUIRE(e.scheduler.preempt(r) == status::ok);
  p = e.plan();
  CHECK(of(p, r) == said{resumed, 3});
  e.abandon(p);
  p = e.plan();
  CHECK(of(p, r) == said{resumed, 3});
  e.commit(p);
  p = e.plan();
  CHECK(of(p, r) == said{going_on, 1});
  e.abandon(p);
}

TEST_CASE("entries: blocks that were given for drafts are new again when they come back") {
  engine_of<> e{small};
  request& r = e.submit(4, 30);
  auto p = e.plan({.lookahead = 7_tok});
  CHECK(of(p, r) == said{started, 3});
  e.commit(p);  // two of them are given back
  p = e.plan({.lookahead = 7_tok});
  CHECK(of(p, r) == said{going_on, 2});
  e.abandon(p);
  p = e.plan();
  CHECK(of(p, r) == said{going_on, 1});
  e.commit(p);
}

TEST_CASE("entries: what is found in the cache is new to one that starts, and what comes back from the host resumes") {
  tessera_test::step_engine<iteration_scheduler<request, order::fcfs, preempt::swap, admit::always, kv::prefix_cache>>
      e{small};
  e.submit_hashed(9, 1, 2, 2);
  e.run_out();
  request& r = e.submit_hashed(9, 30, 2, 2);
  auto p = e.plan();
  CHECK(of(p, r) == said{started, 3});
  CHECK(p[0].first == 8_tok);
  e.commit(p);
  request& urgent = e.submit(40, 1, 1);
  e.step();
  REQUIRE(urgent.state().life == lifecycle::finished);
  REQUIRE(r.state().swapped);
  p = e.plan();
  REQUIRE(p.swap_in.size() == 1);
  CHECK(of(p, r).origin == resumed);
  CHECK(of(p, r).new_blocks == 3);
  e.commit(p);
  // One that comes from elsewhere starts here.
  request& moved = e.add(5, 30);
  REQUIRE(e.scheduler.adopt(moved, {.length = 6_tok, .computed = 5_tok}) == status::accepted);
  p = e.plan();
  CHECK(of(p, moved) == said{started, 2});
  CHECK(of(p, r).origin == going_on);
  e.commit(p);
}

TEST_CASE("preempt: a resident waits again at the place that it has, and its blocks are free at once") {
  engine_of<> e{small};
  request& first = e.submit(8, 10);
  request& second = e.submit(8, 10);
  request& third = e.submit(8, 10);
  e.step();
  e.submit(40, 2);  // waits
  e.step();
  const blocks held = e.scheduler.device_blocks_held();
  REQUIRE(e.scheduler.preempt(second) == status::ok);
  CHECK(second.state().life == lifecycle::waiting);
  CHECK(second.state().computed == 0_tok);
  CHECK(second.generated() == 2_tok);
  CHECK(second.state().preemptions == 1);
  CHECK(e.scheduler.device_blocks_held() == held - 3_blk);
  CHECK(e.scheduler.blocks_held(second) == 0_blk);
  CHECK(e.scheduler.waiting().front() == &second);
  CHECK(e.scheduler.preempt(second) == status::unknown_request);
  const auto p = e.plan();
  CHECK(e.scheduler.preempt(first) == status::busy);
  REQUIRE(p.prefill.size() == 1);
  CHECK(p.prefill[0].request == &second);
  CHECK(p.prefill[0].count == 10_tok);
  e.commit(p);
  // Between the others again, once it has sampled.
  CHECK(std::ranges::equal(e.scheduler.residents(), std::vector<request*>{&first, &second, &third}));
  REQUIRE(e.scheduler.suspend(third) == status::ok);
  CHECK(e.scheduler.preempt(third) == status::unknown_request);
  REQUIRE(e.scheduler.resume(third) == status::ok);
  engine_of<> other{small};
  CHECK(other.scheduler.preempt(first) == status::unknown_request);
}

TEST_CASE("max_starts: so many start and no more; the first that is left out hears that it is not wanted") {
  engine_of<> e{small};
  request& a = e.submit(4, 10);
  request& b = e.submit(4, 10);
  request& c = e.submit(4, 10);
  auto p = e.plan({.max_starts = 0});
  CHECK(p.empty());
  CHECK(e.why(a) == wait_reason::not_wanted);
  CHECK(e.why(b) == wait_reason::behind_others);
  e.commit(p);
  p = e.plan({.max_starts = 2});
  CHECK(p.size() == 2);
  CHECK(e.why(b) == wait_reason::none);
  CHECK(e.why(c) == wait_reason::not_wanted);
  e.commit(p);
  p = e.plan({.max_starts = 0});  // residents go on
  CHECK(p.decode.size() == 2);
  CHECK(e.why(c) == wait_reason::not_wanted);
  e.commit(p);
  // A request that outranks them displaces none then.
  request& urgent = e.submit(40, 1, 1);
  p = e.plan({.max_starts = 0});
  CHECK(p.preempted.empty());
  CHECK(e.why(urgent) == wait_reason::not_wanted);
  e.commit(p);
  p = e.plan({.max_starts = 1});
  CHECK(e.why(urgent) == wait_reason::none);
  CHECK(p.preempted.size() == 1);
  e.commit(p);
}

TEST_CASE("fits: what submit refuses as never fitting, and nothing else") {
  engine_of<> e{small};
  for (std::int64_t length = 1; length != 60; ++length) {
    for (std::int64_t to_come = 0; to_come != 60; ++to_come) {
      request r;
      r.prompt = tokens{length};
      r.max_output = tokens{to_come};
      const bool fits = e.scheduler.fits(tokens{length}, tokens{to_come});
      REQUIRE(fits == (length + std::max<std::int64_t>(to_come, 1) - 1 <= 48));
      const status s = e.scheduler.submit(r, time_point{});
      REQUIRE(s == (fits ? status::accepted : status::never_fits));
      static_cast<void>(e.scheduler.cancel(r));
    }
  }
}

TEST_CASE("prefixes: of an answer with blocks that get hashes as they fill, the next turn finds what was computed") {
  for (const bool appends : {false, true}) {
    cached_engine e{small};
    request& turn = e.submit_hashed(6, 7, 1, 1);
    while (turn.state().life != lifecycle::finished) {
      e.step();
      const auto full = static_cast<std::size_t>(turn.state().length / 4_tok);
      if (appends) turn.hashes = tessera_test::hashes_of(full, full, 0);
    }
    CHECK(turn.state().length == 13_tok);
    e.submit_hashed(14, 1, 3, 3);
    const auto p = e.plan();
    CHECK(p[0].first == (appends ? 12_tok : 4_tok));  // the last of 13 tokens has no KV
    e.commit(p);
  }
}

TEST_CASE("forget_prefixes: none shares what was computed before; running requests go on") {
  cached_engine e{small};
  e.submit_hashed(9, 1, 2, 2);
  e.run_out();
  request& runs = e.submit_hashed(9, 20, 2, 2);
  auto p = e.plan();
  CHECK(p[0].first == 8_tok);
  CHECK(e.scheduler.forget_prefixes() == status::busy);
  e.commit(p);
  const auto row = e.row(runs);
  REQUIRE(e.scheduler.forget_prefixes() == status::ok);
  CHECK(e.row(runs) == row);
  CHECK(e.scheduler.store().cached() == 0);
  request& next = e.submit_hashed(9, 2, 2, 2);
  p = e.plan();
  CHECK(p.prefill.size() == 1);
  CHECK(p.prefill[0].first == 0_tok);
  e.commit(p);
  CHECK(next.state().shared_blocks == 0);
  // What is computed from then on is shared again.
  request& last = e.submit_hashed(9, 2, 2, 2);
  e.step();
  CHECK(last.state().shared_blocks == 2);
  e.run_out();
}

TEST_CASE("forget_prefixes: a waiting request is looked at anew") {
  // It would start only with what it shares; without that it lacks blocks, and is told so.
  cached_engine e{small};
  request& runs = e.submit_hashed(25, 20, 6, 6);
  e.step();
  request& waits = e.submit_hashed(40, 5, 10, 6);  // 10 blocks, 6 of them held
  auto p = e.plan({.max_starts = 0});
  e.commit(p);
  REQUIRE(e.scheduler.forget_prefixes() == status::ok);
  p = e.plan();
  CHECK(e.why(waits) == wait_reason::no_blocks);
  e.commit(p);
  REQUIRE(e.scheduler.cancel(runs) == status::ok);
  p = e.plan();
  CHECK(e.why(waits) == wait_reason::none);
  CHECK(p[0].first == 0_tok);
  e.commit(p);
}

TEST_CASE("forget_prefixes: what was computed before is not found later, nor what is computed on top of it") {
  // In the middle of a block, in the middle of a prompt, suspended, forked.
  cached_engine e{{.blocks = 200, .block_size = 4_tok, .residents = 16, .max_length = 400_tok}};
  request& half = e.submit_hashed(18, 40, 4, 0);
  request& aside = e.submit_hashed(18, 40, 4, 0);
  const step_limits chunks{.token_budget = 100_tok, .max_chunk = 10_tok};
  e.step(chunks);
  REQUIRE(half.state().computed == 10_tok);
  REQUIRE(e.scheduler.suspend(aside) == status::ok);
  REQUIRE(e.scheduler.forget_prefixes() == status::ok);
  request& child = e.add(18, 40);
  child.hashes = half.hashes;
  REQUIRE(e.scheduler.fork(half, child) == status::ok);
  REQUIRE(e.scheduler.resume(aside) == status::ok);
  for (int i = 0; i != 3; ++i) e.step(chunks);
  REQUIRE(half.state().computed > 18_tok);
  for (const request* r : {&half, &aside}) {
    for (const std::uint64_t hash : r->hashes) CHECK_FALSE(e.scheduler.store().knows(hash));
  }
  // A request that computes it anew can be found, also a preempted one.
  REQUIRE(e.scheduler.preempt(half) == status::ok);
  for (int i = 0; i != 4; ++i) e.step(chunks);
  for (const std::uint64_t hash : half.hashes) CHECK(e.scheduler.store().knows(hash));
  e.end_all();
}

TEST_CASE("forget_prefixes: one that is swapped out brings back what no other is to find") {
  using scheduler = iteration_scheduler<request, order::fcfs, preempt::swap, admit::always, kv::prefix_cache>;
  tessera_test::step_engine<scheduler> e{
      {.blocks = 10, .block_size = 4_tok, .residents = 4, .host_blocks = 20, .max_length = 40_tok}};
  request& swapped = e.submit_hashed(8, 20, 2, 0);
  e.step();
  request& urgent = e.submit(36, 2, 1);
  e.step();
  REQUIRE(swapped.state().swapped);
  REQUIRE(e.scheduler.forget_prefixes() == status::ok);
  REQUIRE(e.scheduler.finish(urgent) == status::ok);
  e.step();
  REQUIRE(swapped.state().life == lifecycle::resident);
  for (int i = 0; i != 5; ++i) e.step();
  for (const std::uint64_t hash : swapped.hashes) CHECK_FALSE(e.scheduler.store().knows(hash));
  e.end_all();
}

TEST_CASE("duplicates: prompts that were computed side by side are both found, each as long as it is there") {
  // Two with one prompt in one step. The first ends, and its blocks are evicted; the second still has the prefix.
  cached_engine e{{.blocks = 100, .block_size = 16_tok, .residents = 8, .max_length = 1600_tok}};
  e.submit_hashed(324, 2, 20, 20);
  request& second = e.submit_hashed(324, 200, 20, 20);
  for (int i = 0; i != 4; ++i) e.step();
  e.submit_hashed(70 * 16 + 4, 1, 70, 0);  // more than is free without the first's cached blocks
  e.step();
  e.step();
  request& third = e.submit_hashed(324, 10, 20, 20);
  e.step();
  CHECK(third.state().shared_blocks == 20);
  CHECK(std::ranges::equal(e.scheduler.tables().row(third.state().row).first(20),
                           e.scheduler.tables().row(second.state().row).first(20)));
  std::size_t published = 0;
  for (const kv::block_id id : e.row(second)) published += e.scheduler.store().published(id) ? 1U : 0U;
  CHECK(published == 20);
}

TEST_CASE("future_peak: many that share a prefix run together as under a watermark") {
  const auto most = [](auto& e) {
    e.submit_hashed(8008, 1, 500, 500);
    e.run_out();
    e.count_from_here();
    for (int i = 0; i != 32; ++i) e.submit_hashed(8008, 64, 500, 500);
    std::size_t at_once = 0;
    while (!e.scheduler.idle()) {
      e.step();
      at_once = std::max(at_once, e.scheduler.resident_count());
    }
    return std::pair{at_once, e.steps};
  };
  constexpr scheduler_limits limits{.blocks = 1000, .block_size = 16_tok, .residents = 64, .max_length = 16'000_tok};
  engine_of<preempt::recompute, admit::watermark, kv::prefix_cache> watermark{limits};
  engine_of<preempt::recompute, admit::future_peak, kv::prefix_cache> future_peak{limits};
  const auto one = most(watermark);
  const auto other = most(future_peak);
  CHECK(other == one);
  CHECK(other.first == 32);
  CHECK(future_peak.preemptions == 0);
}

TEST_CASE("row_tables: the rows themselves, named by the entries") {
  tessera_test::step_engine<
      iteration_scheduler<request, order::fcfs, preempt::recompute, admit::always, kv::block_pool, kv::row_tables>>
      e{small};
  e.submit(9, 5);
  e.submit(5, 5);
  for (int i = 0; i != 4; ++i) {
    const auto p = e.plan({.lookahead = 2_tok});
    CHECK(p.tables.matrix == e.scheduler.tables().matrix());
    CHECK(p.tables.blocks_per_row == e.scheduler.tables().blocks_per_row());
    REQUIRE(p.size() == 2);
    for (std::size_t k = 0; k != p.size(); ++k) {
      const auto row = e.row(*p[k].request);
      CHECK(row.size() >=
            static_cast<std::size_t>(blocks_for(p[k].first + p[k].count + p[k].lookahead, 4_tok).count()));
      CHECK(p.tables[p[k].row].size() == p.tables.blocks_per_row);
      CHECK(std::equal(row.begin(), row.end(), p.tables[p[k].row].begin()));
    }
    e.commit(p);
  }
}
