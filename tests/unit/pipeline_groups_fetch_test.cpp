// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// KV from elsewhere for a model with several groups of layers. What does each group take of it, and when may that be
// written? What becomes of a request with less than was announced? Any sequence of these is in tests/property.

#include <tessera/compose/fcfs.hpp>
#include <tessera/kv/row_tables.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <array>
#include <deque>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using kv::group;

struct request : request_hook {};
using scheduler_type = fcfs<request, kv::groups<2>, kv::row_tables>;
using limits_type = scheduler_type::limits;

constexpr time_point never = time_point::never();

struct engine {
  explicit engine(std::size_t plans_in_flight = 1, group second = group::sliding(4_tok, 10_tok),
                  std::size_t blocks = 60)
      : limits{{.blocks = blocks,
                .residents = 4,
                .max_length = 128_tok,
                .plans_in_flight = plans_in_flight,
                .deadlines = 8},
               {group::full(4_tok), second}},
        storage{storage_for<scheduler_type>(limits)},
        scheduler{storage} {}
  ~engine() {
    for (request& r : all) static_cast<void>(scheduler.cancel(r));
    for (request& r : all) static_cast<void>(scheduler.arrived(r, {}));
  }
  request& submit(std::int64_t prompt, int priority = 0) {
    request& r = all.emplace_back();
    r.prompt = tokens{prompt};
    r.max_output = 20_tok;
    r.priority = priority;
    REQUIRE(scheduler.submit(r, now) == status::accepted);
    return r;
  }
  /// The KV of its first `n` tokens is on its way.
  request& submit_loading(std::int64_t prompt, tokens n, time_point deadline = never) {
    request& r = submit(prompt);
    REQUIRE(scheduler.loading(r, n, deadline) == status::ok);
    return r;
  }
  scheduler_type::plan_type plan() { return scheduler.plan(now, {}); }
  void commit(const scheduler_type::plan_type& p) {
    const std::vector<outcome> outcomes(p.size());
    REQUIRE(scheduler.commit(p, outcomes, now) == status::ok);
  }
  void step() { commit(plan()); }

  limits_type limits;
  owned_storage<limits_type> storage;
  scheduler_type scheduler;
  std::deque<request> all;
  time_point now{};
};

TEST_CASE("groups: KV on its way is listed group by group, a window's as far as it is needed", "[pipeline]") {
  engine e;
  request& r = e.submit_loading(50, 49_tok);
  const auto p = e.plan();
  REQUIRE(p.empty());
  REQUIRE(p.load.size() == 2);
  CHECK(p.load[0].request == &r);
  CHECK((p.load[0].group == 0 && p.load[0].first == 0 && p.load[0].device.size() == 13));
  CHECK((p.load[1].group == 1 && p.load[1].first == 10 && p.load[1].device.size() == 3));  // 40 to 49
  CHECK(p.load_after == 0);
  // No more than these, besides a block for the last token where there is none.
  CHECK(e.scheduler.device_blocks_held() == 16_blk);
  e.commit(p);

  REQUIRE(e.scheduler.arrived(r, 49_tok) == status::ok);
  const auto next = e.plan();
  REQUIRE(next.size() == 1);
  CHECK((next[0].first == 49_tok && next[0].count == 1_tok && next[0].samples));
  e.commit(next);
}

TEST_CASE("groups: with less than was announced it goes on if every window still can", "[pipeline]") {
  SECTION("a window has passed what is needed: it waits, and computes all of it") {
    engine e;
    request& r = e.submit_loading(50, 49_tok);
    e.step();
    REQUIRE(e.scheduler.arrived(r, 48_tok) == status::ok);
    CHECK(r.state().life == lifecycle::waiting);
    CHECK(e.scheduler.device_blocks_held() == 0_blk);
    const auto p = e.plan();
    REQUIRE(p.size() == 1);
    CHECK((p[0].first == 0_tok && p[0].origin == entry_origin::resumed));
    e.commit(p);
  }
  SECTION("all of it is in the window") {
    engine e;
    request& r = e.submit_loading(9, 8_tok);
    e.step();
    REQUIRE(e.scheduler.arrived(r, 5_tok) == status::ok);
    const auto p = e.plan();
    REQUIRE(p.size() == 1);
    CHECK((p[0].first == 5_tok && p[0].count == 4_tok));
    e.commit(p);
  }
  SECTION("a state is that of one place") {
    engine e{1, group::recurrent(4_tok)};
    request& r = e.submit_loading(9, 8_tok);
    const auto p = e.plan();
    REQUIRE(p.load.size() == 2);
    CHECK((p.load[1].first == 1 && p.load[1].device.size() == 1));
    e.commit(p);
    REQUIRE(e.scheduler.arrived(r, 7_tok) == status::ok);
    CHECK(r.state().life == lifecycle::waiting);
  }
  SECTION("the deadline has passed") {
    engine e;
    e.submit_loading(50, 49_tok, time_point{1_s});
    e.step();
    e.now = time_point{2_s};
    const auto p = e.plan();
    REQUIRE(p.late.size() == 1);
    REQUIRE(p.size() == 1);
    CHECK(p[0].first == 0_tok);
    e.commit(p);
  }
}

