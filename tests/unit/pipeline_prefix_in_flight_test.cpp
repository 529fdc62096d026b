// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Prompts that begin alike and come together: what they share is computed once, and no request waits longer for that
// than it takes.

#include <tessera/compose/fcfs.hpp>
#include <tessera/gate/adapter_slots.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>

#include "support/step_engine.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <tuple>
#include <vector>

namespace {

using namespace tessera_test;

using request = prompt_request<>;
using engine = step_engine<fcfs<request, kv::prefix_cache>>;

constexpr scheduler_limits roomy{.blocks = 20'000, .residents = 256};
constexpr scheduler_limits two_in_flight{.blocks = 20'000, .residents = 256, .plans_in_flight = 2};
constexpr fcfs<request, kv::prefix_cache>::config all_start{.watermark = 0};

/// Tokens of prompts: what decodes compute is not counted.
tokens in_prefills(const engine::plan_type& p) {
  tokens n{};
  for (const auto& entry : p.prefill) n += entry.count;
  return n;
}

/// Which of its engine's requests it is.
std::size_t place(const engine& e, const request* r) {
  std::size_t i = 0;
  while (&e.requests[i] != r) ++i;
  return i;
}

}  // namespace

TEST_CASE("32 prompts that begin alike compute what they share once", "[pipeline]") {
  const auto budget = GENERATE(as<std::int64_t>{}, 2048, 8192, 32'768, 131'072);
  CAPTURE(budget);
  engine e{roomy, all_start};
  for (int i = 0; i != 32; ++i) e.submit_hashed(2064, 0, 129, 128);
  tokens computed{};
  std::size_t steps = 0;
  for (; steps != 3; ++steps) {
    const auto p = e.plan({.token_budget = tokens{budget}});
    computed += in_prefills(p);
    e.commit(p);
  }
  CHECK(computed == tokens{2048 + 32 * 16});  // each block of 16 tokens once
  CHECK(std::all_of(e.requests.begin(), e.requests.end(), [](const request& r) { return r.generated() > 0_tok; }));
  CHECK(e.scheduler.device_blocks_held() == blocks{128 + 32 * 2});
}

TEST_CASE("equal prompts compute all but their last block once", "[pipeline]") {
  engine e{roomy, all_start};
  for (int i = 0; i != 32; ++i) e.submit_hashed(2048, 0, 128, 128);
  const auto first = e.plan({});
  CHECK(first.computed == 2048_tok);
  CHECK(first.size() == 1);
  for (std::size_t i = 1; i != 32; ++i) CHECK(e.why(e.requests[i]) == wait_reason::prefix_in_flight);
  e.commit(first);
  const auto second = e.plan({});
  CHECK(second.size() == 32);
  CHECK(in_prefills(second) == 31 * 16_tok);  // a step must sample from one token at least
  e.commit(second);
}

TEST_CASE("a chain of prompts, each the beginning of the next, computes each block once", "[pipeline]") {
  engine e{roomy, all_start};
  for (std::size_t i = 1; i != 9; ++i) {
    e.submit_hashed(static_cast<std::int64_t>(i) * 512 + 1, 0, i * 32, i * 32);
  }
  tokens computed{};
  for (int i = 0; i != 9; ++i) {
    const auto p = e.plan({});
    for (const auto& entry : p.prefill) computed += entry.count;
    for (const auto& entry : p.decode) {
      if (entry.request->generated() == 0_tok) computed += entry.count;
    }
    e.commit(p);
  }
  CHECK(computed == 8 * 512_tok + 8_tok);
  CHECK(std::all_of(e.requests.begin(), e.requests.end(), [](const request& r) { return r.generated() > 0_tok; }));
}

TEST_CASE("with two plans in flight what is alike is computed once, too", "[pipeline]") {
  engine e{two_in_flight, all_start};
  for (int i = 0; i != 32; ++i) e.submit_hashed(2064, 0, 129, 128);
  tokens computed{};
  const step_limits l{.token_budget = 1024_tok};
  auto before = e.plan(l);
  for (int i = 0; i != 8; ++i) {
    const auto next = e.plan(l);
    computed += in_prefills(before);
    e.commit(before);
    before = next;
  }
  computed += in_prefills(before);
  e.commit(before);
  CHECK(computed == tokens{2048 + 32 * 16});
  CHECK(std::all_of(e.requests.begin(), e.requests.end(), [](const request& r) { return r.generated() > 0_tok; }));
}

TEST_CASE("others pass those that wait for a prefix, and leave them their blocks and their places", "[pipeline]") {
  SECTION("with room for all, others start at once") {
    engine e{roomy, all_start};
    e.submit_hashed(1025, 0, 64, 64);
    e.submit_hashed(1025, 0, 64, 64);
    request& other = e.submit(64, 0);
    const auto p = e.plan({});
    CHECK(p.size() == 2);
    CHECK(e.why(e.requests[1]) == wait_reason::prefix_in_flight);
    CHECK(e.why(other) == wait_reason::none);
    e.commit(p);
    CHECK(e.step() == 3);
  }
  SECTION("what the waiting one will take is not given away") {
    // 65 for each of the first two, as if they shared nothing; 2 are left.
    engine e{{.blocks = 132, .residents = 8}, all_start};
    e.submit_hashed(1025, 14, 64, 64);
    request& twin = e.submit_hashed(1025, 14, 64, 64);
    request& other = e.submit(64, 0);  // 4 blocks
    auto p = e.plan({});
    CHECK(p.size() == 1);
    CHECK(e.why(twin) == wait_reason::prefix_in_flight);
    CHECK(e.why(other) == wait_reason::no_blocks);
    e.commit(p);
    p = e.plan({});
    CHECK(e.why(twin) == wait_reason::none);
    CHECK(e.why(other) == wait_reason::none);
    e.commit(p);
  }
  SECTION("nor its place among the residents, nor in the batch") {
    for (const bool residents : {true, false}) {
      engine e{{.blocks = 1000, .residents = residents ? std::size_t{2} : 8}, all_start};
      const step_limits l{.max_batch = residents ? std::size_t{8} : 2};
      e.submit_hashed(1025, 0, 64, 64);
      request& twin = e.submit_hashed(1025, 0, 64, 64);
      request& other = e.submit(64, 0);
      auto p = e.plan(l);
      CHECK(p.size() == 1);
      CHECK(e.why(other) == (residents ? wait_reason::residents_full : wait_reason::batch_full));
      e.commit(p);
      p = e.plan(l);
      CHECK(p.size() == 2);
      CHECK(e.why(twin) == wait_reason::none);
      e.commit(p);
    }
  }
}

TEST_CASE("a request that ranks before another never waits for its prefix", "[pipeline]") {
  engine e{roomy, all_start};
  // A prompt of 100 steps at the end of the line, and an urgent one that begins as it does.
  e.submit_hashed(25'600, 0, 1600, 1600);
  e.step({.token_budget = 256_tok});
  request& urgent = e.submit_hashed(25'600, 0, 1600, 1600, 1);
  const auto p = e.plan({.token_budget = 256_tok});
  CHECK(e.why(urgent) == wait_reason::none);
  e.commit(p);
}

TEST_CASE("one that waits for a prefix goes on when its leader is gone", "[pipeline]") {
  const auto in_flight = GENERATE(as<std::size_t>{}, 1, 2);
  const auto how = GENERATE(0, 1, 2, 3, 4);
  CAPTURE(in_flight, how);
  engine e{in_flight == 1 ? roomy : two_in_flight, all_start};
  request& leader = e.submit_hashed(4096, 100, 256, 256);
  const step_limits l{.token_budget = 1024_tok};
  const auto first = e.plan(l);
  request& follower = e.submit_hashed(4096, 100, 256, 256);
  auto fails = std::vector<outcome>(1);
  switch (how) {
    case 0: CHECK(e.scheduler.cancel(leader) == status::ok); break;  // while the plan is open
    case 1: fails[0].failed = true; break;
    default: break;
  }
  e.commit(first, fails);
  switch (how) {
    case 2: CHECK(e.scheduler.preempt(leader) == status::ok); break;
    case 3: CHECK(e.scheduler.suspend(leader) == status::ok); break;
    case 4: CHECK(e.scheduler.park(leader, time_point::never()) == status::ok); break;
    default: break;
  }
  if (how == 2) CHECK(e.scheduler.cancel(leader) == status::ok);
  std::size_t steps = 0;
  for (; follower.generated() == 0_tok; ++steps) {
    REQUIRE(steps != 6);
    e.step(l);
  }
  CHECK(steps <= 4);
  if (how == 3) CHECK(e.scheduler.resume(leader) == status::ok);
  if (how == 4) CHECK(e.scheduler.ready(leader) == status::ok);
}

TEST_CASE("a plan that is abandoned leaves no trace of requests that waited for a prefix", "[pipeline]") {
  engine a{roomy, all_start};
  engine b{roomy, all_start};
  for (engine* e : {&a, &b}) {
    for (int i = 0; i != 8; ++i) e->submit_hashed(2064, 40, 129, 128);
  }
  for (int step = 0; step != 20; ++step) {
    a.abandon(a.plan({.token_budget = 64_tok}));
    if (step == 1) {
      const auto p = a.plan({});
      CHECK(a.scheduler.cancel(a.requests[7]) == status::ok);
      CHECK(b.scheduler.cancel(b.requests[7]) == status::ok);
      a.abandon(p);
    }
    const step_limits l{.token_budget = 512_tok};
    const auto p = a.plan(l);
    const auto q = b.plan(l);
    REQUIRE(p.size() == q.size());
    for (std::size_t i = 0; i != p.size(); ++i) {
      CHECK(place(a, p[i].request) == place(b, q[i].request));
      CHECK((p[i].first == q[i].first && p[i].count == q[i].count));
    }
    a.commit(p);
    b.commit(q);
  }
}

TEST_CASE("a class that is held for a prefix leaves the turn to other deferred classes", "[pipeline]") {
  struct member : prompt_request<> {
    std::uint32_t tenant = 0;
    std::uint32_t adapter = 0;
  };
  using gates = gate::all<gate::adapter_slots, gate::fair_tenants>;
  const bool follower_is_first = GENERATE(false, true);
  CAPTURE(follower_is_first);
  gates gate{};
  std::get<gate::adapter_slots>(gate.gates).slots = 1;
  step_engine<fcfs<member, kv::prefix_cache, kv::csr_tables, gates>> e{roomy, {.gate = gate}};
  const step_limits limits{.token_budget = 512_tok, .max_chunk = 64_tok};
  const auto submit = [&](std::uint32_t tenant, std::uint32_t adapter, std::int64_t prompt) -> member& {
    member& r = e.add(prompt, 0);
    r.tenant = tenant;
    r.adapter = adapter;
    if (prompt > 1000) r.hashes = hashes_of(static_cast<std::size_t>(prompt / 16), 256, e.requests.size());
    return e.submit(r);
  };
  for (const std::uint32_t tenant : {1U, 2U, 4U}) submit(tenant, tenant == 4 ? 8 : 0, 16);
  for (int i = 0; i != 2; ++i) e.step(limits);
  // The tenant that has had least has no slot for its adapter. Tenant 1 has had most: it computes a long prompt.
  const member& gated = submit(3, 9, 16);
  e.step(limits);
  submit(1, 0, 4096);
  for (int i = 0; i != 2; ++i) e.step(limits);
  const auto follow = [&] { return &submit(2, 0, 4096 + 64); };
  const member* follower = follower_is_first ? follow() : nullptr;
  const member& other = submit(1, 0, 16);
  if (!follower_is_first) follower = follow();
  e.step(limits);
  CHECK(e.why(gated) == wait_reason::gated);
  CHECK(e.why(*follower) == wait_reason::prefix_in_flight);
  CHECK(other.generated() == 1_tok);
}

TEST_CASE("prefixes that have been forgotten lead none", "[pipeline]") {
  engine e{roomy, all_start};
  e.submit_hashed(4096, 0, 256, 256);
  e.step({.token_budget = 1024_tok});
  CHECK(e.scheduler.forget_prefixes() == status::ok);
  request& later = e.submit_hashed(4096, 0, 256, 256);
  const auto p = e.plan({.token_budget = 8192_tok});
  CHECK(e.why(later) == wait_reason::none);  // what the first computes from now on is not published
  e.commit(p);
}

TEST_CASE("models of several groups compute what is alike once", "[pipeline]") {
  struct grouped_request : request_hook {
    std::vector<std::uint64_t> hashes;
    [[nodiscard]] std::array<std::span<const std::uint64_t>, 2> prefix_hashes() const noexcept {
      return {hashes, hashes};
    }
  };
  using scheduler = fcfs<grouped_request, kv::groups<2>>;
  const auto in_flight = GENERATE(as<std::size_t>{}, 1, 2);
  scheduler::limits l{{.blocks = 20'000, .residents = 64, .max_length = 4096_tok, .plans_in_flight = in_flight},
                      {kv::group::full(16_tok), kv::group::sliding(16_tok, 256_tok)}};
  std::deque<grouped_request> all(32);
  auto storage = storage_for<scheduler>(l);
  scheduler s{storage, {.watermark = 0}};
  std::uint64_t own = 0;
  for (grouped_request& r : all) {
    r.prompt = 2064_tok;
    r.hashes = hashes_of(129, 128, ++own);
    REQUIRE(s.submit(r, {}) == status::accepted);
  }
  tokens computed{};
  std::deque<scheduler::plan_type> plans;
  for (int step = 0; step != 12; ++step) {
    plans.push_back(s.plan({}, {.token_budget = 1024_tok}));
    for (const auto& e : plans.back().prefill) computed += e.count;
    if (plans.size() < in_flight) continue;
    REQUIRE(s.commit(plans.front(), std::vector<outcome>(plans.front().size()), {}) == status::ok);
    plans.pop_front();
  }
  for (const auto& p : plans) REQUIRE(s.commit(p, std::vector<outcome>(p.size()), {}) == status::ok);
  CHECK(computed == tokens{2048 + 32 * 16});
  for (grouped_request& r : all) static_cast<void>(s.cancel(r));
}
