// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What unchecked builds do where checked ones assert: nothing is read past an end, no request is taken twice, no plan
// is settled that is not pending. This file is compiled without checks whatever the rest is; the inline namespace keeps
// the two apart.

#undef TESSERA_CHECKED
#define TESSERA_CHECKED 0

#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/queue/fcfs.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook {};
using scheduler_type = iteration_scheduler<request, order::fcfs, preempt::swap, admit::always>;
constexpr scheduler_limits small{
    .requests = 8, .blocks = 12, .block_size = 4_tok, .residents = 4, .host_blocks = 12, .max_length = 48_tok};

struct fixture {
  owned_storage<scheduler_limits> storage = storage_for<scheduler_type>(small);
  std::deque<request> r{8};
  scheduler_type scheduler{storage};

  fixture() {
    for (request& x : r) x.prompt = 9_tok;
  }
  ~fixture() {
    for (request& x : r) static_cast<void>(scheduler.cancel(x));
  }
  auto plan(const step_limits& l = {}) { return scheduler.plan(time_point{}, l); }
  status commit(const scheduler_type::plan_type& p, const std::vector<outcome>& outcomes) {
    return scheduler.commit(p, outcomes, time_point{});
  }
  status submit(std::size_t i) { return scheduler.submit(r[i], time_point{}); }
};

/// All that can be seen of a scheduler.
struct picture {
  explicit picture(const fixture& f)
      : free{f.scheduler.store().free()},
        waiting{f.scheduler.waiting_count()},
        residents{f.scheduler.resident_count()},
        pending{f.scheduler.plan_pending()} {
    for (const request& r : f.r) {
      computed.push_back(r.state().computed.count());
      length.push_back(r.state().length.count());
      life.push_back(r.state().life);
    }
  }
  bool operator==(const picture&) const = default;

  std::size_t free, waiting, residents;
  bool pending;
  std::vector<std::int64_t> computed, length;
  std::vector<lifecycle> life;
};

}  // namespace

TEST_CASE("unchecked: commit with the wrong number of outcomes is invalid, and changes nothing") {
  fixture f;
  for (std::size_t i : {0U, 1U, 2U}) REQUIRE(f.submit(i) == status::accepted);
  const auto p = f.plan();
  REQUIRE(p.size() == 3);
  const picture before{f};
  CHECK(f.commit(p, std::vector<outcome>(2)) == status::invalid);
  CHECK(f.commit(p, {}) == status::invalid);
  CHECK(f.commit(p, std::vector<outcome>(4)) == status::invalid);
  CHECK(picture{f} == before);
  CHECK(before.pending);
  CHECK(f.commit(p, std::vector<outcome>(3)) == status::ok);
  CHECK(f.r[0].generated() == 1_tok);
}

TEST_CASE("unchecked: a plan that is not pending is neither committed nor abandoned") {
  fixture f;
  REQUIRE(f.submit(0) == status::accepted);
  const auto p = f.plan();
  REQUIRE(f.commit(p, std::vector<outcome>(1)) == status::ok);
  picture before{f};
  CHECK(f.commit(p, std::vector<outcome>(1)) == status::invalid);
  CHECK(f.scheduler.abandon(p) == status::invalid);
  CHECK(picture{f} == before);
  const auto q = f.plan();
  before = picture{f};
  CHECK(f.commit(p, std::vector<outcome>(1)) == status::invalid);
  CHECK(f.scheduler.abandon(p) == status::invalid);
  CHECK(f.commit({}, {}) == status::invalid);
  CHECK(picture{f} == before);
  CHECK(f.scheduler.abandon(q) == status::ok);
  CHECK(f.scheduler.abandon(q) == status::invalid);

  fixture other;
  REQUIRE(other.submit(0) == status::accepted);
  const auto here = f.plan();
  const auto there = other.plan();
  CHECK(f.scheduler.abandon(there) == status::invalid);
  CHECK(f.commit(there, std::vector<outcome>(1)) == status::invalid);
  CHECK(f.scheduler.abandon(here) == status::ok);
  CHECK(other.scheduler.abandon(there) == status::ok);
}

