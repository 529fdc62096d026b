// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/kv/host_cache.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/step_engine.hpp"

#include <cstdint>
#include <span>
#include <vector>

// The host as the second level of the prefix cache: what is evicted or swapped goes there, and is found there.

namespace {

using namespace tessera;
using namespace tessera::literals;
using tessera_test::hashes_of;
using tessera_test::prompt_request;
using tessera_test::step_engine;

using request = prompt_request<>;
template <class Cache = kv::two_level_cache<>>
using engine = step_engine<iteration_scheduler<request, order::fcfs, preempt::swap, admit::watermark, Cache>>;

request& add(auto& e, std::size_t blocks, std::uint64_t own, std::int64_t output = 1) {
  request& r = e.add(static_cast<std::int64_t>(blocks * 16 + 1), output);
  r.hashes = hashes_of(blocks, 0, own);
  return r;
}

TEST_CASE("what is evicted on the device is found on the host") {
  engine<> e{{.blocks = 12, .block_size = 16_tok, .residents = 4, .host_blocks = 100}};
  e.submit(add(e, 5, 1));
  e.run_out();
  std::size_t demoted = 0;
  for (std::uint64_t own = 2; own != 6; ++own) {
    e.submit(add(e, 5, own));
    const auto plan = e.plan();
    demoted += plan.demoted.size();
    for (const kv_demotion& d : plan.demoted) CHECK(e.scheduler.host().capacity() > d.host);
    e.commit(plan);
  }
  CHECK(demoted >= 11);  // 25 full blocks, of which the device has 12 at most
  CHECK(e.scheduler.host().cached() == demoted);

  request& again = add(e, 5, 1);
  e.submit(again);
  SECTION("and copied to the row of who asks for it") {
    const auto plan = e.plan();
    REQUIRE(plan.size() == 1);
    CHECK(plan[0].first == 80_tok);
    CHECK(plan[0].count == 1_tok);
    REQUIRE(plan.swap_in.size() == 1);
    CHECK(plan.swap_in[0].request == &again);
    CHECK(plan.swap_in[0].first == 0);
    const auto row = e.row(again);
    CHECK(std::vector<kv::block_id>{plan.swap_in[0].device.begin(), plan.swap_in[0].device.end()} ==
          std::vector<kv::block_id>{row.begin(), row.begin() + 5});
    CHECK(plan.swap_in[0].host.size() == 5);
    CHECK(e.scheduler.counters().host_hit_blocks == 0);  // the plan may be abandoned
    // What is read is not written to in the same plan.
    for (const kv_demotion& d : plan.demoted) {
      for (const kv::block_id h : plan.swap_in[0].host) CHECK(d.host != h);
    }
    e.commit(plan);
    CHECK(e.scheduler.counters().host_hit_blocks == 5);
    CHECK(e.scheduler.counters().hit_blocks == 0);
    CHECK(e.scheduler.counters().host_hit_rate() == 5.0 / 36.0);
    // It is on the device again.
    CHECK(e.scheduler.store().knows(again.hashes[4]));
    request& third = add(e, 5, 1);
    e.submit(third);
    e.run_out();
    CHECK(third.state().shared_blocks == 5);
  }
  SECTION("an abandoned plan leaves no trace") {
    const auto first = e.plan();
    const std::vector<kv::block_id> host{first.swap_in[0].host.begin(), first.swap_in[0].host.end()};
    const std::size_t n = first.demoted.size();
    const auto cached = [&] { return e.scheduler.host().cached(); };
    e.abandon(first);
    CHECK(cached() == demoted);
    CHECK(e.scheduler.counters().host_hit_blocks == 0);
    const auto second = e.plan();
    CHECK(std::vector<kv::block_id>{second.swap_in[0].host.begin(), second.swap_in[0].host.end()} == host);
    CHECK(second.demoted.size() == n);
    e.commit(second);
  }
  SECTION("not when prefixes have been forgotten") {
    REQUIRE(e.scheduler.forget_prefixes() == status::ok);
    CHECK(e.scheduler.host().cached() == 0);
    const auto plan = e.plan();
    CHECK(plan[0].first == 0_tok);
    CHECK(plan.swap_in.empty());
    e.commit(plan);
    CHECK(e.scheduler.counters().host_hit_blocks == 0);
  }
}

TEST_CASE("half of a prefix is on the device, the rest on the host") {
  engine<> e{{.blocks = 12, .block_size = 16_tok, .residents = 4, .host_blocks = 100}};
  e.submit(add(e, 6, 1));
  e.run_out();
  e.submit(add(e, 8, 2));  // evicts the end of the first
  e.run_out();
  request& again = add(e, 6, 1);
  e.submit(again);
  const auto plan = e.plan();
  REQUIRE(plan.swap_in.size() == 1);
  CHECK(plan[0].first == 96_tok);
  CHECK(again.state().shared_blocks == plan.swap_in[0].first);
  CHECK(plan.swap_in[0].first > 0);
  CHECK(plan.swap_in[0].first + plan.swap_in[0].host.size() == 6);
  const std::size_t on_host = plan.swap_in[0].host.size();
  e.commit(plan);
  CHECK(e.scheduler.counters().host_hit_blocks == on_host);
  CHECK(e.scheduler.counters().hit_blocks == 6 - on_host);
}

TEST_CASE("what a swapped request brought back stays on the host for others; nothing is copied out twice") {
  using cache = kv::two_level_cache<kv::lru, kv::null_sink, std::uint64_t, false>;
  engine<cache> e{{.blocks = 12, .block_size = 16_tok, .residents = 4, .host_blocks = 40}};
  request& low = add(e, 6, 1, 40);
  e.submit(low);
  e.step();
  request& high = add(e, 10, 2, 3);
  high.priority = 5;
  e.submit(high);
  const auto plan = e.plan();
  REQUIRE(plan.swap_out.size() == 1);
  CHECK(plan.demoted.empty());
  e.commit(plan);
  e.run_out();
  CHECK(low.state().preemptions == 1);
  CHECK(e.scheduler.counters().host_hit_blocks == 0);  // it had a copy of its own
  CHECK(e.scheduler.host().cached() == 6);             // of 7, the last of which was not full
  e.submit(add(e, 11, 3));                             // drives it from the device
  e.run_out();
  request& again = add(e, 6, 1);
  e.submit(again);
  const auto load = e.plan();
  REQUIRE(load.swap_in.size() == 1);
  CHECK(load[0].first == 96_tok);
  e.commit(load);
  CHECK(e.scheduler.counters().host_hit_blocks == load.swap_in[0].host.size());
}

TEST_CASE("a victim's blocks that go to the host anyway are not demoted besides") {
  engine<> e{{.blocks = 12, .block_size = 16_tok, .residents = 4, .host_blocks = 40}};
  e.submit(add(e, 6, 1, 40));
  e.step();
  request& high = add(e, 11, 2, 3);
  high.priority = 5;
  e.submit(high);
  const auto plan = e.plan();
  REQUIRE(plan.swap_out.size() == 1);
  CHECK(plan.swap_out[0].device.size() == 7);
  CHECK(plan.demoted.empty());
  e.commit(plan);
  e.run_out();
}

TEST_CASE("two levels cost no allocation in a step") {
  engine<> e{{.blocks = 12, .block_size = 16_tok, .residents = 4, .host_blocks = 30}};
  for (std::uint64_t i = 0; i != 12; ++i) e.submit(add(e, 5, i % 4));
  std::size_t allocations = 0;
  std::size_t loads = 0;
  for (int i = 0; i != 40; ++i) {
    const std::vector<outcome> finished(4, {.finished = true});
    const tessera_test::no_allocation guard;
    const auto plan = e.plan({.max_batch = 4});
    loads += plan.swap_in.size();
    static_cast<void>(e.scheduler.commit(plan, std::span{finished}.first(plan.size()), e.now));
    allocations += guard.allocations();
  }
  CHECK(allocations == 0);
  CHECK(loads > 3);
  CHECK(e.scheduler.idle());
}

}  // namespace
