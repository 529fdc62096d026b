// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Victims that are chosen among the last few, in random sequences of everything that an engine may do. What must hold
// holds, an abandoned plan leaves no trace, and refusals that are remembered change no plan. A textbook in
// scheduler_reference_test.cpp checks which victims a scheduler chooses.

#include "property/run_operations.hpp"

#include "support/catch.hpp"
#include "support/is_slow.hpp"

namespace {

using namespace tessera_test;

template <class Order, class BlockStore>
void many_runs() {
  constexpr std::uint64_t seeds = is_slow ? 60 : 600;
  operations_done t;
  for (std::uint64_t seed = 0; seed != seeds; ++seed) {
    const std::size_t plans = 1 + static_cast<std::size_t>(seed % 4);
    const bool aside = seed % 8 >= 4;
    INFO("seed " << seed << ", " << plans << " plans in flight");
    const auto run = [&](bool with_abandoned) {
      t += run_operations<Order, BlockStore, chosen_victims>({.seed = seed,
                                                              .operations = 250,
                                                              .with_abandoned = with_abandoned,
                                                              .plans_in_flight = plans,
                                                              .aside = aside});
      return t.digest;
    };
    const std::uint64_t digest = run(false);
    if (seed % 2 == 0) REQUIRE(run(true) == digest);
    const auto unseen = [&](bool remember) {
      return run_operations<Order, BlockStore, chosen_victims>(
                 {.seed = seed, .remember = remember, .looks = false, .plans_in_flight = plans})
          .digest;
    };
    REQUIRE(unseen(true) == unseen(false));
  }
  CHECK(t.preempted > seeds / 4);
  CHECK(t.resumed > seeds / 16);
}

}  // namespace

TEST_CASE("any sequence of operations, victims chosen: fcfs") {
  many_runs<order::fcfs, kv::block_pool>();
  many_runs<order::fcfs, kv::prefix_cache>();
}
TEST_CASE("any sequence of operations, victims chosen: ranked") { many_runs<order::ranked<>, kv::prefix_cache>(); }
TEST_CASE("any sequence of operations, victims chosen: earliest_due") { many_runs<due_order, kv::prefix_cache>(); }
