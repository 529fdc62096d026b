// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Refusals that are remembered change no plan: with and without them, the same plans over random sequences of
// operations, for all orders, stores and gates. The test does not look meanwhile, so no request ages except by the
// plans themselves.

#include "property/seeded_operations.hpp"

#include "support/catch.hpp"
#include "support/is_slow.hpp"

namespace {

using namespace tessera_test;

constexpr std::uint64_t seeds = is_slow ? 300 : 3'000;

template <class Order, class BlockStore, class Gate>
std::uint64_t one_run(std::uint64_t seed, bool remember, std::size_t plans_in_flight) {
  return run_operations<Order, BlockStore, Gate>(
             {.seed = seed, .remember = remember, .looks = false, .plans_in_flight = plans_in_flight})
      .digest;
}

template <class Order, class BlockStore, class Gate>
void compare() {
  for (std::uint64_t seed = 0; seed != seeds; ++seed) {
    const std::size_t plans = seed % 8 == 0 ? 2 + static_cast<std::size_t>(seed / 8 % 3) : 1;
    const auto remembering = one_run<Order, BlockStore, Gate>(seed, true, plans);
    const auto forgetting = one_run<Order, BlockStore, Gate>(seed, false, plans);
    if (remembering != forgetting) FAIL("the plans differ for seed " << seed);
  }
  SUCCEED();
}

template <class Order>
void compare_all() {
  compare<Order, kv::block_pool, gate::in_line>();
  compare<Order, kv::prefix_cache, gate::in_line>();
  compare<Order, kv::block_pool, gate::backfill>();
  compare<Order, kv::prefix_cache, gate::backfill>();
}

}  // namespace

TEST_CASE("remembered refusals change no plan: fcfs") { compare_all<order::fcfs>(); }
TEST_CASE("remembered refusals change no plan: round_robin") { compare_all<order::round_robin>(); }
TEST_CASE("remembered refusals change no plan: two_phase") { compare_all<order::two_phase>(); }
TEST_CASE("remembered refusals change no plan: ranked") { compare_all<order::ranked<>>(); }
TEST_CASE("remembered refusals change no plan: paced") { compare_all<paced_order>(); }
TEST_CASE("remembered refusals change no plan: earliest_due") { compare_all<due_order>(); }
