// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// KV that the engine fetches within the step that starts its request, and what happens if it does not come.

#include <tessera/compose/fcfs.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/kv/row_tables.hpp>

#include "support/step_engine.hpp"

#include <vector>

namespace {

using namespace tessera_test;

using request = prompt_request<>;
using engine = step_engine<fcfs<request, kv::prefix_cache, kv::row_tables>>;

[[nodiscard]] std::vector<outcome> spoilt_at(std::size_t n, std::size_t at) {
  std::vector<outcome> o(n);
  o[at].spoilt = true;
  return o;
}

}  // namespace

TEST_CASE("the plan that starts a request lists what is fetched for it", "[pipeline]") {
  engine e{{.blocks = 100, .residents = 4}};
  request& r = e.submit_hashed(100, 5, 6, 6);
  auto p = e.plan();
  CHECK(p.fetch.empty());
  CHECK(e.scheduler.fetching(r, 40_tok) == status::busy);
  e.abandon(p);
  REQUIRE(e.scheduler.fetching(r, 40_tok) == status::ok);
  p = e.plan();
  REQUIRE(p.size() == 1);
  CHECK(p[0].first == 40_tok);
  CHECK(p[0].count == 60_tok);
  REQUIRE(p.fetch.size() == 1);
  CHECK(p.fetch[0].first == 0);
  CHECK(p.fetch[0].device.size() == 3);
  SECTION("until it is said that nothing comes") {
    e.abandon(p);
    REQUIRE(e.scheduler.fetching(r, 0_tok) == status::ok);
    p = e.plan();
    CHECK(p.fetch.empty());
    CHECK(p[0].first == 0_tok);
    e.commit(p);
  }
  SECTION("and others find it when the step has been run") {
    e.commit(p);
    request& other = e.submit_hashed(100, 5, 6, 6);
    REQUIRE(e.scheduler.fetching(other, 99_tok) == status::ok);
    p = e.plan();
    REQUIRE(p.fetch.size() == 1);
    CHECK(p.fetch[0].first == 6);
    CHECK(p.fetch[0].device.size() == 1);
    CHECK(p[p.size() - 1].count == 1_tok);
    e.commit(p);
  }
  e.run_out();
}

TEST_CASE("what cannot be fetched is refused", "[pipeline]") {
  engine e{{.blocks = 100, .residents = 4, .deadlines = 1}};
  request& r = e.submit(100, 5);
  CHECK(e.scheduler.fetching(r, 100_tok) == status::invalid);
  CHECK(e.scheduler.fetching(r, tokens{-1}) == status::invalid);
  CHECK(e.scheduler.fetching(e.add(10, 1), 5_tok) == status::unknown_request);
  CHECK(e.scheduler.loading(r, 0_tok, time_point::never()) == status::invalid);
  // It replaces KV that was on its way, and the deadline of that.
  REQUIRE(e.scheduler.loading(r, 50_tok, e.now + 1_s) == status::ok);
  REQUIRE(e.scheduler.fetching(r, 20_tok) == status::ok);
  request& other = e.submit(100, 5);
  CHECK(e.scheduler.loading(other, 50_tok, e.now + 1_s) == status::ok);
  const auto p = e.plan();
  CHECK(p.load.size() == 1);
  REQUIRE(p.fetch.size() == 1);
  CHECK(p.fetch[0].request == &r);
  e.commit(p);
  CHECK(e.scheduler.fetching(r, 5_tok) == status::unknown_request);
  REQUIRE(e.scheduler.arrived(other, 50_tok) == status::ok);
  e.run_out();
}

TEST_CASE("a request with KV that does not come starts anew, and others find none of it", "[pipeline]") {
  engine e{{.blocks = 100, .residents = 4}};
  request& r = e.submit_hashed(100, 5, 6, 6);
  request& behind = e.submit(40, 5);
  REQUIRE(e.scheduler.fetching(r, 96_tok) == status::ok);
  auto p = e.plan();
  REQUIRE(p.size() == 2);
  e.commit(p, spoilt_at(2, 0));
  CHECK(r.state().life == lifecycle::waiting);
  CHECK(r.generated() == 0_tok);
  CHECK(r.state().preemptions == 1);
  CHECK(behind.generated() == 1_tok);
  CHECK(e.scheduler.store().knows(r.hashes[0]) == false);
  p = e.plan();
  REQUIRE(p.size() == 2);
  CHECK(p.prefill[0].request == &r);
  CHECK(p.prefill[0].first == 0_tok);
  CHECK(p.prefill[0].origin == entry_origin::resumed);
  e.commit(p);
  e.run_out();
  CHECK(r.generated() == 5_tok);
}

TEST_CASE("plans in flight with such a request count for nothing either", "[pipeline]") {
  engine e{{.blocks = 100, .residents = 4, .plans_in_flight = 2}};
  request& r = e.submit_hashed(100, 5, 6, 6);
  REQUIRE(e.scheduler.fetching(r, 96_tok) == status::ok);
  const auto first = e.plan();
  const auto second = e.plan();
  REQUIRE(second.size() == 1);
  e.commit(first, spoilt_at(1, 0));
  CHECK(r.state().life == lifecycle::waiting);
  const auto third = e.plan();
  CHECK(third.empty());
  CHECK(e.why(r) == wait_reason::in_flight);
  SECTION("they are told so") { e.commit(second, spoilt_at(1, 0)); }
  SECTION("or it ends meanwhile") {
    REQUIRE(e.scheduler.cancel(r) == status::ok);
    e.commit(second, spoilt_at(1, 0));
    e.commit(third);
    CHECK(e.scheduler.idle());
    return;
  }
  e.commit(third);
  CHECK(r.generated() == 0_tok);
  while (!e.scheduler.idle()) {
    const auto p = e.plan();
    e.commit(p);
  }
  CHECK(r.generated() == 5_tok);
}

TEST_CASE("KV that fails is not swapped out by a later plan: such a size refuses it", "[pipeline]") {
  const std::size_t in_flight = GENERATE(1U, 2U);
  engine e{{.blocks = 100, .residents = 4, .host_blocks = 8, .plans_in_flight = in_flight}};
  request& r = e.submit(100, 5);
  CHECK(e.scheduler.fetching(r, 96_tok) == (in_flight == 1 ? status::ok : status::invalid));
  e.run_out();
  CHECK(r.generated() == 5_tok);
}

TEST_CASE("a suspended or parked request does not keep KV that was spoilt", "[pipeline]") {
  engine e{{.blocks = 100, .residents = 4, .plans_in_flight = 2, .deadlines = 2}};
  request& r = e.submit(100, 5);
  REQUIRE(e.scheduler.fetching(r, 90_tok) == status::ok);
  const auto first = e.plan();
  const auto second = e.plan({.max_starts = 0});
  e.commit(first);
  SECTION("suspended") { REQUIRE(e.scheduler.suspend(r) == status::ok); }
  SECTION("parked") { REQUIRE(e.scheduler.park(r, e.now + 1_s) == status::ok); }
  e.commit(second, spoilt_at(second.size(), 0));
  CHECK(r.state().life == lifecycle::waiting);
  CHECK(e.scheduler.suspended_count() == 0);
  CHECK(e.scheduler.device_blocks_held() == blocks{});
  e.run_out();
}
