// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The scheduler's rules one by one. That they hold together is for tests/property.

#include <tessera/admit/future_peak.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "unit/pipeline_bare_scheduler.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using tessera_test::bare_scheduler::fixture;
using tessera_test::bare_scheduler::make;
using tessera_test::bare_scheduler::request;
using tessera_test::bare_scheduler::small;

}  // namespace

TEST_CASE("never_fits: what is refused could not run on the empty instance, and nothing else is") {
  const auto ends = [](scheduler_limits l, std::int64_t prompt, std::int64_t output) {
    request r = make(prompt, output);
    fixture<> f{l};
    if (f.submit(r) != status::accepted) return false;
    // It runs to its end, alone.
    for (std::int64_t left = output == 0 ? 1 : output; left != 0; --left) {
      const auto p = f.plan();
      REQUIRE(p.size() == 1);
      CHECK(p.outgrown.empty());
      f.commit(p, {.finished = left == 1});
    }
    CHECK(r.state().life == lifecycle::finished);
    return true;
  };
  // 8 blocks of 4: KV for 32 tokens; the last token generated needs none.
  CHECK(ends(small, 31, 0));
  CHECK(ends(small, 32, 0));
  CHECK_FALSE(ends(small, 33, 0));
  CHECK(ends(small, 20, 12));
  CHECK(ends(small, 20, 13));
  CHECK_FALSE(ends(small, 20, 14));
  CHECK(ends(small, 32, 1));
  CHECK_FALSE(ends(small, 32, 2));
  // A context that is not a whole number of blocks.
  scheduler_limits context = small;
  context.max_length = 10_tok;
  CHECK(ends(context, 9, 0));
  CHECK(ends(context, 10, 0));
  CHECK_FALSE(ends(context, 11, 0));
  CHECK(ends(context, 5, 6));
  CHECK_FALSE(ends(context, 5, 7));
  // A context longer than the instance.
  context.max_length = 1000_tok;
  CHECK(ends(context, 32, 1));
  CHECK_FALSE(ends(context, 33, 1));
  CHECK_FALSE(ends(small, std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max()));
}

TEST_CASE("submit refuses what is wrong, and says how") {
  fixture<> f{small};
  request r = make(0);
  CHECK(f.submit(r) == status::invalid);
  r.prompt = tokens{-1};
  CHECK(f.submit(r) == status::invalid);
  r = make(4, -1);
  CHECK(f.submit(r) == status::invalid);
  r = make(4);
  CHECK(f.submit(r) == status::accepted);
  CHECK(f.submit(r) == status::busy);
  f.step();
  CHECK(f.submit(r) == status::busy);
  CHECK(f.scheduler.cancel(r) == status::ok);
  CHECK(f.scheduler.cancel(r) == status::unknown_request);
  CHECK(f.scheduler.evacuate(r) == status::unknown_request);
  CHECK(f.submit(r) == status::accepted);  // again, from the start
  CHECK(r.state().computed == 0_tok);
  CHECK(f.scheduler.cancel(r) == status::ok);
}

TEST_CASE("a request in another scheduler is unknown here") {
  fixture<> here{small};
  fixture<> there{small};
  request mine = make(4);
  request other = make(4);
  REQUIRE(here.submit(mine) == status::accepted);
  REQUIRE(there.submit(other) == status::accepted);
  CHECK(here.scheduler.cancel(other) == status::unknown_request);
  CHECK(here.scheduler.evacuate(other) == status::unknown_request);
  here.step();
  there.step();
  REQUIRE(other.state().life == lifecycle::resident);
  CHECK(here.scheduler.cancel(other) == status::unknown_request);
  CHECK(here.scheduler.evacuate(other) == status::unknown_request);
  CHECK(there.scheduler.cancel(other) == status::ok);
  CHECK(here.scheduler.cancel(mine) == status::ok);
}

