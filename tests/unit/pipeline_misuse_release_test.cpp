// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What unchecked builds do where checked ones assert. Nothing is read past an end, no request is taken twice, and no
// plan is settled that is not pending. This file is compiled without checks whatever the rest is; the inline namespace
// keeps the two apart.

#undef TESSERA_CHECKED
#define TESSERA_CHECKED 0

#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>
#include <tessera/queue/fcfs.hpp>

#include "support/catch.hpp"

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#ifdef __unix__
#  include <sys/resource.h>
#  include <sys/wait.h>
#  include <unistd.h>
#endif

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

TEST_CASE("unchecked: a request in a queue of one's own is busy") {
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

namespace {

struct hashed_request : request_hook {
  std::vector<std::uint64_t> hashes;
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};
using sharing_scheduler =
    iteration_scheduler<hashed_request, order::fcfs, preempt::recompute, admit::always, kv::prefix_cache>;

/// Runs a step in which nothing ends.
void run(sharing_scheduler& s) {
  const auto p = s.plan({}, {});
  REQUIRE(s.commit(p, std::vector<outcome>(p.size()), {}) == status::ok);
}

}  // namespace

TEST_CASE("unchecked: a hash of a block that is not full is refused") {
  auto storage = storage_for<sharing_scheduler>({.blocks = 64, .residents = 4});
  hashed_request r;
  r.prompt = 20_tok;
  r.hashes = {11, 22};  // one for each block that is begun
  sharing_scheduler s{storage};
  CHECK(s.submit(r, {}) == status::invalid);
  CHECK(s.adopt(r, {.length = 20_tok}) == status::invalid);
  CHECK(s.idle());
  r.hashes = {11};
  CHECK(s.submit(r, {}) == status::accepted);
  CHECK(s.cancel(r) == status::ok);
}

TEST_CASE("unchecked: hashes that grow too soon share nothing, so that no answer becomes another's") {
  auto storage = storage_for<sharing_scheduler>({.blocks = 64, .residents = 4});
  hashed_request a;
  hashed_request b;
  sharing_scheduler s{storage};
  for (hashed_request* r : {&a, &b}) {
    r->prompt = 36_tok;
    r->hashes = {11, 22};
    REQUIRE(s.submit(*r, {}) == status::accepted);
  }
  run(s);
  // Both name the block that their answers are to fill when it is begun, and fill it otherwise.
  for (hashed_request* r : {&a, &b}) r->hashes = {11, 22, 33, 44};
  for (int i = 0; i != 30; ++i) run(s);
  REQUIRE(s.cancel(a) == status::ok);
  REQUIRE(s.preempt(b) == status::ok);
  const auto p = s.plan({}, {});
  REQUIRE(p.size() == 1);
  CHECK(p[0].first <= 32_tok);
  REQUIRE(s.commit(p, std::vector<outcome>(1), {}) == status::ok);
  CHECK(s.cancel(b) == status::ok);
}

#ifdef __unix__
TEST_CASE("unchecked: storage that is too small stops the program before anything is written outside of it") {
  const scheduler_limits large{.blocks = 100'000, .residents = 64};
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{1} << 20U}) {
    CAPTURE(bytes);
    REQUIRE(bytes < scheduler_type::required_bytes(large));
    std::vector<std::byte> memory(bytes + (std::size_t{64} << 20U), std::byte{0x5a});
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const rlimit no_core{0, 0};
      setrlimit(RLIMIT_CORE, &no_core);
      std::signal(SIGILL, SIG_DFL);
      std::signal(SIGTRAP, SIG_DFL);
      scheduler_type s{std::span{memory}.first(bytes), large};
      static_cast<void>(s.idle());
      _exit(0);
    }
    int ended = 0;
    REQUIRE(waitpid(child, &ended, 0) == child);
    REQUIRE(WIFSIGNALED(ended));
    const int by = WTERMSIG(ended);
    CHECK((by == SIGILL || by == SIGTRAP));  // and not by an access outside of it
  }
}
#endif
