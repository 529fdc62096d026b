// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Random sequences of everything that an engine may do, for all orders, block stores, and ways to preempt and admit.
// What must hold at any moment holds, everything ends once, and nothing is left. The same calls give the same plans,
// and an abandoned plan leaves no trace. With one plan in flight, and with up to four. With parked requests, KV that
// arrives late, in part or never, and copies that are done late or never. And with plans that sample for one request
// some plans apart.

#include "property/seeded_operations.hpp"

#include "support/catch.hpp"
#include "support/is_slow.hpp"

namespace {

using namespace tessera_test;

using totals = operations_done;

template <class Order, class BlockStore, class Gate>
std::uint64_t one_run(std::uint64_t seed, bool with_abandoned, std::size_t plans_in_flight, totals& t,
                      bool aside = false, std::size_t plans_apart = 1) {
  t += run_operations<Order, BlockStore, Gate>({.seed = seed,
                                                .operations = plans_in_flight == 1 ? 150U : 300U,
                                                .with_abandoned = with_abandoned,
                                                .plans_in_flight = plans_in_flight,
                                                .aside = aside,
                                                .plans_apart = plans_apart});
  return t.digest;
}

template <class Order, class BlockStore, class Gate = gate::in_line>
totals many_runs() {
  totals t;
  for (std::uint64_t seed = 0; seed != 300; ++seed) {
    INFO("seed " << seed);
    const auto digest = one_run<Order, BlockStore, Gate>(seed, false, 1, t);
    REQUIRE(one_run<Order, BlockStore, Gate>(seed, false, 1, t) == digest);
    REQUIRE(one_run<Order, BlockStore, Gate>(seed, true, 1, t) == digest);
  }
  return t;
}

/// Two to four plans in flight; every fourth seed also with plans that are abandoned.
constexpr std::uint64_t seeds_in_flight = is_slow ? 40 : 420;

template <class Order, class BlockStore, class Gate>
void in_flight() {
  totals t;
  for (std::uint64_t seed = 0; seed != seeds_in_flight; ++seed) {
    const std::size_t plans = 2 + static_cast<std::size_t>(seed % 3);
    INFO("seed " << seed << ", " << plans << " plans in flight");
    const auto digest = one_run<Order, BlockStore, Gate>(seed, false, plans, t);
    if (seed % 4 == 0) REQUIRE(one_run<Order, BlockStore, Gate>(seed, true, plans, t) == digest);
  }
  CHECK(t.preempted > seeds_in_flight / 2);
  CHECK(t.migrated > seeds_in_flight);
  CHECK(t.resumed > seeds_in_flight / 4);
}

template <class Order>
void all_in_flight() {
  in_flight<Order, kv::block_pool, gate::in_line>();
  in_flight<Order, kv::prefix_cache, gate::in_line>();
  in_flight<Order, kv::block_pool, gate::backfill>();
  in_flight<Order, kv::prefix_cache, gate::backfill>();
}

template <class Order, class BlockStore, class Gate>
void standing_aside() {
  constexpr std::uint64_t seeds = is_slow ? 60 : 600;
  totals t;
  for (std::uint64_t seed = 0; seed != seeds; ++seed) {
    const std::size_t plans = 1 + static_cast<std::size_t>(seed % 4);
    INFO("seed " << seed << ", " << plans << " plans in flight");
    const auto digest = one_run<Order, BlockStore, Gate>(seed, false, plans, t, true);
    if (seed % 3 == 0) REQUIRE(one_run<Order, BlockStore, Gate>(seed, true, plans, t, true) == digest);
  }
  CHECK(t.parked > seeds);
  CHECK(t.arrived > seeds / 20);
  CHECK(t.drained > seeds / 60);
  CHECK(t.late > seeds);
}

template <class Order>
void all_standing_aside() {
  standing_aside<Order, kv::block_pool, gate::in_line>();
  standing_aside<Order, kv::prefix_cache, gate::in_line>();
  standing_aside<Order, kv::block_pool, gate::backfill>();
  standing_aside<Order, kv::prefix_cache, gate::backfill>();
}

/// Two to four plans in flight, and as many or one fewer apart. Half of the time with parked requests.
template <class Order, class BlockStore>
void apart() {
  constexpr std::uint64_t seeds = is_slow ? 60 : 600;
  totals t;
  for (std::uint64_t seed = 0; seed != seeds; ++seed) {
    const std::size_t plans = 2 + static_cast<std::size_t>(seed % 3);
    const std::size_t least = plans - static_cast<std::size_t>(seed / 3 % 2);
    const bool aside = seed % 4 >= 2;
    INFO("seed " << seed << ", " << plans << " plans in flight, " << least << " apart");
    const auto digest = one_run<Order, BlockStore, gate::in_line>(seed, false, plans, t, aside, least);
    if (seed % 3 == 0) REQUIRE(one_run<Order, BlockStore, gate::in_line>(seed, true, plans, t, aside, least) == digest);
  }
  CHECK(t.preempted > seeds / 2);
  CHECK(t.migrated > seeds / 2);
  CHECK(t.resumed > seeds / 8);
}

template <class Order>
void all_apart() {
  apart<Order, kv::block_pool>();
  apart<Order, kv::prefix_cache>();
}

/// Adapters, tenants and backfilling at once, half of the time with parked requests.
template <class Order, class BlockStore>
void gated() {
  constexpr std::uint64_t seeds = is_slow ? 60 : 600;
  totals t;
  for (std::uint64_t seed = 0; seed != seeds; ++seed) {
    const std::size_t plans = 1 + static_cast<std::size_t>(seed % 4);
    const bool aside = seed % 8 >= 4;
    INFO("seed " << seed << ", " << plans << " plans in flight");
    const auto digest = one_run<Order, BlockStore, all_gates>(seed, false, plans, t, aside);
    if (seed % 3 == 0) REQUIRE(one_run<Order, BlockStore, all_gates>(seed, true, plans, t, aside) == digest);
  }
  CHECK(t.parked > seeds / 2);
  CHECK(t.migrated > seeds / 2);
}

template <class Order>
void both_stores() {
  const totals pool = many_runs<Order, kv::block_pool>();
  CHECK(pool.preempted > 500);
  CHECK(pool.migrated > 1000);
  CHECK(pool.resumed > 200);
  CHECK(pool.lost > 200);
  CHECK(pool.forked > 200);
  const totals cache = many_runs<Order, kv::prefix_cache>();
  CHECK(cache.preempted > 500);
  CHECK(cache.hits > 500);
  CHECK(many_runs<Order, kv::block_pool, gate::backfill>().preempted > 500);
  CHECK(many_runs<Order, kv::prefix_cache, gate::backfill>().preempted > 500);
}

}  // namespace