TEST_CASE("the waiting queue is bounded, but a preempted request always finds room in it") {
  scheduler_limits l = small;
  l.requests = 3;
  std::deque<request> r;
  fixture<> f{l};
  for (int i = 0; i != 3; ++i) CHECK(f.submit(r.emplace_back(make(15))) == status::accepted);
  CHECK(f.submit(r.emplace_back(make(15))) == status::queue_full);
  f.step();  // two of 4 blocks each become resident
  CHECK(f.scheduler.waiting_count() == 1);
  CHECK(f.submit(r[3]) == status::accepted);
  CHECK(f.submit(r.emplace_back(make(15))) == status::accepted);
  CHECK(f.submit(r.emplace_back(make(15))) == status::queue_full);
  f.step();  // lengths 16 -> 17: both need a fifth block
  const auto p = f.plan();
  CHECK(p.preempted.size() == 1);
  f.commit(p);
  CHECK(f.scheduler.waiting_count() == 4);
  for (request& x : r) static_cast<void>(f.scheduler.cancel(x));
  CHECK(f.scheduler.idle());
}

TEST_CASE("every reason to wait") {
  std::deque<request> r;
  const auto fresh = [&](std::int64_t prompt, int priority = 0) -> request& {
    return r.emplace_back(make(prompt, 0, priority));
  };
  SECTION("not_planned, batch_full, behind_others, none") {
    fixture<> f{small};
    request &a = fresh(2), &b = fresh(2), &c = fresh(2), &d = fresh(2);
    CHECK(f.scheduler.why(a) == wait_reason::none);
    for (request* x : {&a, &b, &c}) REQUIRE(f.submit(*x) == status::accepted);
    CHECK(f.scheduler.why(a) == wait_reason::not_planned);
    const auto p = f.plan({.max_batch = 1});
    CHECK(f.scheduler.why(a) == wait_reason::none);
    CHECK(f.scheduler.why(b) == wait_reason::batch_full);
    CHECK(f.scheduler.why(c) == wait_reason::behind_others);
    REQUIRE(f.submit(d) == status::accepted);
    CHECK(f.scheduler.why(d) == wait_reason::not_planned);
    f.commit(p);
    CHECK(f.scheduler.why(a) == wait_reason::none);
    CHECK(f.scheduler.why(b) == wait_reason::batch_full);
    f.commit(f.plan({.max_batch = 4}));
    f.commit(f.plan({.max_batch = 1}));
    CHECK(f.scheduler.why(b) == wait_reason::batch_full);  // resident, and left out
    f.scheduler.cancel(a);
    CHECK(f.scheduler.why(a) == wait_reason::none);
    for (request& x : r) static_cast<void>(f.scheduler.cancel(x));
  }
  SECTION("budget_spent") {
    fixture<> f{small};
    request &a = fresh(6), &b = fresh(6);
    for (request* x : {&a, &b}) REQUIRE(f.submit(*x) == status::accepted);
    f.commit(f.plan({.token_budget = 6_tok}));
    CHECK(f.scheduler.why(b) == wait_reason::budget_spent);
    f.commit(f.plan({.token_budget = 7_tok}));
    f.commit(f.plan({.token_budget = 1_tok}));
    CHECK(f.scheduler.why(b) == wait_reason::budget_spent);
    for (request& x : r) static_cast<void>(f.scheduler.cancel(x));
  }
  SECTION("no_blocks, stalled, preempted") {
    fixture<> f{small};
    request &a = fresh(16), &b = fresh(13), &c = fresh(4);
    for (request* x : {&a, &b, &c}) REQUIRE(f.submit(*x) == status::accepted);
    f.step();
    CHECK(f.scheduler.why(c) == wait_reason::no_blocks);
    const auto p = f.plan();  // a needs its fifth block: b, the last, gives up its four
    CHECK(f.scheduler.why(b) == wait_reason::preempted);
    f.commit(p);
    CHECK(f.scheduler.why(b) == wait_reason::preempted);
    for (request& x : r) static_cast<void>(f.scheduler.cancel(x));
    request &d = fresh(14), &e = fresh(16);
    for (request* x : {&d, &e}) REQUIRE(f.submit(*x) == status::accepted);
    f.step();
    const auto q = f.plan();  // e, the last, needs a fifth block and finds none; it keeps what it has
    CHECK(q.preempted.empty());
    CHECK(q.size() == 1);
    CHECK(f.scheduler.why(e) == wait_reason::stalled);
    CHECK(f.scheduler.why(d) == wait_reason::none);
    f.commit(q);
    CHECK(f.scheduler.why(e) == wait_reason::stalled);
    for (request& x : r) static_cast<void>(f.scheduler.cancel(x));
  }
  SECTION("held_back") {
    fixture<order::fcfs, preempt::swap, admit::watermark> f{small, {.admit = {.fraction = 0.5}}};
    request &a = fresh(8), &b = fresh(8), &c = fresh(4);
    for (request* x : {&a, &b, &c}) REQUIRE(f.submit(*x) == status::accepted);
    f.step();
    CHECK(f.scheduler.why(a) == wait_reason::none);
    CHECK(f.scheduler.why(b) == wait_reason::none);  // leaves 4 of 8
    CHECK(f.scheduler.why(c) == wait_reason::held_back);
    for (request& x : r) static_cast<void>(f.scheduler.cancel(x));
  }
  SECTION("residents_full") {
    scheduler_limits l = small;
    l.residents = 2;
    fixture<> f{l};
    request &a = fresh(2), &b = fresh(2), &c = fresh(2), &d = fresh(2, 1);
    for (request* x : {&a, &b}) REQUIRE(f.submit(*x) == status::accepted);
    f.step();
    REQUIRE(f.submit(c) == status::accepted);
    f.commit(f.plan({.max_batch = 8}));
    // The batch is as large as the table has rows; with the same two in it, the third finds it full.
    CHECK(f.scheduler.why(c) == wait_reason::batch_full);
    REQUIRE(f.submit(d) == status::accepted);
    const auto p = f.plan();  // a more urgent one takes the row of the last
    REQUIRE(p.preempted.size() == 1);
    CHECK(p.preempted[0].request == &b);
    f.commit(p);
    for (request& x : r) static_cast<void>(f.scheduler.cancel(x));
  }
  SECTION("residents_full, when one that has outgrown the limits keeps a row") {
    scheduler_limits l = small;
    l.residents = 2;
    l.max_length = 4_tok;
    fixture<> f{l};
    request &a = fresh(4), &b = fresh(1), &c = fresh(1);
    for (request* x : {&a, &b, &c}) REQUIRE(f.submit(*x) == status::accepted);
    f.step();
    const auto p = f.plan();
    REQUIRE(p.outgrown.size() == 1);
    CHECK(p.outgrown[0] == &a);
    CHECK(f.scheduler.why(a) == wait_reason::stalled);
    CHECK(f.scheduler.why(c) == wait_reason::residents_full);
    f.commit(p);
    for (request& x : r) static_cast<void>(f.scheduler.cancel(x));
  }
}

