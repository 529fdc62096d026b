// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Random sequences of everything that an engine may do, as in scheduler_operations_test.cpp, over prefix caches that
// are not the default. Another policy chooses what is evicted, and a sink hears of it.

#include "property/run_operations.hpp"

#include <tessera/kv/host_cache.hpp>
#include <tessera/kv/keep_until.hpp>

#include "support/catch.hpp"
#include "support/is_slow.hpp"

namespace {

using namespace tessera_test;

using totals = operations_done;

template <class Order, class BlockStore, class Gate>
std::uint64_t one_run(std::uint64_t seed, bool with_abandoned, std::size_t plans_in_flight, totals& t) {
  t += run_operations<Order, BlockStore, Gate>({.seed = seed,
                                                .operations = plans_in_flight == 1 ? 150U : 300U,
                                                .with_abandoned = with_abandoned,
                                                .plans_in_flight = plans_in_flight,
                                                .aside = seed % 3 == 0});
  return t.digest;
}

/// One to four plans in flight. The same calls give the same plans, and an abandoned plan leaves no trace.
template <class Order, class BlockStore, class Gate = gate::in_line>
totals many_runs() {
  totals t;
  const std::uint64_t seeds = is_slow ? 60 : 400;
  for (std::uint64_t seed = 0; seed != seeds; ++seed) {
    const std::size_t plans = 1 + static_cast<std::size_t>(seed % 4);
    INFO("seed " << seed << ", " << plans << " plans in flight");
    const auto digest = one_run<Order, BlockStore, Gate>(seed, false, plans, t);
    REQUIRE(one_run<Order, BlockStore, Gate>(seed, true, plans, t) == digest);
  }
  CHECK(t.preempted > seeds);
  CHECK(t.hits > seeds);
  CHECK(t.resumed > seeds / 4);
  return t;
}

/// What the host remembers is found again, and read before anything else is stored there.
template <class Order, class BlockStore, class Gate = gate::in_line>
void many_runs_on_two_levels() {
  const totals t = many_runs<Order, BlockStore, Gate>();
  const std::size_t seeds = is_slow ? 60 : 400;
  CHECK(t.loads > seeds / 4);
  CHECK(t.demotions > seeds);
}

using keeping_cache = kv::basic_prefix_cache<kv::keep_until<>, kv::event_ring<256>>;

}  // namespace

TEST_CASE("any sequence of operations, a cache that keeps until: fcfs") { many_runs<order::fcfs, keeping_cache>(); }
TEST_CASE("any sequence of operations, a cache that keeps until: two_phase, backfill") {
  many_runs<order::two_phase, keeping_cache, gate::backfill>();
}
TEST_CASE("any sequence of operations, two levels of cache: fcfs") {
  many_runs_on_two_levels<order::fcfs, kv::two_level_cache<>>();
}
TEST_CASE("any sequence of operations, two levels of cache: two_phase, backfill, keep_until") {
  many_runs_on_two_levels<order::two_phase, kv::two_level_cache<kv::keep_until<>, kv::event_ring<64>>,
                          gate::backfill>();
}
TEST_CASE("any sequence of operations, two levels of cache, none is demoted: round_robin") {
  using cache = kv::two_level_cache<kv::lru, kv::null_sink, std::uint64_t, false>;
  const totals t = many_runs<order::round_robin, cache>();
  CHECK(t.loads > 0);
  CHECK(t.demotions == 0);
}
