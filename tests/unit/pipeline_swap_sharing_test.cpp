// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Swapping where prompts share prefixes: only what no other request holds is copied. A request that comes back uses the
// cache like any other.

#include <tessera/kv/prefix_cache.hpp>
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
template <class Preempt, class Admit = admit::always>
using scheduler_of = iteration_scheduler<request, order::fcfs, Preempt, Admit, kv::prefix_cache>;
using engine = tessera_test::step_engine<scheduler_of<preempt::swap>>;

std::vector<kv::block_id> copy(std::span<const kv::block_id> s) { return {s.begin(), s.end()}; }

template <class Preempt>
tessera_test::step_engine<scheduler_of<Preempt, admit::watermark>>& sharers(
    tessera_test::step_engine<scheduler_of<Preempt, admit::watermark>>& e) {
  constexpr step_limits limits{.max_batch = 64, .token_budget = 8192_tok};
  e.submit_hashed(250 * 16 + 8, 64, 250, 250);
  e.run_out(limits);
  e.count_from_here();
  for (int i = 0; i != 40; ++i) e.submit_hashed(250 * 16 + 8, 64, 250, 250);
  e.run_out(limits);
  return e;
}

}  // namespace

TEST_CASE("swap: forty that share most of the memory are served as by recomputation, and copy only what is their own") {
  constexpr scheduler_limits limits{
      .blocks = 300, .block_size = 16_tok, .residents = 64, .host_blocks = 20'000, .max_length = 4800_tok};
  tessera_test::step_engine<scheduler_of<preempt::recompute, admit::watermark>> recomputed{limits};
  tessera_test::step_engine<scheduler_of<preempt::swap, admit::watermark>> swapped{limits};
  sharers(recomputed);
  sharers(swapped);
  CHECK(swapped.steps <= recomputed.steps);
  CHECK(swapped.computed <= recomputed.computed);
  CHECK(swapped.preemptions > 0);
  // At most the five blocks that are each one's own: 8 tokens of the prompt and 64 of the output.
  CHECK(swapped.swapped_out <= 5 * swapped.preemptions);
  CHECK(swapped.swapped_in <= swapped.swapped_out);
}

TEST_CASE("swap: blocks that others hold stay where they are, and are shared again") {
  // Blocks of 4. Both have 4 blocks of one prefix, and go on for as long as there is memory: 12 blocks.
  engine e{{.blocks = 12, .block_size = 4_tok, .residents = 4, .host_blocks = 12}};
  request& first = e.submit_hashed(17, 28, 4, 4);
  e.step();
  request& second = e.submit_hashed(19, 28, 4, 4);
  e.step();
  REQUIRE(second.state().shared_blocks == 4);
  while (e.scheduler.store().free() != 0) e.step();
  while (second.state().preemptions == 0) {
    const auto before = e.row(second);
    const tokens computed = second.state().computed;
    const auto p = e.plan();
    if (!p.preempted.empty()) {
      CHECK(p.preempted[0].request == &second);
      CHECK(p.preempted[0].mode == preemption_mode::swap);
      REQUIRE(p.swap_out.size() == 1);
      const auto& out = p.swap_out[0];
      CHECK(out.request == &second);
      CHECK(out.first == 4);
      const auto written = static_cast<std::size_t>(blocks_for(computed, 4_tok).count());
      CHECK(copy(out.device) == std::vector(before.begin() + 4, before.begin() + static_cast<std::ptrdiff_t>(written)));
      CHECK(out.host.size() == out.device.size());
    }
    e.commit(p);
  }
  const blocks on_host = e.scheduler.host_blocks_held();
  const tokens computed = second.state().computed;
  CHECK(on_host == blocks_for(computed, 4_tok) - 4_blk);
  CHECK(e.scheduler.cancel(first) == status::ok);  // its prefix stays in the cache
  const auto p = e.plan();
  REQUIRE(p.swap_in.size() == 1);
  CHECK(p.swap_in[0].first == 4);
  CHECK(p.swap_in[0].device.size() == static_cast<std::size_t>(on_host.count()));
  CHECK(p.swap_in[0].host.size() == p.swap_in[0].device.size());
  REQUIRE(p.size() == 1);
  CHECK(p[0].first == computed);  // nothing is computed twice
  const auto now = e.row(second);
  CHECK(copy(p.swap_in[0].device) == std::vector(now.begin() + 4, now.begin() + 4 + on_host.count()));
  e.commit(p);
  CHECK(second.state().shared_blocks == 4);
  CHECK(e.scheduler.host_blocks_held() == 0_blk);
}

TEST_CASE("swap: where what it left to others is gone, its copy is of no use, and is given up") {
  engine e{{.blocks = 12, .block_size = 4_tok, .residents = 4, .host_blocks = 12}};
  request& first = e.submit_hashed(17, 28, 4, 4);
  e.step();
  request& second = e.submit_hashed(19, 28, 4, 4);
  while (second.state().preemptions == 0) e.step();
  REQUIRE(e.scheduler.host_blocks_held() > 0_blk);
  const tokens length = second.state().length;
  // Another request needs all the memory for a while: the prefix is forgotten.
  REQUIRE(e.scheduler.cancel(first) == status::ok);
  e.submit(48, 1, 1);
  e.step();
  const auto p = e.plan();
  CHECK(p.swap_in.empty());
  REQUIRE(p.size() == 1);
  CHECK(p[0].request == &second);
  CHECK(p[0].first == 0_tok);
  CHECK(p[0].count == length);
  CHECK(p[0].samples);
  e.commit(p);
  CHECK(e.scheduler.host_blocks_held() == 0_blk);
}

TEST_CASE("swap: of a prefix that is gone in part, what is there is used") {
  engine e{{.blocks = 12, .block_size = 4_tok, .residents = 4, .host_blocks = 12}};
  request& first = e.submit_hashed(17, 28, 4, 4);
  e.step();
  request& second = e.submit_hashed(19, 28, 4, 4);
  while (second.state().preemptions == 0) e.step();
  REQUIRE(e.scheduler.cancel(first) == status::ok);
  e.submit(40, 1, 1);  // ten of twelve blocks: the end of the prefix is evicted before its beginning
  e.step();
  REQUIRE(e.scheduler.store().cached() == 2);
  const auto p = e.plan();
  CHECK(p.swap_in.empty());
  REQUIRE(p.size() == 1);
  CHECK(p[0].first == 8_tok);
  e.commit(p);
  CHECK(second.state().shared_blocks == 2);
  CHECK(e.scheduler.host_blocks_held() == 0_blk);
}

TEST_CASE("swap: what is cached by then, and was its own, is not copied back") {
  // `second` is swapped out with blocks of its prompt that no other had. A third with the same prompt computes them.
  engine e{{.blocks = 16, .block_size = 4_tok, .residents = 4, .host_blocks = 16}};
  request& second = e.submit_hashed(25, 40, 6, 6);
  e.step();
  e.submit(28, 1, 1);
  e.submit(28, 1, 1);
  e.step();  // both displace it
  REQUIRE(second.state().swapped);
  REQUIRE(e.scheduler.host_blocks_held() == 7_blk);
  REQUIRE(e.scheduler.forget_prefixes() == status::ok);
  e.submit_hashed(25, 1, 6, 6, 1);
  e.submit(36, 1, 1);  // no room for `second` yet
  e.step();
  const tokens computed = second.state().computed;
  const auto p = e.plan();
  REQUIRE(p.swap_in.size() == 1);
  CHECK(p.swap_in[0].first == 6);
  CHECK(p.swap_in[0].device.size() == 1);
  CHECK(p.swap_in[0].host.size() == 1);
  REQUIRE(p.size() == 1);
  CHECK(p[0].first == computed);
  e.commit(p);
}

TEST_CASE("adopt: only what the cache here lacks is fetched") {
  engine e{{.blocks = 600, .block_size = 16_tok, .residents = 8, .max_length = 8000_tok}};
  e.submit_hashed(4008, 1, 250, 250);
  e.run_out();
  request& r = e.add(4008, 5);
  r.hashes = tessera_test::hashes_of(250, 250, 7);
  SECTION("all but the last block is there") {
    REQUIRE(e.scheduler.adopt(r, {.length = 4009_tok, .computed = 4008_tok}) == status::accepted);
    const auto p = e.plan();
    REQUIRE(p.fetch.size() == 1);
    CHECK(p.fetch[0].request == &r);
    CHECK(p.fetch[0].first == 250);
    REQUIRE(p.fetch[0].device.size() == 1);
    CHECK(p.fetch[0].device[0] == e.row(r)[250]);
    REQUIRE(p.decode.size() == 1);
    CHECK(p.decode[0].first == 4008_tok);
    e.commit(p);
  }
  SECTION("part is there") {
    r.hashes = tessera_test::hashes_of(250, 100, 7);
    REQUIRE(e.scheduler.adopt(r, {.length = 4009_tok, .computed = 4008_tok}) == status::accepted);
    const auto p = e.plan();
    REQUIRE(p.fetch.size() == 1);
    CHECK(p.fetch[0].first == 100);
    CHECK(p.fetch[0].device.size() == 151);
    e.commit(p);
  }
  SECTION("all that it had is there: nothing is fetched, and less is computed") {
    REQUIRE(e.scheduler.adopt(r, {.length = 4008_tok, .computed = 1000_tok}) == status::accepted);
    const auto p = e.plan();
    CHECK(p.fetch.empty());
    REQUIRE(p.size() == 1);
    CHECK(p[0].first == 4000_tok);
    CHECK(p[0].count == 8_tok);
    e.commit(p);
  }
}