TEST_CASE("cancel during a plan: settled with it, whether it is committed or abandoned") {
  for (const bool committed : {true, false}) {
    std::deque<request> r;
    fixture<> f{small};
    for (int i = 0; i != 2; ++i) REQUIRE(f.submit(r.emplace_back(make(15))) == status::accepted);
    f.step();
    f.step();
    REQUIRE(f.submit(r.emplace_back(make(3, 0, 1))) == status::accepted);
    REQUIRE(f.submit(r.emplace_back(make(3))) == status::accepted);
    const auto p = f.plan();  // r[2] starts, r[0] grows, r[1] is the victim, r[3] waits
    REQUIRE(p.preempted.size() == 1);
    REQUIRE(f.scheduler.why(r[2]) == wait_reason::none);
    const auto held = f.scheduler.device_blocks_held();
    for (request& x : r) CHECK(f.scheduler.cancel(x) == status::ok);
    CHECK(f.scheduler.cancel(r[0]) == status::ok);  // still here: being cancelled already
    CHECK(f.submit(r[0]) == status::busy);
    CHECK(f.scheduler.device_blocks_held() == held);
    CHECK(f.scheduler.evacuate(r[1]) == status::busy);
    if (committed) {
      f.commit(p);
    } else {
      f.abandon(p);
    }
    for (request& x : r) CHECK(x.state().life == lifecycle::cancelled);
    CHECK(f.scheduler.idle());
    CHECK(f.scheduler.device_blocks_held() == 0_blk);
    CHECK(f.scheduler.host_blocks_held() == 0_blk);
    CHECK(f.scheduler.tables().free_rows() == f.scheduler.tables().rows());
  }
}

