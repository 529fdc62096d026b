// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Blocks that are taken away, found by others or given up while plans that name them are in flight.

#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/catch.hpp"
#include "unit/pipeline_plans_in_flight.hpp"

#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using tessera_test::in_flight::engine_of;
using tessera_test::in_flight::request;
using tessera_test::in_flight::two;
using tessera_test::in_flight::with_blocks;

}  // namespace

TEST_CASE("plans in flight: a victim's outcome counts, although it waits by then") {
  engine_of<> e{with_blocks(6)};
  request& low = e.submit(8, 12);  // 2 blocks, then 3
  e.step();
  e.step();
  REQUIRE(e.scheduler.blocks_held(low) == blocks{3});
  const auto first = e.plan();
  request& urgent = e.submit(16, 4, 1);
  const auto second = e.plan();
  REQUIRE(second.preempted.size() == 1);
  REQUIRE(second.swap_out.size() == 1);
  CHECK(second.swap_out[0].device.size() == 3);  // with the KV that the first plan computes
  CHECK(second[0].request == &urgent);
  e.commit(first);
  CHECK(low.state().life == lifecycle::waiting);
  CHECK(low.state().swapped);
  CHECK(low.state().length == 11_tok);
  CHECK(low.state().computed == 10_tok);
  CHECK(e.scheduler.evacuate(low) == status::busy);  // its KV is being copied
  e.commit(second, std::vector{outcome{.finished = true}});
  const auto third = e.plan();
  REQUIRE(third.swap_in.size() == 1);
  CHECK(third[0].request == &low);
  CHECK(third[0].first == 10_tok);
  CHECK(third[0].count == 1_tok);
  e.commit(third);
}

TEST_CASE("plans in flight: a victim waits until it is known where it goes on; and may have ended") {
  for (const bool ends : {false, true}) {
    engine_of<> e{with_blocks(6)};
    request& low = e.submit(8, 12);
    e.step();
    const auto first = e.plan();
    request& urgent = e.submit(20, 1, 1);
    const auto second = e.plan();
    REQUIRE(second.preempted.size() == 1);
    e.commit(first, std::vector{outcome{.finished = ends}});
    CHECK(e.scheduler.waiting_count() == (ends ? 0 : 1));
    CHECK(is_live(low.state().life));
    CHECK(e.scheduler.host_blocks_held() == blocks{3});
    e.commit(second);
    CHECK(urgent.state().life == lifecycle::finished);
    CHECK(e.scheduler.host_blocks_held() == blocks{ends ? 0 : 3});
    CHECK(is_live(low.state().life) != ends);
  }
  // Planned at once, it would have to begin with an unknown token.
  scheduler_limits l = with_blocks(6);
  l.plans_in_flight = 3;
  engine_of<> e{l};
  request& low = e.submit(8, 12);
  e.step();
  const auto first = e.plan();
  request& urgent = e.submit(20, 4, 1);
  const auto second = e.plan();
  CHECK(e.scheduler.cancel(urgent) == status::ok);
  const auto third = e.plan();
  CHECK(third.empty());
  CHECK(e.why(low) == wait_reason::in_flight);
  e.commit(first);
  e.commit(second);
  const auto fourth = e.plan();
  REQUIRE(fourth.size() == 1);
  CHECK(fourth[0].request == &low);
  e.commit(third);
  e.commit(fourth);
}

TEST_CASE("plans in flight: of one that was swapped out with drafts in flight, what was refused does not come back") {
  engine_of<> e{with_blocks(7)};
  request& low = e.submit(8, 0);
  e.step();
  const auto first = e.plan({.lookahead = 7_tok});
  request& urgent = e.submit(12, 1, 1);
  REQUIRE(e.scheduler.blocks_held(low) == blocks{4});
  static_cast<void>(e.submit(16, 1, 1));
  const auto second = e.plan();
  REQUIRE(second.preempted.size() == 1);
  REQUIRE(second.swap_out[0].host.size() == 4);
  CHECK(e.scheduler.host_blocks_held() == blocks{4});
  e.commit(first, std::vector{outcome{.produced = 1}});
  CHECK(low.state().computed == 9_tok);
  CHECK(e.scheduler.host_blocks_held() == blocks{3});
  e.commit(second);
  CHECK(urgent.state().life == lifecycle::finished);
  const auto third = e.plan();
  REQUIRE(third.swap_in.size() == 1);
  CHECK(third.swap_in[0].host.size() == 3);
  CHECK(third[0].first == 9_tok);
  CHECK(third[0].count == 1_tok);
  e.commit(third, std::vector<outcome>(third.size()));
  CHECK(e.scheduler.host_blocks_held() == blocks{0});
}

