// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Any sequence of operations on a scheduler with groups (groups_world.hpp). Beside what is checked there: that the same
// calls give the same plans, and that an abandoned one leaves no trace.

#include "property/groups_operations.hpp"

#include <random>

#include "support/catch.hpp"
#include "support/is_slow.hpp"

namespace {

using namespace tessera_test::grouped;
using kv::group;

constexpr std::array<std::array<group, 3>, 6> models{{
    {group::full(4_tok), group::sliding(4_tok, 13_tok), group::recurrent(8_tok)},
    {group::full(4_tok), group::sliding(2_tok, 7_tok), group::sliding(4_tok, 24_tok)},
    {group::sliding(4_tok, 9_tok), group::full(6_tok), group::recurrent(3_tok)},
    {group::sliding(4_tok, 16_tok), group::sliding(8_tok, 5_tok), group::full(2_tok)},
    {group::recurrent(8_tok), group::recurrent(4_tok), group::sliding(4_tok, 3_tok)},
    {group::recurrent(4_tok, true), group::full(4_tok), group::recurrent(4_tok, true)},
}};

struct seeded {
  std::mt19937 random;
  std::size_t operator()(std::size_t n) { return static_cast<std::size_t>(random() % n); }
};

template <class Order, class Gate>
std::uint64_t one_run(std::uint32_t seed, bool with_abandoned, bool remembers, totals& t) {
  seeded below{std::mt19937{seed}};
  seeded extra{std::mt19937{seed + 1}};
  setting<3> s{
      .layers = models[seed % models.size()], .plans_in_flight = 1 + seed / models.size() % 4, .remembers = remembers};
  if (seed / models.size() % 8 >= 4) s.plans_apart = s.plans_in_flight - seed % 2 * (s.plans_in_flight - 1) / 3;
  if (seed % 2 == 1) s.layers = random_layers<3>(below);
  return play<Order, Gate>(s, below, with_abandoned ? &extra : nullptr, t);
}

template <class Order, class Gate = gate::in_line>
void many_runs() {
  totals t;
  const std::uint32_t seeds = tessera_test::is_slow ? 50 : 500;
  for (std::uint32_t seed = 0; seed != seeds; ++seed) {
    INFO("seed " << seed);
    totals again;
    const std::uint64_t digest = one_run<Order, Gate>(seed, false, true, t);
    REQUIRE(one_run<Order, Gate>(seed, true, true, again) == digest);
    REQUIRE(one_run<Order, Gate>(seed, false, false, again) == digest);
  }
  CHECK(t.hits > seeds);
  CHECK(t.preempted > seeds / 2);
  CHECK(t.forks > seeds / 6);
  CHECK(t.refused_drafts > seeds / 2);
  CHECK(t.accepted_drafts > seeds / 2);
  CHECK(t.finished > seeds);
  CHECK(t.void_entries > seeds / 4);
  CHECK(t.late > seeds / 4);
  CHECK(t.loaded > seeds / 8);
  CHECK((t.partly > 0 || tessera_test::is_slow));
  CHECK(t.lost > 0);
  CHECK(t.fetched > seeds / 4);
  CHECK(t.spoilt > 0);
}

}  // namespace

TEST_CASE("groups: any sequence of operations, fcfs") { many_runs<order::fcfs>(); }
TEST_CASE("groups: any sequence of operations, round_robin") { many_runs<order::round_robin>(); }
TEST_CASE("groups: any sequence of operations, fcfs, backfill") { many_runs<order::fcfs, gate::backfill>(); }