TEST_CASE("a request moves to another instance with its progress") {
  fixture<> a{small};
  fixture<> b{small};
  request r = make(6, 10);
  REQUIRE(a.submit(r) == status::accepted);
  a.step();
  a.step();
  CHECK(a.scheduler.adopt(r) == status::busy);
  REQUIRE(a.scheduler.evacuate(r) == status::ok);
  CHECK(a.scheduler.idle());
  CHECK(a.scheduler.device_blocks_held() == 0_blk);
  CHECK(r.generated() == 2_tok);
  REQUIRE(b.scheduler.adopt(r) == status::accepted);
  const auto p = b.plan();
  CHECK(p.swap_in.empty());
  REQUIRE(p.fetch.size() == 1);
  CHECK(p.fetch[0].request == &r);
  CHECK(p.fetch[0].device.size() == 2);
  REQUIRE(p.decode.size() == 1);
  CHECK(p.decode[0].first == 7_tok);
  b.commit(p, {.finished = true});
  CHECK(r.generated() == 3_tok);

  request never = make(6);
  CHECK(b.scheduler.adopt(never) == status::invalid);  // was never anywhere
  scheduler_limits tiny = small;
  tiny.blocks = 3;
  fixture<> c{tiny};
  request big = make(13);
  REQUIRE(a.submit(big) == status::accepted);
  a.step();
  REQUIRE(a.scheduler.evacuate(big) == status::ok);
  CHECK(c.scheduler.adopt(big) == status::never_fits);
}

TEST_CASE("integer time, a buffer of any alignment, and what a scheduler is made of") {
  struct tick_request : basic_request_hook<nanoseconds_clock, order::ranked<>> {
    float score = 0;
  };
  using ticks = iteration_scheduler<tick_request, order::ranked<>, preempt::recompute, admit::future_peak>;
  std::vector<std::byte> memory(ticks::required_bytes(small) + 1);
  ticks s{std::span{memory}.subspan(1), small};
  tick_request r;
  r.prompt = 5_tok;
  REQUIRE(s.submit(r, ticks::time_point{}) == status::accepted);
  const auto p = s.plan(ticks::time_point{}, {});
  REQUIRE(p.size() == 1);
  CHECK(s.plan_pending());
  const std::array outcomes{outcome{.finished = true}};
  s.commit(p, outcomes, ticks::time_point{});
  CHECK_FALSE(s.plan_pending());
  CHECK(s.idle());
  CHECK(s.size_limits().blocks == 8);
}

TEST_CASE("a step that does not end a prompt leaves `least_left` of it, in every plan") {
  for (const std::int64_t budget : {3, 4, 5, 7, 16}) {
    std::deque<request> r;
    for (std::int64_t n = 1; n != 24; ++n) r.push_back(make(n));
    fixture<> f{{.requests = 32, .blocks = 24, .block_size = 4_tok, .residents = 4}, {.least_left = 3_tok}};
    for (request& x : r) REQUIRE(f.submit(x) == status::accepted);
    std::size_t ended = 0;
    for (int steps = 0; ended != r.size(); ++steps) {
      REQUIRE(steps < 400);
      const auto p = f.plan({.max_batch = 4, .token_budget = tokens{budget}});
      std::vector<outcome> outcomes(p.size());
      for (std::size_t i = 0; i != p.size(); ++i) {
        const tokens left = p[i].request->state().length - p[i].first - p[i].count;
        CHECK((left == 0_tok || left >= 3_tok));
        CHECK(p[i].samples == (left == 0_tok));
        outcomes[i].finished = p[i].samples && p[i].request->generated() == 1_tok;
        ended += outcomes[i].finished ? 1U : 0U;
      }
      CHECK(p.computed <= tokens{budget});
      REQUIRE(f.scheduler.commit(p, outcomes, time_point{}) == status::ok);
    }
  }
}

