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
    CHECK_FALSE(r.state().swapped);
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
  engine elsewhere{{.blocks = 100, .residents = 4}};
  CHECK(e.scheduler.fetching(elsewhere.submit(100, 5), 5_tok) == status::unknown_request);
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
  CHECK(e.scheduler.fetching(r, 40_tok) == status::busy);
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

TEST_CASE("no KV is fetched for a request with a copy on the host", "[pipeline]") {
  engine e{{.blocks = 10, .residents = 4, .host_blocks = 10}};
  request& r = e.submit(100, 5);
  e.step();
  e.submit(140, 1, 1);
  e.step();
  REQUIRE(r.state().life == lifecycle::waiting);
  CHECK(e.scheduler.fetching(r, 40_tok) == status::invalid);
  CHECK(e.scheduler.loading(r, 40_tok, time_point::never()) == status::invalid);
  e.run_out();
}

TEST_CASE("what is announced after KV did not come is not lost with the next plan in flight", "[pipeline]") {
  engine e{{.blocks = 100, .residents = 4, .plans_in_flight = 2}};
  request& r = e.submit(100, 5);
  REQUIRE(e.scheduler.fetching(r, 60_tok) == status::ok);
  const auto first = e.plan({.max_chunk = 10_tok});
  const auto second = e.plan({.max_chunk = 10_tok});
  e.commit(first, spoilt_at(1, 0));
  REQUIRE(e.scheduler.fetching(r, 40_tok) == status::ok);
  e.commit(second, spoilt_at(1, 0));
  const auto third = e.plan();
  REQUIRE(third.fetch.size() == 1);
  CHECK(third[0].first == 40_tok);
  e.commit(third);
  e.run_out();
}

TEST_CASE("a copy on the host of KV that did not come is dropped", "[pipeline]") {
  engine e{{.blocks = 10, .residents = 4, .host_blocks = 10, .plans_in_flight = 2}};
  e.submit_hashed(40, 1, 2, 2);
  e.step();
  request& r = e.submit_hashed(100, 5, 6, 2);
  REQUIRE(e.scheduler.fetching(r, 96_tok) == status::ok);
  const auto first = e.plan();
  request& urgent = e.submit(140, 1, 1);
  const auto second = e.plan();
  REQUIRE(second.swap_out.size() == 1);
  REQUIRE(r.state().cached_blocks == 2);
  CHECK(e.scheduler.host_blocks_held() == 7_blk);
  e.commit(first, spoilt_at(1, 0));
  CHECK(r.state().life == lifecycle::waiting);
  CHECK(r.state().computed == 0_tok);
  CHECK(r.state().cached_blocks == 0);
  CHECK(r.state().restarted);
  CHECK(r.state().preemptions == 1);
  CHECK(e.scheduler.host_blocks_held() == blocks{});
  e.commit(second);
  CHECK(urgent.state().life == lifecycle::finished);
  CHECK(e.scheduler.fetching(r, 0_tok) == status::ok);
  const auto third = e.plan();
  REQUIRE(third.size() == 1);
  CHECK(third.swap_in.empty());
  CHECK(third.prefill[0].first <= 32_tok);  // others have computed that much of it
  CHECK(third.prefill[0].origin == entry_origin::resumed);
  e.commit(third);
  e.run_out();
  CHECK(r.generated() == 5_tok);
}

TEST_CASE("KV that did not come is dropped after it has come back from the host", "[pipeline]") {
  engine e{{.blocks = 20, .residents = 4, .host_blocks = 10, .plans_in_flight = 3, .deadlines = 2}};
  request& ends = e.submit(140, 1, 1);
  const auto before = e.plan();
  request& r = e.submit(100, 5);
  REQUIRE(e.scheduler.fetching(r, 60_tok) == status::ok);
  const auto first = e.plan({.max_chunk = 10_tok});
  REQUIRE(first.size() == 1);
  REQUIRE_FALSE(first[0].samples);
  request& urgent = e.submit(140, 1, 1);
  const auto second = e.plan();
  REQUIRE(second.swap_out.size() == 1);
  e.commit(before);
  REQUIRE(ends.state().life == lifecycle::finished);  // its blocks are free
  const auto third = e.plan({.max_chunk = 10_tok});
  REQUIRE(third.swap_in.size() == 1);
  REQUIRE(third[0].request == &r);
  e.commit(first, spoilt_at(1, 0));
  CHECK(r.state().life == lifecycle::waiting);
  CHECK(r.state().computed == 0_tok);
  CHECK(r.state().row == no_index);
  e.commit(second);
  CHECK(urgent.state().life == lifecycle::finished);
  e.commit(third, spoilt_at(1, 0));
  e.run_out();
  CHECK(r.generated() == 5_tok);
}

TEST_CASE("a request that loads its KV anew is not told of what it has lost", "[pipeline]") {
  engine e{{.blocks = 20, .residents = 4, .host_blocks = 10, .plans_in_flight = 4, .deadlines = 2}};
  e.submit(140, 1, 1);
  const auto before = e.plan();
  request& r = e.submit(100, 5);
  REQUIRE(e.scheduler.fetching(r, 60_tok) == status::ok);
  const auto first = e.plan({.max_chunk = 10_tok});
  const auto second = e.plan({.max_chunk = 10_tok});
  REQUIRE(second.size() == 1);
  e.submit(140, 1, 1);
  const auto third = e.plan();
  REQUIRE(third.swap_out.size() == 1);
  e.commit(before);
  e.commit(first, spoilt_at(1, 0));
  REQUIRE(e.scheduler.loading(r, 60_tok, time_point::never()) == status::ok);
  const auto fourth = e.plan();
  REQUIRE(fourth.load.size() == 1);
  e.commit(second, spoilt_at(1, 0));
  CHECK(r.state().life == lifecycle::suspended);
  CHECK(r.state().loads);
  e.commit(third);
  e.commit(fourth);
  REQUIRE(e.scheduler.arrived(r, 60_tok) == status::ok);
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
  CHECK_FALSE(r.state().parked);
  CHECK(e.scheduler.suspended_count() == 0);
  CHECK(e.scheduler.device_blocks_held() == blocks{});
  e.run_out();
}