TEST_CASE("any sequence of operations: fcfs") { both_stores<order::fcfs>(); }
TEST_CASE("any sequence of operations: round_robin") { both_stores<order::round_robin>(); }
TEST_CASE("any sequence of operations: two_phase") { both_stores<order::two_phase>(); }
TEST_CASE("any sequence of operations: ranked") { both_stores<order::ranked<>>(); }
TEST_CASE("any sequence of operations: paced") { both_stores<paced_order>(); }
TEST_CASE("any sequence of operations: earliest_due") { both_stores<due_order>(); }
TEST_CASE("any sequence of operations: response_ratio") {
  CHECK(many_runs<ratio_order, kv::block_pool>().preempted > 500);
  in_flight<ratio_order, kv::block_pool, gate::in_line>();
}
TEST_CASE("any sequence of operations, plans in flight: fcfs") { all_in_flight<order::fcfs>(); }
TEST_CASE("any sequence of operations, plans in flight: round_robin") { all_in_flight<order::round_robin>(); }
TEST_CASE("any sequence of operations, plans in flight: two_phase") { all_in_flight<order::two_phase>(); }
TEST_CASE("any sequence of operations, plans in flight: ranked") { all_in_flight<order::ranked<>>(); }
TEST_CASE("any sequence of operations, plans in flight: paced") { all_in_flight<paced_order>(); }
TEST_CASE("any sequence of operations, plans in flight: earliest_due") { all_in_flight<due_order>(); }
TEST_CASE("any sequence of operations, standing aside: fcfs") { all_standing_aside<order::fcfs>(); }
TEST_CASE("any sequence of operations, standing aside: round_robin") { all_standing_aside<order::round_robin>(); }
TEST_CASE("any sequence of operations, standing aside: two_phase") { all_standing_aside<order::two_phase>(); }
TEST_CASE("any sequence of operations, standing aside: ranked") { all_standing_aside<order::ranked<>>(); }
TEST_CASE("any sequence of operations, standing aside: paced") { all_standing_aside<paced_order>(); }
TEST_CASE("any sequence of operations, standing aside: earliest_due") { all_standing_aside<due_order>(); }
TEST_CASE("any sequence of operations, plans apart: fcfs") { all_apart<order::fcfs>(); }
TEST_CASE("any sequence of operations, plans apart: round_robin") { all_apart<order::round_robin>(); }
TEST_CASE("any sequence of operations, plans apart: two_phase") { all_apart<order::two_phase>(); }
TEST_CASE("any sequence of operations, plans apart: ranked") { all_apart<order::ranked<>>(); }
TEST_CASE("any sequence of operations, plans apart: paced") { all_apart<paced_order>(); }
TEST_CASE("any sequence of operations, plans apart: earliest_due") { all_apart<due_order>(); }
TEST_CASE("any sequence of operations, gates: fcfs") { gated<order::fcfs, kv::block_pool>(); }
TEST_CASE("any sequence of operations, gates: ranked") { gated<order::ranked<>, kv::block_pool>(); }
TEST_CASE("any sequence of operations, gates: earliest_due") { gated<due_order, kv::block_pool>(); }
TEST_CASE("any sequence of operations, gates: two_phase") { gated<order::two_phase, kv::prefix_cache>(); }
TEST_CASE("any sequence of operations, gates: round_robin") { gated<order::round_robin, kv::prefix_cache>(); }