TEST_CASE("update: a request goes to where its new priority belongs, with its KV, whatever it is doing") {
  std::deque<request> r{make(4), make(4), make(4), make(4)};
  fixture<> f{{.requests = 8, .blocks = 8, .block_size = 4_tok, .residents = 2, .host_blocks = 8}};
  for (request& x : r) REQUIRE(f.scheduler.submit(x, time_point{}) == status::accepted);
  const auto to = [](int priority) { return [priority](request& x) { x.priority = priority; }; };
  const auto served = [&f] {
    const auto p = f.plan();
    std::vector<const request*> all;
    for (std::size_t i = 0; i != p.size(); ++i) all.push_back(p[i].request);
    f.commit(p);
    return all;
  };
  CHECK(served() == std::vector<const request*>{&r[0], &r[1]});

  // The last of the waiting requests is first now. It may displace a resident, the one that has become the last.
  CHECK(f.scheduler.update(r[3], to(1)) == status::ok);
  CHECK(f.scheduler.waiting().front() == &r[3]);
  CHECK(f.scheduler.update(r[0], to(-1)) == status::ok);
  CHECK(f.scheduler.residents().back() == &r[0]);
  CHECK(r[0].state().life == lifecycle::resident);
  CHECK(r[0].state().computed == 4_tok);
  CHECK(served() == std::vector<const request*>{&r[1], &r[3]});
  CHECK(r[0].state().life == lifecycle::waiting);
  CHECK(f.scheduler.waiting().back() == &r[0]);

  REQUIRE(f.scheduler.suspend(r[3]) == status::ok);
  CHECK(f.scheduler.update(r[3], to(-2)) == status::ok);
  REQUIRE(f.scheduler.resume(r[3]) == status::ok);
  CHECK(f.scheduler.residents().back() == &r[3]);

  // Not while a plan is pending, and not a request that is not here.
  const auto p = f.plan();
  CHECK(f.scheduler.update(r[1], to(7)) == status::busy);
  CHECK(r[1].priority == 0);
  f.abandon(p);
  REQUIRE(f.scheduler.cancel(r[1]) == status::ok);
  CHECK(f.scheduler.update(r[1], to(7)) == status::unknown_request);
  CHECK(r[1].priority == 0);
}

TEST_CASE("no call allocates, also none that fails") {
  using cached = fixture<order::round_robin, preempt::swap, admit::watermark, kv::prefix_cache>;
  cached f{small, {.order = {.quantum = 2_tok}}};
  cached other{small};
  std::deque<request> r;
  for (int i = 0; i != 12; ++i) {
    request& x = r.emplace_back(make(3 + 2 * (i % 5)));
    x.hashes.assign(static_cast<std::size_t>(x.prompt.count() / 4), 77);
    for (std::size_t b = 0; b != x.hashes.size(); ++b) x.hashes[b] += b;
  }
  request refused = make(1000);
  std::array<outcome, 4> outcomes{};
  std::size_t preempted = 0;
  const tessera_test::no_allocation guard;
  for (int turn = 0; turn != 200; ++turn) {
    for (request& x : r) static_cast<void>(f.scheduler.submit(x, time_point{}));  // accepted, busy, or queue_full
    static_cast<void>(f.scheduler.submit(refused, time_point{}));
    static_cast<void>(f.scheduler.cancel(refused));
    static_cast<void>(f.scheduler.evacuate(refused));
    static_cast<void>(f.scheduler.update(r[3], [turn](request& x) { x.priority = turn % 2; }));
    const auto dropped = f.scheduler.plan(time_point{}, {.max_batch = 2, .lookahead = 2_tok});
    static_cast<void>(f.scheduler.evacuate(r[0]));
    f.scheduler.abandon(dropped);
    const auto p = f.scheduler.plan(time_point{}, {.max_batch = 3, .token_budget = 7_tok});
    preempted += p.preempted.size();
    for (const request& x : r) static_cast<void>(f.scheduler.why(x));
    if (turn % 3 == 0) static_cast<void>(f.scheduler.cancel(r[static_cast<std::size_t>(turn) % r.size()]));
    for (std::size_t i = 0; i != p.size(); ++i) outcomes[i] = {.finished = p[i].request->generated() > 5_tok};
    f.scheduler.commit(p, std::span{outcomes}.first(p.size()), time_point{});
    request& moving = r[static_cast<std::size_t>(turn) % 5];
    if (f.scheduler.evacuate(moving) == status::ok) {
      static_cast<void>(other.scheduler.adopt(moving));
      const auto q = other.scheduler.plan(time_point{}, {});
      other.scheduler.commit(q, std::span{outcomes}.first(q.size()), time_point{});
      static_cast<void>(other.scheduler.cancel(moving));
    }
    const auto more = f.scheduler.plan(time_point{}, {});
    f.scheduler.commit(more, std::span{outcomes}.first(more.size()), time_point{});
    preempted += more.preempted.size();
  }
  for (request& x : r) static_cast<void>(f.scheduler.cancel(x));
  const auto allocations = guard.allocations();
  const auto deallocations = guard.deallocations();
  CHECK(allocations == 0);
  CHECK(deallocations == 0);
  CHECK(preempted > 20);  // or this has shown little
  CHECK(f.scheduler.idle());
}
