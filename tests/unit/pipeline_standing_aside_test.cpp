// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Parked requests with their place kept, KV that is on its way, and blocks that are copied out after their request has
// left. Also the deadlines of all three. Random sequences of these are in tests/property.

#include <tessera/compose/fcfs.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook {
  std::vector<std::uint64_t> hashes;
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};

request make(std::int64_t prompt, std::int64_t max_output = 0, int priority = 0) {
  request r;
  r.prompt = tokens{prompt};
  r.max_output = tokens{max_output};
  r.priority = priority;
  return r;
}

template <class Store = kv::block_pool>
struct fixture {
  using scheduler_type = iteration_scheduler<request, order::fcfs, preempt::recompute, admit::always, Store>;
  explicit fixture(const scheduler_limits& l) : storage{storage_for<scheduler_type>(l)}, scheduler{storage} {}
  step_plan<request> plan(double at = 0) { return scheduler.plan(time_point{duration{at}}, {}); }
  void commit(const step_plan<request>& p, const outcome& o = {}) {
    const std::vector<outcome> outcomes(p.size(), o);
    CHECK(scheduler.commit(p, outcomes, time_point{}) == status::ok);
  }
  void step(double at = 0) { commit(plan(at)); }
  void submit(request& r) { REQUIRE(scheduler.submit(r, time_point{}) == status::accepted); }

  owned_storage<scheduler_limits> storage;
  scheduler_type scheduler;
};

constexpr time_point never = time_point::never();
constexpr time_point at(double s) { return time_point{duration{s}}; }
constexpr scheduler_limits small{.requests = 8, .blocks = 8, .block_size = 4_tok, .residents = 3, .deadlines = 4};

}  // namespace

TEST_CASE("park: a parked request holds none up, and comes back to its place") {
  std::deque<request> r{make(4), make(4), make(4)};
  fixture<> f{small};
  for (request& x : r) f.submit(x);
  REQUIRE(f.scheduler.park(r[0], never) == status::ok);
  CHECK(f.scheduler.why(r[0]) == wait_reason::parked);
  CHECK(f.scheduler.parked_count() == 1);
  CHECK(f.scheduler.waiting_count() == 2);
  const auto p = f.scheduler.plan({}, {.max_batch = 1});
  REQUIRE(p.size() == 1);
  CHECK(p[0].request == &r[1]);
  CHECK(f.scheduler.park(r[1], never) == status::busy);  // the plan has it
  CHECK(f.scheduler.ready(r[0]) == status::ok);          // at any moment, as it holds nothing
  CHECK(f.scheduler.ready(r[0]) == status::unknown_request);
  f.commit(p, {.finished = true});
  const auto q = f.scheduler.plan({}, {.max_batch = 1});
  REQUIRE(q.size() == 1);
  CHECK(q[0].request == &r[0]);  // before one that came later
  f.commit(q, {.finished = true});
  CHECK(f.scheduler.cancel(r[2]) == status::ok);
  CHECK(f.scheduler.idle());
}

TEST_CASE("park: a request that is parked during an open plan, and then leaves, is forgotten when that is abandoned") {
  // A refused request is watched: what is published may be its prefix.
  std::deque<request> r{make(20, 4)};
  r[0].hashes = {1, 2, 3, 4, 5};
  auto refused = std::make_unique<request>(make(24, 4));
  refused->hashes = {11, 12, 13, 14, 15, 16};
  fixture<kv::prefix_cache> f{small};
  const step_limits chunks{.token_budget = 16_tok, .max_chunk = 4_tok};
  const auto plan = [&] { return f.scheduler.plan(time_point{}, chunks); };
  f.submit(r[0]);
  f.submit(*refused);
  f.commit(plan());
  REQUIRE(f.scheduler.why(*refused) == wait_reason::no_blocks);
  const auto open = plan();
  REQUIRE(f.scheduler.park(*refused, never) == status::ok);
  REQUIRE(f.scheduler.abandon(open) == status::ok);
  REQUIRE(f.scheduler.cancel(*refused) == status::ok);
  refused.reset();
  for (int i = 0; i != 4; ++i) f.commit(plan());  // publishes; AddressSanitizer sees a look at `refused`
  CHECK(r[0].generated() > tokens{});
  CHECK(f.scheduler.cancel(r[0]) == status::ok);
  CHECK(f.scheduler.idle());
}

