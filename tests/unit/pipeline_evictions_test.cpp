// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Which residents give up their blocks, how, and for which request.

#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>

#include "support/catch.hpp"
#include "unit/pipeline_bare_scheduler.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
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

TEST_CASE("none is evicted before it is certain that this is enough") {
  std::deque<request> r;
  fixture<> f{small};
  const auto add = [&](std::int64_t prompt, int priority) -> request& {
    request& x = r.emplace_back(make(prompt, 0, priority));
    REQUIRE(f.submit(x) == status::accepted);
    return x;
  };
  add(14, 9);                // 4 blocks, more urgent than all that follow
  request& low = add(5, 0);  // 2 blocks
  f.step();
  REQUIRE(f.scheduler.store().free() == 2);

  request& big = add(17, 5);  // 5 blocks: 2 free and 2 of `low` are not enough
  {
    const auto p = f.plan();
    CHECK(p.preempted.empty());
    CHECK(p.size() == 2);  // the residents go on
    CHECK(f.scheduler.why(big) == wait_reason::no_blocks);
    f.commit(p);
  }
  CHECK(f.scheduler.cancel(big) == status::ok);
  request& fitting = add(16, 5);  // 4 blocks: exactly enough
  const auto p = f.plan();
  REQUIRE(p.preempted.size() == 1);
  CHECK(p.preempted[0].request == &low);
  CHECK(p.preempted[0].for_whom == &fitting);
  CHECK(f.scheduler.why(low) == wait_reason::preempted);
  CHECK(f.scheduler.why(fitting) == wait_reason::none);
  f.commit(p);
  for (request& x : r) static_cast<void>(f.scheduler.cancel(x));
}

TEST_CASE("what counts for an eviction is the blocks that become free: shared ones do when all their owners go") {
  using cached = fixture<order::fcfs, preempt::recompute, admit::always, kv::prefix_cache>;
  cached f{small};
  std::deque<request> r;
  const auto add = [&](std::int64_t prompt, int priority, std::vector<std::uint64_t> hashes) -> request& {
    request& x = r.emplace_back(make(prompt, 0, priority));
    x.hashes = std::move(hashes);
    REQUIRE(f.submit(x) == status::accepted);
    return x;
  };
  request& first = add(17, 0, {1, 2, 3, 4});
  f.step();
  request& second = add(17, 0, {1, 2, 3, 4});
  {
    const auto p = f.plan();
    REQUIRE(p.prefill.size() + p.decode.size() == 2);
    CHECK(second.state().row != first.state().row);
    f.commit(p);
  }
  REQUIRE(second.state().shared_blocks == 4);
  REQUIRE(f.scheduler.store().free() == 2);  // 5 + 1 of 8

  SECTION("both owners rank behind: all 8 blocks can be had") {
    request& urgent = add(32, 1, {});
    const auto p = f.plan();
    CHECK(p.preempted.size() == 2);
    CHECK(f.scheduler.why(urgent) == wait_reason::none);
    f.commit(p);
  }
  SECTION("one owner stays: its blocks stay, and nobody is evicted in vain") {
    CHECK(f.scheduler.cancel(second) == status::ok);
    request& above = add(17, 9, {1, 2, 3, 4});
    f.step();
    REQUIRE(above.state().shared_blocks == 4);
    REQUIRE(f.scheduler.store().free() == 2);
    request& urgent = add(16, 5, {});  // 4 blocks: 2 are free, `first` has 5, but only one alone
    const auto p = f.plan();
    CHECK(p.preempted.empty());
    CHECK(f.scheduler.why(urgent) == wait_reason::no_blocks);
    CHECK(f.scheduler.store().free() == 2);
    f.commit(p);
    request& modest = add(12, 6, {});  // 3 blocks
    const auto q = f.plan();
    REQUIRE(q.preempted.size() == 1);
    CHECK(q.preempted[0].request == &first);
    CHECK(f.scheduler.why(modest) == wait_reason::none);
    f.commit(q);
  }
  for (request& x : r) static_cast<void>(f.scheduler.cancel(x));
  CHECK(f.scheduler.store().free() == 8);
}

TEST_CASE("a preempted request keeps its place: before all that came after it") {
  std::deque<request> r;
  fixture<> f{small};
  for (int i = 0; i != 3; ++i) REQUIRE(f.submit(r.emplace_back(make(15))) == status::accepted);
  f.step();
  f.step();
  f.step();  // the second loses its blocks to the first
  REQUIRE(r[1].state().preemptions == 1);
  CHECK(f.scheduler.waiting().front() == &r[1]);
  CHECK(f.scheduler.waiting().back() == &r[2]);
  CHECK(f.scheduler.cancel(r[0]) == status::ok);
  const auto p = f.plan();
  REQUIRE(p.swap_in.size() == 1);
  CHECK(p.swap_in[0].request == &r[1]);
  CHECK(p.decode.front().request == &r[1]);
  CHECK(p.decode.front().first == 16_tok);
  CHECK(f.scheduler.why(r[2]) == wait_reason::no_blocks);
  f.commit(p);
  for (request& x : r) static_cast<void>(f.scheduler.cancel(x));
}

TEST_CASE("what a victim leaves over is not for those that rank behind it") {
  std::deque<request> r;
  fixture<> f{small};
  const auto add = [&](std::int64_t prompt) -> request& {
    request& x = r.emplace_back(make(prompt));
    REQUIRE(f.submit(x) == status::accepted);
    return x;
  };
  request& first = add(16);
  request& second = add(13);
  f.step();
  request& late = add(1);
  const auto p = f.plan();  // `second` gives four blocks, of which `first` needs one
  REQUIRE(p.preempted.size() == 1);
  CHECK(p.size() == 1);
  CHECK(f.scheduler.why(first) == wait_reason::none);
  CHECK(f.scheduler.why(second) == wait_reason::preempted);
  CHECK(f.scheduler.why(late) == wait_reason::behind_others);
  CHECK(f.scheduler.store().free() == 3);
  f.commit(p);
  for (request& x : r) static_cast<void>(f.scheduler.cancel(x));
}

TEST_CASE("swapping needs host blocks; without, a victim is recomputed") {
  for (const std::size_t host : {0U, 3U, 4U}) {
    scheduler_limits l = small;
    l.host_blocks = host;
    std::deque<request> r;
    fixture<> f{l};
    for (int i = 0; i != 2; ++i) REQUIRE(f.submit(r.emplace_back(make(15))) == status::accepted);
    f.step();
    f.step();
    const auto p = f.plan();
    REQUIRE(p.preempted.size() == 1);
    const bool swaps = host == 4;
    CHECK(p.preempted[0].mode == (swaps ? preemption_mode::swap : preemption_mode::recompute));
    CHECK(p.swap_out.size() == (swaps ? 1 : 0));
    if (swaps) {
      CHECK(p.swap_out[0].device.size() == 4);
      CHECK(p.swap_out[0].host.size() == 4);
    }
    f.commit(p);
    CHECK(r[1].state().computed == (swaps ? 16_tok : 0_tok));
    CHECK(f.scheduler.host_blocks_held() == blocks{swaps ? 4 : 0});
    for (request& x : r) static_cast<void>(f.scheduler.cancel(x));
    CHECK(f.scheduler.host_blocks_held() == 0_blk);
  }
}
