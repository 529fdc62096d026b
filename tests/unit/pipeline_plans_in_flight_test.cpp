// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A step is planned while others run, and what came of those is known late. Random sequences of everything are in
// tests/property.

#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/catch.hpp"
#include "unit/pipeline_plans_in_flight.hpp"

#include <cstddef>
#include <deque>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using tessera_test::in_flight::engine_of;
using tessera_test::in_flight::flights;
using tessera_test::in_flight::request;
using tessera_test::in_flight::run_random;
using tessera_test::in_flight::two;
using tessera_test::in_flight::with_blocks;

}  // namespace

TEST_CASE("plans in flight: the next plan goes on where those before it will have come") {
  engine_of<> e{two};
  request& r = e.submit(8, 10);
  const auto first = e.plan({.max_chunk = 5_tok});
  CHECK(first[0].count == 5_tok);
  CHECK_FALSE(first[0].samples);
  CHECK(e.scheduler.can_abandon());
  const auto second = e.plan();
  CHECK(e.scheduler.plans_in_flight() == 2);
  CHECK(second[0].first == 5_tok);
  CHECK(second[0].count == 3_tok);
  CHECK(second[0].samples);
  CHECK(second[0].origin == entry_origin::going_on);
  CHECK(r.state().expected == 0);  // of the second, which can be abandoned
  e.commit(first);
  CHECK_FALSE(e.scheduler.can_abandon());
  CHECK(r.state().expected == 1);
  CHECK(r.state().length == 8_tok);
  const auto third = e.plan();
  REQUIRE(third.decode.size() == 1);
  CHECK(third[0].first == 8_tok);  // a token that is not known yet
  CHECK(third[0].samples);
  CHECK(third[0].new_blocks == 1);
  e.commit(second);
  CHECK(r.state().length == 9_tok);
  CHECK(r.state().computed == 9_tok);
  CHECK(r.state().reach() == 10_tok);
  CHECK(e.why(r) == wait_reason::none);
  e.commit(third);
  CHECK(r.state().length == 10_tok);
  CHECK(r.state().computed == 9_tok);
  CHECK(r.state().expected == 0);
}

TEST_CASE("plans in flight: a request that was never planned is in none of them, however many there were") {
  engine_of<> e{two};
  e.submit(8, 10);
  std::deque<request*> waiting;
  for (int i = 0; i != 6; ++i) waiting.push_back(&e.submit(8, 10));
  const auto first = e.plan({.max_batch = 1});
  const auto second = e.plan({.max_batch = 1});
  for (request* r : waiting) {
    // After 2^31 plans what it was made with looks like a plan to come.
    request_access::state(*r).marked_in = 0x4000'0000;
    CHECK_FALSE(e.scheduler.is_in_flight(*r));
    CHECK(e.scheduler.cancel(*r) == status::ok);
    CHECK(r->state().life == lifecycle::cancelled);
  }
  e.commit(first);
  e.commit(second);
}

TEST_CASE("plans in flight: one that ends is held by the plan that was made before that was known") {
  for (const bool fails : {false, true}) {
    engine_of<> e{two};
    request& ends = e.submit(8, 10);
    request& other = e.submit(4, 10);
    e.step();
    const auto first = e.plan();
    const auto second = e.plan();
    REQUIRE(second.size() == 2);
    e.commit(first, std::vector{outcome{.finished = !fails, .failed = fails}, outcome{}});
    CHECK(is_live(ends.state().life));  // the engine still writes to its blocks
    CHECK(e.scheduler.resident_count() == 1);
    CHECK(e.scheduler.cancel(ends) == status::unknown_request);
    CHECK(e.scheduler.submit(ends, {}) == status::busy);
    CHECK(e.scheduler.device_blocks_held() == blocks{3 + 2});
    const auto third = e.plan();
    REQUIRE(third.size() == 1);
    CHECK(third[0].request == &other);
    const tokens length = ends.state().length;
    e.commit(second, std::vector{outcome{.end_of_reasoning = true}, outcome{}});
    CHECK(ends.state().life == (fails ? lifecycle::failed : lifecycle::finished));
    CHECK(ends.state().length == length);  // what came of it in vain is ignored
    CHECK(ends.state().phase == phase::reasoning);
    CHECK(e.scheduler.device_blocks_held() == blocks{2});
    e.commit(third);
    CHECK(other.state().length == 8_tok);
  }
}