TEST_CASE("park: a resident keeps its blocks and its place") {
  std::deque<request> r{make(4), make(4)};
  fixture<> f{small};
  for (request& x : r) f.submit(x);
  f.step();
  REQUIRE(f.scheduler.park(r[0], never) == status::ok);
  CHECK(r[0].state().life == lifecycle::suspended);
  CHECK(f.scheduler.blocks_held(r[0]) == 1_blk);
  CHECK(f.scheduler.resume(r[0]) == status::unknown_request);  // it is parked, not suspended
  const auto p = f.plan();
  CHECK(p.size() == 1);
  CHECK(f.scheduler.ready(r[0]) == status::busy);
  f.commit(p);
  REQUIRE(f.scheduler.ready(r[0]) == status::ok);
  const auto q = f.plan();
  REQUIRE(q.size() == 2);
  CHECK(q[0].request == &r[0]);
  f.commit(q, {.finished = true});
  CHECK(f.scheduler.idle());
}

TEST_CASE("park: at the deadline it goes on, or fails, and the plan tells") {
  std::deque<request> r{make(4), make(4), make(4)};
  fixture<> f{small};
  for (request& x : r) f.submit(x);
  REQUIRE(f.scheduler.park(r[0], at(2)) == status::ok);
  REQUIRE(f.scheduler.park(r[1], at(1), park_end::fails) == status::ok);
  REQUIRE(f.scheduler.park(r[2], at(1)) == status::ok);
  REQUIRE(f.scheduler.park(r[2], at(3)) == status::ok);  // another deadline, in place of the first
  const auto p = f.plan(0.5);
  CHECK(p.late.empty());
  f.commit(p);
  const auto q = f.plan(2);
  REQUIRE(q.late.size() == 2);
  CHECK(q.late[0].request == &r[1]);
  CHECK(q.late[1].request == &r[0]);
  CHECK(q.late[0].what == deadline_of::parked);
  CHECK(r[1].state().life == lifecycle::failed);
  REQUIRE(q.size() == 1);
  CHECK(q[0].request == &r[0]);
  CHECK(f.scheduler.abandon(q) == status::ok);
  const auto again = f.plan(2);
  CHECK(again.late.empty());  // told once; what has passed has passed
  REQUIRE(again.size() == 1);
  f.commit(again, {.finished = true});
  CHECK(f.scheduler.cancel(r[2]) == status::ok);
  f.step(10);  // nothing is left to be late
  CHECK(f.scheduler.idle());
}

TEST_CASE("park: no room for a deadline, and none needed without one") {
  std::deque<request> r{make(4), make(4)};
  auto l = small;
  l.deadlines = 0;
  fixture<> f{l};
  for (request& x : r) f.submit(x);
  CHECK(f.scheduler.park(r[0], at(1)) == status::exhausted);
  CHECK_FALSE(r[0].state().parked);
  CHECK(f.scheduler.park(r[0], never) == status::ok);
  CHECK(f.scheduler.start_by(r[1], at(1)) == status::exhausted);
  CHECK(f.scheduler.loading(r[1], 2_tok, at(1)) == status::exhausted);
  CHECK_FALSE(r[1].state().loads);
  for (request& x : r) CHECK(f.scheduler.cancel(x) == status::ok);
}

TEST_CASE("loading: blocks are held, nothing is computed on them, and what has not come is computed") {
  for (const std::int64_t came : {8, 5, 0}) {
    CAPTURE(came);
    std::deque<request> r{make(12), make(4)};
    fixture<> f{small};
    for (request& x : r) f.submit(x);
    REQUIRE(f.scheduler.loading(r[0], 8_tok, at(9)) == status::ok);
    const auto p = f.plan();
    REQUIRE(p.size() == 1);
    CHECK(p[0].request == &r[1]);
    REQUIRE(p.load.size() == 1);
    CHECK(p.load[0].request == &r[0]);
    CHECK(p.load[0].first == 0);
    CHECK(p.load[0].device.size() == 2);
    CHECK(f.scheduler.arrived(r[0], 8_tok) == status::busy);  // it starts in the plan that is open
    CHECK(f.scheduler.arrived(r[1], 4_tok) == status::unknown_request);
    f.commit(p, {.finished = true});
    CHECK(f.scheduler.why(r[0]) == wait_reason::loading);
    CHECK(f.scheduler.blocks_held(r[0]) == 3_blk);
    CHECK(f.scheduler.resume(r[0]) == status::unknown_request);
    CHECK(f.scheduler.evacuate(r[0]) == status::busy);
    const auto q = f.plan(1);
    CHECK(q.empty());
    CHECK(f.scheduler.arrived(r[0], 8_tok) == status::busy);
    f.commit(q);
    CHECK(f.scheduler.arrived(r[0], 9_tok) == status::invalid);
    REQUIRE(f.scheduler.arrived(r[0], tokens{came}) == status::ok);
    const auto rest = f.plan(2);
    REQUIRE(rest.size() == 1);
    CHECK(rest[0].first == tokens{came});
    CHECK(rest[0].count == tokens{12 - came});
    CHECK(rest[0].samples);
    f.commit(rest, {.finished = true});
    CHECK(f.scheduler.device_blocks_held() == 0_blk);
    f.step(10);
    CHECK(f.scheduler.idle());
  }
}

