// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Groups that start together, and several gates at once. Random sequences of everything, with plans that are abandoned,
// are in tests/property.

#include <tessera/gate/adapter_slots.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/gate/backfill.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/gate/groups.hpp>
#include <tessera/gate/tenant_deficits.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "unit/gate_start_or_skip.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using tessera_test::start_or_skip::fixture;
using tessera_test::start_or_skip::request;
using tessera_test::start_or_skip::roomy;

}  // namespace

TEST_CASE("groups: all of a group have room before the first of them starts") {
  fixture<gate::groups> f{{.blocks = 1000, .block_size = 16_tok, .residents = 4}, {}};
  request& a = f.submit(4, 6);
  request& b = f.submit(20, 4);
  b.forks_due = 3;
  request& c = f.submit(4, 1);
  CHECK(f.step() == std::vector{&a});
  CHECK(f.scheduler.why(b) == wait_reason::gated);
  CHECK(f.scheduler.why(c) == wait_reason::behind_others);  // the places are kept for the group
  for (int i = 0; i != 6; ++i) f.step();
  CHECK(a.state().life == lifecycle::finished);
  CHECK(b.state().life == lifecycle::resident);
  CHECK(c.state().life == lifecycle::waiting);
  for (int i = 0; i != 3; ++i) {
    request& child = f.requests.emplace_back(b);
    child.forks_due = 0;
    REQUIRE(f.scheduler.fork(b, child) == status::ok);
    --b.forks_due;
  }
  CHECK(f.scheduler.resident_count() == 4);
  while (!f.scheduler.idle()) f.step();
  CHECK(c.state().life == lifecycle::finished);
}

TEST_CASE("groups: with two plans in flight none goes on with one that is to be forked yet") {
  fixture<gate::groups> f{{.blocks = 1000, .block_size = 16_tok, .residents = 4, .plans_in_flight = 2}, {}};
  request& parent = f.submit(20, 4);
  parent.forks_due = 2;
  f.plan();
  const auto first = f.p;
  f.plan();
  const auto second = f.p;
  REQUIRE(first.size() == 1);
  CHECK(second.empty());
  CHECK(f.scheduler.why(parent) == wait_reason::in_flight);
  f.p = first;
  f.commit();
  for (int i = 0; i != 2; ++i) {
    request& child = f.requests.emplace_back(parent);
    child.forks_due = 0;
    REQUIRE(f.scheduler.fork(parent, child) == status::ok);
    --parent.forks_due;
  }
  // From now on it goes on as any other.
  f.plan();
  const auto third = f.p;
  CHECK(third.size() == 3);
  f.p = second;
  f.commit();
  f.plan();
  const auto fourth = f.p;
  CHECK(fourth.size() == 3);
  f.p = third;
  f.commit();
  f.p = fourth;
  f.commit();
  CHECK(parent.generated() == 3_tok);
  while (!f.scheduler.idle()) f.step();
  for (const request& r : f.requests) CHECK(r.state().life == lifecycle::finished);
}

TEST_CASE("groups: a group that is larger than the instance does not wait for ever") {
  fixture<gate::groups> f{{.blocks = 1000, .block_size = 16_tok, .residents = 4}, {}};
  request& a = f.submit(4, 2);
  request& b = f.submit(4, 1);
  b.forks_due = 9;
  CHECK(f.step() == std::vector{&a});
  f.step();
  CHECK(f.step() == std::vector{&b});
}

TEST_CASE("all: the strictest answer counts, and each hears of everything") {
  using both = gate::all<gate::adapter_slots, gate::fair_tenants, gate::in_line>;
  static_assert(gate_policy<both, request> && !both::backfills && both::screens && both::counts);
  static_assert(gate_policy<gate::all<gate::in_line>, request> && !gate::all<gate::in_line>::screens);
  static_assert(gate::all<gate::adapter_slots, gate::backfill>::backfills);
  both gates{};
  std::get<0>(gates.gates).slots = 1;
  fixture<both> f{roomy, gates};
  request& a = f.submit(4, 9, 1, 1);
  request& b = f.submit(4, 1, 2, 2);  // its tenant's turn, but another adapter
  request& c = f.submit(4, 1, 1, 1);  // its adapter, but not its tenant's turn: it starts when no other can
  request& d = f.submit(4, 1, 0, 3);
  CHECK(f.plan() == std::vector{&a, &d, &c});
  CHECK(f.scheduler.why(b) == wait_reason::gated);
  f.commit();
  CHECK(std::get<0>(f.scheduler.gate().gates).users(1) == 1);
  CHECK(std::get<1>(f.scheduler.gate().gates).had(3) > 0);
  while (!f.scheduler.idle()) f.step();
  CHECK(std::get<0>(f.scheduler.gate().gates).users(1) == 0);
}

TEST_CASE("all: backfilling among others is as backfilling alone") {
  const scheduler_limits tight{.blocks = 40, .block_size = 4_tok, .residents = 8};
  for (std::uint64_t seed = 0; seed != 40; ++seed) {
    fixture<gate::backfill> alone{tight, {}};
    fixture<gate::all<gate::adapter_slots, gate::backfill>> among{tight, {}};
    std::mt19937_64 random{seed};
    for (int step = 0; step != 60; ++step) {
      for (std::uint64_t n = random() % 3; n != 0; --n) {
        const auto prompt = static_cast<std::int64_t>(1 + random() % 60);
        const auto output = static_cast<std::int64_t>(1 + random() % 30);
        alone.submit(prompt, output);
        among.submit(prompt, output);
      }
      const auto one = alone.step();
      const auto other = among.step();
      REQUIRE(one.size() == other.size());
      for (std::size_t i = 0; i != one.size(); ++i) REQUIRE(one[i]->state().sequence == other[i]->state().sequence);
    }
    for (request& r : alone.requests) static_cast<void>(alone.scheduler.cancel(r));
    for (request& r : among.requests) static_cast<void>(among.scheduler.cancel(r));
  }
}

TEST_CASE("gates allocate nothing") {
  using some = gate::all<gate::adapter_slots, gate::fair_tenants, gate::groups, gate::backfill>;
  fixture<some> f{roomy, {}};
  std::vector<request*> all;
  for (std::uint32_t i = 0; i != 12; ++i) all.push_back(&f.submit(20, 4, 1 + i, i % 3));
  std::array<outcome, 16> outcomes{};
  const tessera_test::no_allocation guard;
  for (int i = 0; i != 30; ++i) {
    auto p = f.scheduler.plan(time_point{}, {});
    if (i % 3 == 0) {
      f.scheduler.abandon(p);
      p = f.scheduler.plan(time_point{}, {});
    }
    f.scheduler.commit(p, std::span{outcomes}.first(p.size()), time_point{});
    if (i > 10) f.scheduler.cancel(*all[static_cast<std::size_t>(i) % 12]);
  }
  const auto allocations = guard.allocations();
  CHECK(allocations == 0);
  for (request* r : all) static_cast<void>(f.scheduler.cancel(*r));
}