TEST_CASE("plans in flight: nothing is planned beyond what a request may generate") {
  engine_of<> e{two};
  request& r = e.submit(8, 2);
  const auto first = e.plan();
  const auto second = e.plan();
  CHECK(second.decode.size() == 1);
  e.commit(first);
  const auto third = e.plan();
  CHECK(third.empty());
  CHECK(e.why(r) == wait_reason::in_flight);
  e.commit(second);
  CHECK(r.state().life == lifecycle::finished);
  e.commit(third);
  CHECK(e.scheduler.idle());

  // That it has reached its limit ends nothing: the engine does. If it does not, the request goes on.
  request& longer = e.submit(8, 2);
  e.step();
  const auto last = e.plan();
  const auto none = e.plan();
  CHECK(none.empty());
  e.commit(last, std::vector{outcome{}});
  e.commit(none);
  CHECK(e.plan()[0].request == &longer);
}

TEST_CASE("plans in flight: at the end of the context a request is outgrown when that is known, not before") {
  scheduler_limits l = two;
  l.max_length = 9_tok;
  engine_of<> e{l};
  request& r = e.submit(8, 0);
  const auto first = e.plan();
  const auto second = e.plan();
  CHECK(second[0].first == 8_tok);
  e.commit(first, std::vector{outcome{}});
  const auto third = e.plan();
  CHECK(third.empty());
  CHECK(third.outgrown.empty());
  CHECK(e.why(r) == wait_reason::in_flight);
  e.commit(second, std::vector{outcome{}});
  e.commit(third);
  const auto fourth = e.plan();
  REQUIRE(fourth.outgrown.size() == 1);
  e.commit(fourth);
}

TEST_CASE("plans in flight: drafts are counted as accepted until it is known which were refused") {
  engine_of<> e{two};
  request& r = e.submit(8, 0);
  e.step();
  REQUIRE(r.state().length == 9_tok);
  const auto first = e.plan({.lookahead = 3_tok});
  CHECK(first[0].first == 8_tok);
  CHECK(first[0].lookahead == 3_tok);
  const auto second = e.plan({.lookahead = 3_tok});
  CHECK(second[0].first == 12_tok);  // at most
  CHECK(r.state().expected == 4);
  CHECK(e.scheduler.blocks_held(r) == blocks{4});
  e.commit(first, std::vector{outcome{.produced = 2}});
  CHECK(r.state().length == 11_tok);
  CHECK(r.state().expected == 4);
  CHECK(r.state().computed == 14_tok);  // two less than there were slots for
  const auto third = e.plan();
  CHECK(third[0].first == 14_tok);
  e.commit(second, std::vector{outcome{.produced = 4}});
  CHECK(r.state().length == 15_tok);
  CHECK(r.state().computed == 15_tok);
  e.commit(third);
  CHECK(r.state().length == 16_tok);
  CHECK(r.state().computed == 15_tok);
  CHECK(e.scheduler.blocks_held(r) == blocks{4});
  // All refused: what is not needed is given back as soon as nothing is in flight for it.
  const auto fourth = e.plan({.lookahead = 7_tok});
  const auto fifth = e.plan({.lookahead = 7_tok});
  CHECK(e.scheduler.blocks_held(r) > blocks{5});
  e.commit(fourth, std::vector{outcome{}});
  e.commit(fifth, std::vector{outcome{}});
  CHECK(r.state().length == 18_tok);
  CHECK(e.scheduler.blocks_held(r) == blocks{5});
}

TEST_CASE("plans in flight: only the newest is abandoned, and only if nothing has been planned or settled since") {
  engine_of<> e{two};
  request& r = e.submit(8, 20);
  e.step();
  const auto first = e.plan();
  const auto second = e.plan();
  const auto row = e.row(r);
  e.abandon(second);
  CHECK_FALSE(e.scheduler.can_abandon());
  CHECK(e.scheduler.plans_in_flight() == 1);
  CHECK(r.state().expected == 1);
  const auto again = e.plan();
  CHECK(again[0].first == second[0].first);
  CHECK(e.row(r) == row);
  e.commit(first);
  CHECK_FALSE(e.scheduler.can_abandon());
  e.commit(again);
  CHECK(r.state().length == 11_tok);
}