TEST_CASE("loading: a request that begins alike finds what has come, before its own request has gone on") {
  std::deque<request> r{make(12), make(12)};
  for (request& x : r) x.hashes = {1, 2, 3};
  fixture<kv::prefix_cache> f{small};
  f.submit(r[0]);
  REQUIRE(f.scheduler.loading(r[0], 8_tok, at(9)) == status::ok);
  f.step();
  REQUIRE(f.scheduler.arrived(r[0], 8_tok) == status::ok);
  f.submit(r[1]);
  const auto p = f.plan(1);
  REQUIRE(p.size() == 2);
  CHECK(p[0].first == 8_tok);
  CHECK(p[1].first == 8_tok);
  CHECK(f.scheduler.device_blocks_held() == 4_blk);
  f.commit(p, {.finished = true});
  CHECK(f.scheduler.device_blocks_held() == 0_blk);
}

TEST_CASE("loading: after the deadline it computes, whether it had started or not") {
  for (const bool starts : {false, true}) {
    std::deque<request> r{make(12)};
    fixture<> f{small};
    f.submit(r[0]);
    REQUIRE(f.scheduler.loading(r[0], 8_tok, at(2)) == status::ok);
    if (starts) f.step(1);
    CHECK(r[0].state().loads);
    const auto p = f.plan(2);
    REQUIRE(p.late.size() == 1);
    CHECK(p.late[0].what == deadline_of::loading);
    REQUIRE(p.size() == 1);
    CHECK(p[0].first == 0_tok);
    CHECK(p[0].count == 12_tok);
    CHECK(p.load.empty());
    f.commit(p, {.finished = true});
    CHECK(f.scheduler.arrived(r[0], 8_tok) == status::unknown_request);
    CHECK(f.scheduler.idle());
  }
}

TEST_CASE("loading: what is cached is not loaded") {
  std::deque<request> r{make(16), make(16), make(16)};
  for (request& x : r) x.hashes = {1, 2, 3, 4};
  fixture<kv::prefix_cache> f{small};
  f.submit(r[0]);
  auto p = f.scheduler.plan({}, {.token_budget = 8_tok});
  f.commit(p);
  f.submit(r[1]);
  REQUIRE(f.scheduler.loading(r[1], 12_tok, never) == status::ok);
  REQUIRE(f.scheduler.park(r[0], never) == status::ok);
  p = f.plan();
  REQUIRE(p.load.size() == 1);
  CHECK(p.load[0].first == 2);
  CHECK(p.load[0].device.size() == 1);
  f.commit(p);
  REQUIRE(f.scheduler.arrived(r[1], 0_tok) == status::ok);
  CHECK(r[1].state().computed == 8_tok);  // what was here is here
  p = f.plan();
  REQUIRE(p.size() == 1);
  CHECK(p[0].first == 8_tok);
  f.commit(p);
  f.submit(r[2]);
  REQUIRE(f.scheduler.loading(r[2], 8_tok, never) == status::ok);
  p = f.plan();  // all of it is here: it starts as any other
  CHECK(p.load.empty());
  REQUIRE(p.size() == 2);
  CHECK(p.prefill[0].request == &r[2]);
  CHECK(p.prefill[0].first == 12_tok);
  f.commit(p);
  CHECK_FALSE(r[2].state().loads);
  for (request& x : r) CHECK(f.scheduler.cancel(x) == status::ok);
  CHECK(f.scheduler.idle());
}

TEST_CASE("loading: one that is cancelled goes when its blocks are not written to any more") {
  for (const bool is_lost : {false, true}) {
    std::deque<request> r{make(12)};
    fixture<> f{small};
    f.submit(r[0]);
    REQUIRE(f.scheduler.loading(r[0], 8_tok, at(5)) == status::ok);
    f.step();
    CHECK(f.scheduler.cancel(r[0]) == status::ok);
    CHECK(r[0].state().life == lifecycle::suspended);
    CHECK(f.scheduler.device_blocks_held() == 3_blk);
    CHECK_FALSE(f.scheduler.idle());
    if (is_lost) {
      f.step(5);
    } else {
      CHECK(f.scheduler.arrived(r[0], 3_tok) == status::ok);
    }
    CHECK(r[0].state().life == lifecycle::cancelled);
    CHECK(f.scheduler.device_blocks_held() == 0_blk);
    CHECK(f.scheduler.idle());
  }
}