TEST_CASE("unchecked: plan while one is pending, or without anything to plan for, is empty and has the id 0") {
  fixture f;
  REQUIRE(f.submit(0) == status::accepted);
  picture before{f};
  for (const step_limits& l :
       {step_limits{.max_batch = 0}, step_limits{.token_budget = 0_tok}, step_limits{.token_budget = tokens{-5}},
        step_limits{.lookahead = tokens{-1}}, step_limits{.prefill_budget = tokens{-1}}}) {
    const auto p = f.plan(l);
    CHECK(p.empty());
    CHECK(p.id == 0);
    CHECK(picture{f} == before);
    CHECK(f.commit(p, {}) == status::invalid);
  }
  const auto p = f.plan();
  CHECK(p.id != 0);
  before = picture{f};
  const auto again = f.plan();
  CHECK(again.empty());
  CHECK(again.id == 0);
  CHECK(picture{f} == before);
  CHECK(f.commit(again, {}) == status::invalid);
  CHECK(f.commit(p, std::vector<outcome>(1)) == status::ok);
}

TEST_CASE("unchecked: of several plans in flight, only the oldest is committed and only the newest abandoned") {
  scheduler_limits l = small;
  l.plans_in_flight = 2;
  auto storage = storage_for<scheduler_type>(l);
  request r;
  r.prompt = 9_tok;
  scheduler_type scheduler{storage};
  REQUIRE(scheduler.submit(r, {}) == status::accepted);
  const std::vector<outcome> one(1);
  const auto p = scheduler.plan({}, {});
  const auto q = scheduler.plan({}, {});
  CHECK(scheduler.plan({}, {}).id == 0);
  CHECK(scheduler.commit(q, one, {}) == status::invalid);
  CHECK(scheduler.abandon(p) == status::invalid);
  CHECK(scheduler.can_abandon());
  CHECK(scheduler.commit(p, {}, {}) == status::invalid);
  CHECK(scheduler.commit(p, one, {}) == status::ok);
  CHECK(scheduler.abandon(q) == status::invalid);
  CHECK(scheduler.commit(p, one, {}) == status::invalid);
  CHECK(scheduler.plans_in_flight() == 1);
  CHECK(scheduler.commit(q, one, {}) == status::ok);
  CHECK(r.state().length == 11_tok);
  CHECK(scheduler.cancel(r) == status::ok);
}

TEST_CASE("unchecked: who is in a queue of one's own is busy") {
  fixture f;
  fcfs_queue<request> mine;
  mine.push(f.r[0], time_point{});
  CHECK(f.submit(0) == status::busy);
  CHECK(f.scheduler.adopt(f.r[0], {.length = 9_tok}) == status::busy);
  CHECK(mine.size() == 1);
  CHECK(mine.front() == &f.r[0]);
  REQUIRE(f.submit(1) == status::accepted);
  REQUIRE(f.commit(f.plan(), std::vector<outcome>(1)) == status::ok);
  CHECK(f.scheduler.fork(f.r[1], f.r[0]) == status::busy);
  CHECK(f.scheduler.cancel(f.r[0]) == status::unknown_request);
  mine.erase(f.r[0]);
  CHECK(f.submit(0) == status::accepted);
  CHECK(f.submit(0) == status::busy);
}

TEST_CASE("unchecked: more tokens than there are slots for, or none, count as the nearest that is possible") {
  fixture f;
  REQUIRE(f.submit(0) == status::accepted);
  REQUIRE(f.submit(1) == status::accepted);
  auto p = f.plan({.lookahead = 2_tok});
  REQUIRE(p[0].lookahead == 2_tok);
  REQUIRE(f.commit(p, {outcome{.produced = 9}, outcome{.produced = 0}}) == status::ok);
  CHECK(f.r[0].state().length == 12_tok);
  CHECK(f.r[0].state().computed == 11_tok);
  CHECK(f.r[1].state().length == 10_tok);
  CHECK(f.r[1].state().computed == 9_tok);
  p = f.plan();
  REQUIRE(p[0].lookahead == 0_tok);
  REQUIRE(f.commit(p, {outcome{.produced = 65535}, outcome{}}) == status::ok);
  CHECK(f.r[0].state().length == 13_tok);
  CHECK(f.r[0].state().computed == 12_tok);
  // It goes on as if nothing had happened.
  p = f.plan();
  CHECK(p[0].first == 12_tok);
  CHECK(f.scheduler.abandon(p) == status::ok);
  // One that failed gave what it gave, within its slots.
  p = f.plan({.lookahead = 1_tok});
  REQUIRE(f.commit(p, {outcome{.produced = 7, .failed = true}, outcome{.produced = 0, .failed = true}}) == status::ok);
  CHECK(f.r[0].state().life == lifecycle::failed);
  CHECK(f.r[0].state().length <= 15_tok);
  CHECK(f.r[1].state().life == lifecycle::failed);
  CHECK(f.scheduler.idle());
  CHECK(f.scheduler.store().free() == 12);
}