TEST_CASE("plans in flight: after a commit, requests can be suspended, updated and preempted while others run") {
  engine_of<> e{two};
  request& r = e.submit(8, 20);
  request& other = e.submit(4, 20);
  e.step();
  const auto first = e.plan();
  CHECK(e.scheduler.suspend(r) == status::busy);
  const auto second = e.plan();
  CHECK(e.scheduler.suspend(r) == status::busy);
  CHECK(e.scheduler.update(r, [](request&) {}) == status::busy);
  CHECK(e.scheduler.preempt(r) == status::busy);
  e.commit(first);
  CHECK(e.scheduler.is_in_flight(r));
  request child;
  child.prompt = 8_tok;
  CHECK(e.scheduler.fork(r, child) == status::busy);
  CHECK(e.scheduler.evacuate(r) == status::busy);
  SECTION("suspend") {
    CHECK(e.scheduler.suspend(r) == status::ok);
    const auto third = e.plan();
    CHECK(third.size() == 1);
    CHECK(e.scheduler.evacuate(r) == status::busy);  // the second computes it
    e.commit(second);
    CHECK(r.state().length == 11_tok);
    CHECK(r.state().expected == 0);
    CHECK_FALSE(e.scheduler.is_in_flight(r));
    CHECK(e.scheduler.resume(r) == status::ok);
    const auto fourth = e.plan();
    CHECK(fourth[0].first == 10_tok);
    e.commit(third);
    e.commit(fourth);
  }
  SECTION("suspended, it ends") {
    CHECK(e.scheduler.suspend(r) == status::ok);
    e.commit(second, std::vector{outcome{.finished = true}, outcome{}});
    CHECK(r.state().life == lifecycle::finished);
    CHECK(e.scheduler.suspended_count() == 0);
  }
  SECTION("evacuate, once no plan has it") {
    CHECK(e.scheduler.suspend(r) == status::ok);
    e.commit(second);
    const auto third = e.plan();
    CHECK(e.scheduler.evacuate(r) == status::ok);
    CHECK(r.progress().computed == 10_tok);
    CHECK(e.scheduler.adopt(r) == status::accepted);
    e.commit(third);
  }
  SECTION("update") {
    CHECK(e.scheduler.update(other, [](request& q) { q.priority = 1; }) == status::ok);
    const auto third = e.plan();
    CHECK(third[0].request == &other);
    e.commit(second);
    CHECK(r.state().length == 11_tok);
    CHECK(other.state().length == 7_tok);
    e.commit(third);
  }
  SECTION("preempt") {
    CHECK(e.scheduler.preempt(r) == status::ok);
    CHECK(e.scheduler.blocks_held(r) == blocks{0});
    const auto third = e.plan();
    CHECK(third.size() == 1);  // where it goes on is not known yet
    e.commit(second);
    CHECK(r.state().length == 11_tok);
    CHECK(r.state().computed == 0_tok);
    const auto fourth = e.plan();
    REQUIRE(fourth.prefill.size() == 1);
    CHECK(fourth.prefill[0].count == 11_tok);
    CHECK(fourth.prefill[0].origin == entry_origin::resumed);
    e.commit(third);
    e.commit(fourth);
    CHECK(r.state().length == 12_tok);
  }
}

TEST_CASE("plans in flight: a phase changes, and a turn ends, when that is known: one plan late") {
  engine_of<order::two_phase> e{two};
  request& thinks = e.submit(4, 20);
  request& other = e.submit(4, 20);
  e.step();
  const auto first = e.plan();
  const auto second = e.plan();
  CHECK(second[0].request == &thinks);
  e.commit(first, std::vector{outcome{.end_of_reasoning = true}, outcome{}});
  CHECK(thinks.state().phase == phase::answering);
  CHECK(thinks.state().reasoning == 2_tok);
  const auto third = e.plan();
  CHECK(third[0].request == &other);  // answers come after
  e.commit(second);
  e.commit(third);
  CHECK(thinks.state().length == 8_tok);

  engine_of<order::round_robin> turns{two, {.order = {.quantum = 2_tok}}};
  std::vector<request*> all;
  for (int i = 0; i != 3; ++i) all.push_back(&turns.submit(4, 30));
  flights<decltype(turns)> plans{turns};
  std::vector<std::size_t> ran(3);
  for (int i = 0; i != 39; ++i) {
    const auto p = turns.plan({.max_batch = 2});
    for (std::size_t k = 0; k != p.size(); ++k) {
      for (std::size_t n = 0; n != 3; ++n) ran[n] += p[k].request == all[n] ? 1U : 0U;
    }
    plans.add(p);
  }
  for (const std::size_t n : ran) CHECK(n >= 24);  // of 39 steps with two each
  plans.settle_all();
}

TEST_CASE("plans in flight: the same requests end after the same tokens, in the same order, with one or with four") {
  const auto run = [](std::size_t plans_in_flight, unsigned seed) {
    scheduler_limits l = with_blocks(20);
    l.plans_in_flight = plans_in_flight;
    engine_of<> e{l};
    return run_random(e, seed, [](const auto&, const auto&) {});
  };
  for (unsigned seed = 1; seed != 30; ++seed) {
    CAPTURE(seed);
    const auto one = run(1, seed);
    for (const std::size_t n : {2U, 3U, 4U}) CHECK(run(n, seed) == one);
  }
}

TEST_CASE("plans in flight: storage grows with them, and only with them") {
  using scheduler_type = iteration_scheduler<request, order::fcfs>;
  scheduler_limits l = two;
  l.plans_in_flight = 1;
  CHECK(l.rows() == 8);
  CHECK(two.rows() == 12);
  CHECK(scheduler_type::required_bytes(l) < scheduler_type::required_bytes(two));
}