TEST_CASE("plans in flight: cancelled at any moment, it goes when the last plan is settled that has it") {
  engine_of<> e{two};
  request& r = e.submit(8, 20);
  request& other = e.submit(4, 20);
  e.step();
  const auto first = e.plan();
  SECTION("while the newest can be abandoned") {
    const auto second = e.plan();
    CHECK(e.scheduler.cancel(r) == status::ok);
    SECTION("and is") {
      e.abandon(second);
      CHECK(is_live(r.state().life));  // the first has it
      CHECK(e.plan().size() == 1);
      e.commit(first);
      CHECK(r.state().life == lifecycle::cancelled);
    }
    SECTION("and is not") {
      e.commit(first);
      CHECK(is_live(r.state().life));
      e.commit(second);
      CHECK(r.state().life == lifecycle::cancelled);
    }
  }
  SECTION("between plans") {
    const auto second = e.plan();
    e.commit(first);
    CHECK(e.scheduler.cancel(r) == status::ok);
    CHECK(e.scheduler.cancel(r) == status::unknown_request);
    CHECK_FALSE(e.scheduler.idle());
    const auto third = e.plan();
    CHECK(third.size() == 1);
    e.commit(second);
    CHECK(r.state().life == lifecycle::cancelled);
    CHECK(e.scheduler.cancel(other) == status::ok);
    e.commit(third);
    CHECK(e.scheduler.idle());
  }
  SECTION("who is in no plan goes at once") {
    const auto second = e.plan({.max_batch = 1});
    e.commit(first);
    CHECK(e.scheduler.cancel(other) == status::ok);
    CHECK(other.state().life == lifecycle::cancelled);
    e.commit(second);
  }
  SECTION("one that waits goes at once") {
    request& waits = e.submit(8, 20);
    const auto second = e.plan({.max_batch = 2});
    CHECK(e.scheduler.cancel(waits) == status::ok);
    CHECK(waits.state().life == lifecycle::cancelled);
    e.commit(first);
    e.commit(second);
  }
}

TEST_CASE("plans in flight: a prompt is found by others once it is known to be computed") {
  engine_of<order::fcfs, kv::prefix_cache> e{two};
  static_cast<void>(e.submit_hashed(12, 20, 3, 3));
  const auto first = e.plan();
  static_cast<void>(e.submit_hashed(13, 20, 3, 3));
  const auto second = e.plan({.max_starts = 0});
  CHECK(e.scheduler.store().knows(e.requests[0].hashes[0]) == false);
  e.commit(first);
  CHECK(e.scheduler.store().knows(e.requests[0].hashes[2]));
  const auto third = e.plan();
  REQUIRE(third.decode.size() == 2);  // all but the last token was found
  CHECK(third.decode[1].first == 12_tok);
  e.commit(second);
  e.commit(third);

  // What failed is not to be found.
  engine_of<order::fcfs, kv::prefix_cache> f{two};
  static_cast<void>(f.submit_hashed(12, 20, 3, 3));
  const auto fails = f.plan();
  const auto next = f.plan();
  f.commit(fails, std::vector{outcome{.failed = true}});
  f.commit(next);
  CHECK_FALSE(f.scheduler.store().knows(f.requests[0].hashes[0]));
  CHECK(f.scheduler.idle());
}

TEST_CASE("plans in flight: what was computed to blocks that were taken away is not found in those that came after") {
  scheduler_limits l = two;
  l.plans_in_flight = 3;
  engine_of<order::fcfs, kv::prefix_cache> e{l};
  const auto before = e.plan();
  request& r = e.submit_hashed(16, 20, 4, 4);
  const auto first = e.plan({.max_chunk = 12_tok});
  e.commit(before);
  REQUIRE(e.scheduler.preempt(r) == status::ok);
  const auto second = e.plan({.max_chunk = 4_tok});
  REQUIRE(second[0].first == 0_tok);
  e.commit(first);
  CHECK_FALSE(e.scheduler.store().knows(r.hashes[0]));
  e.commit(second);
  CHECK(e.scheduler.store().knows(r.hashes[0]));
  CHECK_FALSE(e.scheduler.store().knows(r.hashes[1]));
}

TEST_CASE("plans in flight: a start that was abandoned leaves a victim with the plan that evicted it, and no other") {
  scheduler_limits l = two;
  l.residents = 1;
  l.plans_in_flight = 3;
  engine_of<> e{l};
  request& low = e.submit(8, 20);
  e.step();
  request& urgent = e.submit(8, 20, 1);
  const auto evicts = e.plan();
  REQUIRE(evicts.preempted.size() == 1);
  const auto next = e.plan();
  CHECK(e.scheduler.cancel(urgent) == status::ok);
  const auto starts = e.plan();
  REQUIRE(starts.size() == 1);
  REQUIRE(starts[0].request == &low);
  e.abandon(starts);
  CHECK(e.scheduler.is_in_flight(low));
  e.commit(evicts);
  CHECK_FALSE(e.scheduler.is_in_flight(low));
  CHECK(e.scheduler.cancel(low) == status::ok);
  CHECK(low.state().life == lifecycle::cancelled);
  e.commit(next);
  CHECK(urgent.state().life == lifecycle::cancelled);
  CHECK(e.scheduler.idle());
}