TEST_CASE("groups: KV that comes with a plan, and that of an adopted request", "[pipeline]") {
  engine e;
  request& r = e.submit(50);
  REQUIRE(e.scheduler.fetching(r, 40_tok) == status::ok);
  auto p = e.plan();
  REQUIRE(p.fetch.size() == 2);
  CHECK((p.fetch[0].first == 0 && p.fetch[0].device.size() == 10));
  CHECK((p.fetch[1].first == 7 && p.fetch[1].device.size() == 3));
  REQUIRE(p.size() == 1);
  CHECK((p[0].first == 40_tok && p[0].count == 10_tok));
  e.commit(p);
  e.step();

  REQUIRE(e.scheduler.evacuate(r) == status::ok);
  CHECK(r.progress().computed == 51_tok);
  REQUIRE(e.scheduler.adopt(r) == status::accepted);
  p = e.plan();
  REQUIRE(p.fetch.size() == 2);
  CHECK((p.fetch[0].first == 0 && p.fetch[0].device.size() == 13));
  CHECK((p.fetch[1].first == 10 && p.fetch[1].device.size() == 3));
  REQUIRE(p.size() == 1);
  CHECK((p[0].first == 51_tok && p[0].count == 1_tok));
  e.commit(p);
}

TEST_CASE("groups: blocks that a plan in flight reads are written to after that", "[pipeline]") {
  engine e{2, group::sliding(4_tok, 10_tok), 24};
  request& low = e.submit(50);
  e.step();
  const auto running = e.plan();
  REQUIRE(running.size() == 1);
  request& high = e.submit(50, 1);
  REQUIRE(e.scheduler.loading(high, 49_tok, never) == status::ok);
  const auto p = e.plan();
  REQUIRE(p.preempted.size() == 1);
  CHECK(p.preempted[0].request == &low);
  CHECK(p.load_after == running.id);
  e.commit(running);
  e.commit(p);
  CHECK(e.scheduler.arrived(high, 49_tok) == status::ok);
}

TEST_CASE("groups: so are blocks that a victim of an earlier plan has given up", "[pipeline]") {
  engine e{3, group::sliding(4_tok, 10_tok), 24};
  request& low = e.submit(50);
  e.step();
  const auto running = e.plan();
  REQUIRE(running.size() == 1);
  e.submit(30, 2);
  const auto evicts = e.plan();
  REQUIRE(evicts.preempted.size() == 1);
  CHECK(evicts.preempted[0].request == &low);
  request& loads = e.submit(16, 1);
  REQUIRE(e.scheduler.loading(loads, 15_tok, never) == status::ok);
  const auto p = e.plan();
  REQUIRE(p.load.size() == 2);
  CHECK(p.load_after >= running.id);
  e.commit(running);
  e.commit(evicts);
  e.commit(p);
  CHECK(e.scheduler.arrived(loads, 15_tok) == status::ok);
}

TEST_CASE("groups: a window keeps what the last token has looked at, for an instance that computes it anew") {
  limits_type l{{.blocks = 60, .residents = 4, .max_length = 128_tok},
                {group::full(4_tok), group::sliding(4_tok, 8_tok)}};
  for (const tokens behind : {0_tok, 1_tok}) {
    l.kept_behind = behind;
    owned_storage<limits_type> storage = storage_for<scheduler_type>(l);
    scheduler_type scheduler{storage};
    request r;
    r.prompt = 51_tok;  // token 50 looks at 43 to 50
    r.max_output = 20_tok;
    REQUIRE(scheduler.submit(r, time_point{}) == status::accepted);
    const auto p = scheduler.plan(time_point{}, {});
    const std::vector<outcome> outcomes(p.size());
    REQUIRE(scheduler.commit(p, outcomes, time_point{}) == status::ok);
    CHECK(scheduler.tables().first_block(1, r.state().row) == (behind == 0_tok ? 11U : 10U));
    static_cast<void>(scheduler.cancel(r));
  }
}

TEST_CASE("groups: nothing is allocated for KV from elsewhere", "[pipeline]") {
  engine e;
  request& r = e.submit(50);
  request& other = e.submit(60);
  const tessera_test::no_allocation guard;
  bool fine = e.scheduler.loading(r, 49_tok, never) == status::ok;
  fine &= e.scheduler.fetching(other, 30_tok) == status::ok;
  const auto p = e.plan();
  const std::array<outcome, 2> outcomes{};
  fine &= e.scheduler.commit(p, std::span{outcomes}.first(p.size()), e.now) == status::ok;
  fine &= e.scheduler.arrived(r, 40_tok) == status::ok;  // it waits again
  const auto allocations = guard.allocations();
  CHECK(fine);
  CHECK(allocations == 0);
}

}  // namespace
