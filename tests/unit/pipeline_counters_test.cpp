// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What a scheduler counts for metrics, and which requests it refuses at `submit` by policy.

#include <tessera/gate/all.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/gate/in_time.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook {
  std::uint32_t tenant = 0;
  time_point answer_by = time_point::never();
  std::vector<std::uint64_t> hashes;
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};

template <class Gate = gate::in_line, class Preempt = preempt::recompute>
struct fixture {
  using scheduler_type =
      iteration_scheduler<request, order::fcfs, Preempt, admit::always, kv::prefix_cache, kv::csr_tables, Gate>;
  explicit fixture(const scheduler_limits& l, const Gate& gate = {})
      : storage{storage_for<scheduler_type>(l)}, scheduler{storage, {.gate = gate}} {}
  ~fixture() {
    for (request& r : requests) static_cast<void>(scheduler.cancel(r));
  }
  request& make(std::int64_t prompt, std::uint32_t tenant = 0) {
    request& r = requests.emplace_back();
    r.prompt = tokens{prompt};
    r.tenant = tenant;
    return r;
  }
  void step(const outcome& o = {}) {
    const auto p = scheduler.plan(time_point{}, {});
    const std::vector<outcome> outcomes(p.size(), o);
    REQUIRE(scheduler.commit(p, outcomes, time_point{}) == status::ok);
  }
  std::deque<request> requests;
  owned_storage<scheduler_limits> storage;
  scheduler_type scheduler;
};

constexpr time_point at(double s) { return time_point{duration{s}}; }

}  // namespace

TEST_CASE("counters: what came, what became of it, and why others waited") {
  fixture<> f{{.requests = 4, .blocks = 8, .block_size = 4_tok, .residents = 2, .deadlines = 2}};
  auto& s = f.scheduler;
  const scheduler_counters& c = s.counters();
  request& a = f.make(16);
  request& b = f.make(12);
  request& d = f.make(4);
  request& too_long = f.make(64);
  a.hashes = {1, 2, 3, 4};
  b.hashes = {1, 2, 3};
  REQUIRE(s.submit(a, {}) == status::accepted);
  REQUIRE(s.submit(d, {}) == status::accepted);
  CHECK(s.submit(too_long, {}) == status::never_fits);
  CHECK(c.joined == 2);
  CHECK(c.refused == 1);
  const auto p = s.plan({}, {});
  CHECK(s.abandon(p) == status::ok);
  CHECK(c.plans == 0);
  CHECK(c.started == 0);
  f.step();
  CHECK(c.plans == 1);
  CHECK(c.started == 2);
  CHECK(c.hit_blocks == 0);
  CHECK(c.all_blocks == 5);
  REQUIRE(s.submit(b, {}) == status::accepted);
  REQUIRE(s.start_by(b, at(0)) == status::ok);
  f.step();  // no place for it, and late already
  CHECK(c.held_up[static_cast<std::size_t>(wait_reason::batch_full)] == 1);
  CHECK(c.late[static_cast<std::size_t>(deadline_of::waiting)] == 1);
  CHECK(s.finish(d) == status::ok);
  f.step();
  CHECK(c.started == 3);
  CHECK(c.hit_blocks == 2);  // of its 3 one token is left to compute
  CHECK(c.hit_rate() == 2.0 / 8.0);
  REQUIRE(s.preempt(a) == status::ok);
  CHECK(c.recomputed == 1);
  CHECK(c.swapped == 0);
  CHECK(s.cancel(a) == status::ok);
  CHECK(s.evacuate(b) == status::ok);
  CHECK(c.finished == 1);
  CHECK(c.cancelled == 1);
  CHECK(c.left == 1);
  CHECK(c.failed == 0);
}

TEST_CASE("refused: a tenant's quota of waiting requests") {
  gate::fair_tenants gate;
  gate.most_waiting = 2;
  fixture<gate::fair_tenants> f{{.blocks = 64, .block_size = 4_tok, .residents = 1}, gate};
  auto& s = f.scheduler;
  CHECK(s.submit(f.make(4, 1), {}) == status::accepted);
  CHECK(s.submit(f.make(4, 1), {}) == status::accepted);
  request& third = f.make(4, 1);
  CHECK(s.submit(third, {}) == status::refused);
  CHECK(third.state().life == lifecycle::idle);
  CHECK(s.submit(f.make(4, 2), {}) == status::accepted);
  third.prompt = 1000_tok;
  CHECK(s.submit(third, {}) == status::never_fits);  // which is so for every tenant
  third.prompt = 4_tok;
  f.step();
  CHECK(s.submit(third, {}) == status::accepted);  // one of them has started
  CHECK(s.counters().refused == 2);
}

TEST_CASE("refused: a deadline that cannot be met") {
  fixture<gate::all<gate::in_time>> f{{.blocks = 64, .block_size = 4_tok, .residents = 1},
                                      {.gates = {gate::in_time{.prefill_per_s = 100}}}};
  auto& s = f.scheduler;
  const auto submit = [&](std::int64_t prompt, double by) {
    request& r = f.make(prompt);
    r.answer_by = at(by);
    return s.submit(r, at(1));
  };
  const auto queued = [&] { return std::get<0>(s.gate().gates).queued; };
  CHECK(submit(100, 1.9) == status::refused);  // 1 s alone
  CHECK(submit(100, 2.0) == status::accepted);
  CHECK(submit(50, 2.4) == status::refused);
  CHECK(submit(50, 2.5) == status::accepted);
  CHECK(queued() == 150_tok);
  f.step();
  CHECK(queued() == 50_tok);
  CHECK(submit(40, 1.95) == status::accepted);
  CHECK(s.submit(f.make(200), at(1)) == status::accepted);  // it does not say by when
  CHECK(queued() == 290_tok);
  REQUIRE(s.preempt(f.requests[1]) == status::ok);
  CHECK(queued() == 391_tok);  // its prompt and a token
  REQUIRE(s.park(f.requests[1], time_point::never()) == status::ok);
  CHECK(queued() == 290_tok);
  for (request& r : f.requests) static_cast<void>(s.cancel(r));
  CHECK(queued() == 0_tok);
}