TEST_CASE("draining: blocks are not handed out before the copy is done, or late") {
  for (const int how : {0, 1, 2}) {
    CAPTURE(how);
    std::deque<request> r{make(20), make(16)};
    fixture<> f{small};
    f.submit(r[0]);
    f.step();
    std::uint64_t ticket = 0;
    const auto p = f.plan();
    CHECK(f.scheduler.finish(r[0], at(5), ticket) == status::busy);
    f.commit(p);
    REQUIRE(f.scheduler.finish(r[0], at(5), ticket) == status::ok);
    CHECK(r[0].state().life == lifecycle::finished);  // it is the engine's again, its blocks are not free
    CHECK(f.scheduler.device_blocks_held() == 6_blk);
    CHECK(f.scheduler.draining_count() == 1);
    CHECK(f.scheduler.idle());
    f.submit(r[1]);
    const auto q = f.plan(1);
    CHECK(q.empty());
    CHECK(f.scheduler.why(r[1]) == wait_reason::no_blocks);
    if (how == 0) {
      f.commit(q);
      CHECK(f.scheduler.drained(ticket) == status::ok);
      CHECK(f.scheduler.device_blocks_held() == 0_blk);
    } else if (how == 1) {
      CHECK(f.scheduler.drained(ticket) == status::ok);
      CHECK(f.scheduler.device_blocks_held() == 6_blk);  // the plan can be abandoned, to the letter
      f.commit(q);
      CHECK(f.scheduler.device_blocks_held() == 0_blk);
    } else {
      f.commit(q);
    }
    const auto last = f.plan(5);
    CHECK(last.late.size() == (how == 2 ? 1 : 0));
    if (how == 2) {
      CHECK(last.late[0].request == nullptr);
      CHECK(last.late[0].ticket == ticket);
    }
    CHECK(last.size() == 1);
    CHECK(f.scheduler.drained(ticket) == status::unknown_request);
    f.commit(last, {.finished = true});
    CHECK(f.scheduler.idle());
  }
}

TEST_CASE("start_by: the plan tells which still wait, once") {
  std::deque<request> r{make(4), make(4), make(4)};
  fixture<> f{small};
  for (request& x : r) {
    f.submit(x);
    REQUIRE(f.scheduler.start_by(x, at(1)) == status::ok);
  }
  f.commit(f.scheduler.plan(at(0), {.max_starts = 1}));
  const auto p = f.scheduler.plan(at(1), {.max_starts = 0});
  REQUIRE(p.late.size() == 2);
  CHECK(p.late[0].request == &r[1]);
  CHECK(p.late[1].request == &r[2]);
  CHECK(p.late[1].what == deadline_of::waiting);
  CHECK(f.scheduler.cancel(r[1]) == status::ok);
  f.commit(p);
  const auto q = f.plan(2);
  CHECK(q.late.empty());
  CHECK(q.size() == 2);
  f.commit(q, {.finished = true});
  CHECK(f.scheduler.idle());
}

TEST_CASE("standing aside allocates nothing") {
  std::deque<request> r{make(12), make(4)};
  fixture<> f{small};
  const tessera_test::no_allocation guard;
  std::uint64_t ticket = 0;
  bool good = true;
  for (int i = 0; i != 20; ++i) {
    const auto now = at(i * 10.0);
    for (request& x : r) good = good && f.scheduler.submit(x, now) == status::ok;
    good = good && f.scheduler.loading(r[0], 8_tok, at(i * 10.0 + 2)) == status::ok;
    good = good && f.scheduler.park(r[1], at(i * 10.0 + 1)) == status::ok;
    outcome one[2]{};
    auto p = f.scheduler.plan(now, {});
    good = good && f.scheduler.commit(p, {one, p.size()}, now) == status::ok;
    p = f.scheduler.plan(at(i * 10.0 + 3), {});
    good = good && p.size() == 2 && p.late.size() == 2 && f.scheduler.commit(p, {one, p.size()}, now) == status::ok;
    for (request& x : r) good = good && f.scheduler.finish(x, at(i * 10.0 + 4), ticket) == status::ok;
    good = good && f.scheduler.drained(ticket) == status::ok;
  }
  const auto allocations = guard.allocations();
  CHECK(good);
  CHECK(allocations == 0);
}
