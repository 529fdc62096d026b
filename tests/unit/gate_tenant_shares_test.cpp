// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Tenants' shares, next to a few lines that do the same in the plainest way.

#include <tessera/gate/adapter_slots.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/gate/tenant_deficits.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/catch.hpp"
#include "support/gate_engine.hpp"
#include "unit/gate_start_or_skip.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using tessera_test::start_or_skip::fixture;
using tessera_test::start_or_skip::request;
using tessera_test::start_or_skip::roomy;

}  // namespace

TEST_CASE("fair_tenants: one start in a plan is the textbook's") {
  std::mt19937_64 random{11};
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::size_t overtakes = 0;
  for (int round = 0; round != 40; ++round) {
    gate::basic_fair_tenants<4> gate{};
    for (std::int64_t& w : gate.weights) w = std::int64_t{1} << below(3);
    fixture<gate::basic_fair_tenants<4>> f{roomy, gate};
    // Virtual counters, in quarters, so that the division by weights is exact. One that is lifted has whole parts of
    // its own weight.
    constexpr std::int64_t unit = 4;
    std::array<std::int64_t, 4> counter{};
    std::size_t last = 0;
    std::vector<request*> line;
    std::vector<request*> running;
    const auto waits = [&](std::size_t u) {
      return std::any_of(line.begin(), line.end(), [&](const request* r) { return r->tenant == u; });
    };
    for (int step = 0; step != 120; ++step) {
      for (std::uint64_t n = below(round % 2 == 0 ? 2 : 3); n != 0; --n) {
        const auto u = static_cast<std::uint32_t>(below(2) == 0 ? 0 : below(4));
        const auto prompt = static_cast<std::int64_t>(1 + below(40));
        const auto output = static_cast<std::int64_t>(1 + below(12));
        if (!waits(u)) {
          std::int64_t lift = counter[last];
          if (!line.empty()) {
            lift = counter[line.front()->tenant];
            for (const request* r : line) lift = std::min(lift, counter[r->tenant]);
          }
          const std::int64_t part = unit / gate.weights[u];
          if (counter[u] < lift) counter[u] = lift / part * part;
        }
        line.push_back(&f.submit(prompt, output, 0, u));
      }
      std::vector<request*> expected;
      if (!line.empty() && running.size() < 16) {
        auto next = line.begin();
        for (auto i = line.begin(); i != line.end(); ++i) {
          if (counter[(*i)->tenant] < counter[(*next)->tenant]) next = i;
        }
        overtakes += next != line.begin();
        request* const r = *next;
        line.erase(next);
        expected.push_back(r);
        running.push_back(r);
        counter[r->tenant] += r->prompt.count() * unit / gate.weights[r->tenant];
        last = r->tenant;
      }
      if (below(4) == 0) {
        CHECK(f.plan({.max_starts = 1}) == expected);
        REQUIRE(f.scheduler.abandon(f.p) == status::ok);
      }
      REQUIRE(f.step({.max_starts = 1}) == expected);
      for (const request* r : running) counter[r->tenant] += 2 * unit / gate.weights[r->tenant];
      std::erase_if(running, [](const request* r) { return !is_live(r->state().life); });
      for (std::size_t u = 0; u != 4; ++u) REQUIRE(f.scheduler.gate().had(u) == counter[u] / unit);
    }
    for (request& r : f.requests) static_cast<void>(f.scheduler.cancel(r));
  }
  CHECK(overtakes > 300);
}

TEST_CASE("fair_tenants: a tenant that floods the queue gets no more than another") {
  fixture<gate::fair_tenants> f{{.requests = 4096, .blocks = 1000, .block_size = 16_tok, .residents = 4}, {}};
  for (int i = 0; i != 300; ++i) f.submit(32, 16, 0, 1);
  for (int i = 0; i != 30; ++i) f.submit(32, 16, 0, 2);
  std::size_t of_one = 0;
  std::size_t of_two = 0;
  while (of_two != 30) {
    for (const request* r : f.step()) (r->tenant == 1 ? of_one : of_two) += 1;
  }
  CHECK(of_one >= 28);
  CHECK(of_one <= 34);
}

TEST_CASE("fair_tenants: a fork does not pay for its parent's prompt, though nothing has been generated yet") {
  fixture<gate::fair_tenants> f{roomy, {}};
  const auto had = [&f] { return f.scheduler.gate().had(1); };
  request& parent = f.submit(100, 2, 0, 1);
  f.step({.token_budget = 64_tok});
  REQUIRE(parent.generated() == 0_tok);
  CHECK(had() == 100);
  for (int i = 0; i != 3; ++i) REQUIRE(f.scheduler.fork(parent, f.requests.emplace_back(parent)) == status::ok);
  CHECK(had() == 100);
  f.step();
  f.step();
  REQUIRE(f.scheduler.idle());
  CHECK(had() == 100 + 4 * 2 * 2);
}

TEST_CASE("fair_tenants: a parked request holds none up") {
  fixture<gate::fair_tenants> f{roomy, {}};
  request& a = f.submit(100, 1, 0, 1);
  f.step();  // the first has had something
  request& b = f.submit(4, 1, 0, 2);
  REQUIRE(f.scheduler.park(b, time_point::never()) == status::ok);
  request& c = f.submit(4, 1, 0, 1);
  CHECK(f.step() == std::vector{&c});
  REQUIRE(f.scheduler.ready(b) == status::ok);
  CHECK(f.step() == std::vector{&b});
  CHECK(a.state().life == lifecycle::finished);
}

namespace {

/// DLPM's counters as the paper has them: one round at a time, by tenant.
struct textbook_deficits {
  std::array<std::int64_t, 4> credit{};
  std::array<std::int64_t, 4> quantum{};

  template <class Line>
  void refill(const Line& line) {
    const auto nobody = [&] {
      return std::none_of(line.begin(), line.end(), [&](const request* r) { return credit[r->tenant] > 0; });
    };
    while (!line.empty() && nobody()) {
      for (std::size_t u = 0; u != 4; ++u) credit[u] += credit[u] > 0 ? 0 : quantum[u];
    }
  }
  /// Ours: what is used while no other tenant waits makes no debt.
  template <class Line>
  void spend(std::size_t tenant, std::int64_t cost, const Line& line) {
    credit[tenant] -= cost;
    const auto is_other = [&](const request* r) { return r->tenant != tenant; };
    if (std::none_of(line.begin(), line.end(), is_other)) credit[tenant] = std::max<std::int64_t>(credit[tenant], 0);
  }
};

}  // namespace

TEST_CASE("tenant_deficits: starts what the textbook starts, several in a plan") {
  std::mt19937_64 random{17};
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::size_t overtakes = 0;
  for (int round = 0; round != 40; ++round) {
    gate::basic_tenant_deficits<4> gate{.quantum = static_cast<std::int64_t>(1 + below(60))};
    textbook_deficits book;
    for (std::size_t u = 0; u != 4; ++u) {
      gate.weights[u] = static_cast<std::int64_t>(1 + below(3));
      book.quantum[u] = gate.quantum * gate.weights[u];
    }
    fixture<gate::basic_tenant_deficits<4>> f{roomy, gate};
    std::vector<request*> line;
    std::vector<request*> running;
    for (int step = 0; step != 120; ++step) {
      for (std::uint64_t n = below(round % 2 == 0 ? 2 : 4); n != 0; --n) {
        const auto u = static_cast<std::uint32_t>(below(2) == 0 ? 0 : below(4));
        const auto prompt = static_cast<std::int64_t>(2 + below(40));  // a plan lists one token among the decodes
        const auto output = static_cast<std::int64_t>(1 + below(12));
        line.push_back(&f.submit(prompt, output, 0, u));
      }
      const std::size_t most = 1 + below(3);
      std::vector<request*> expected;
      auto i = line.begin();
      while (i != line.end() && expected.size() != most && running.size() != 16) {
        textbook_deficits refilled = book;  // for good if a request starts
        refilled.refill(line);
        if (refilled.credit[(*i)->tenant] <= 0) {
          ++i;
          ++overtakes;
          continue;
        }
        book = refilled;
        request* const r = *i;
        line.erase(i);
        i = line.begin();
        expected.push_back(r);
        running.push_back(r);
        book.spend(r->tenant, r->prompt.count(), line);
      }
      if (below(4) == 0) {
        CHECK(f.plan({.max_starts = most}) == expected);
        REQUIRE(f.scheduler.abandon(f.p) == status::ok);
      }
      REQUIRE(f.step({.max_starts = most}) == expected);
      for (const request* r : running) book.spend(r->tenant, 2, line);
      std::erase_if(running, [](const request* r) { return !is_live(r->state().life); });
      for (std::size_t u = 0; u != 4; ++u) REQUIRE(f.scheduler.gate().credit(u) == book.credit[u]);
    }
    for (request& r : f.requests) static_cast<void>(f.scheduler.cancel(r));
  }
  CHECK(overtakes > 300);
}

TEST_CASE("tenant_deficits: tenants that always wait are charged alike, for their weights") {
  std::mt19937_64 random{23};
  for (const std::int64_t quantum : {1, 64, 1000}) {
    gate::basic_tenant_deficits<4> gate{.quantum = quantum};
    gate.weights[1] = 2;
    fixture<gate::basic_tenant_deficits<4>> f{{.requests = 4096, .blocks = 1000, .block_size = 16_tok, .residents = 8},
                                              gate};
    std::array<std::int64_t, 2> charged{};
    constexpr std::int64_t longest_prompt = 40;
    constexpr std::int64_t longest_output = 9;
    for (int step = 0; step != 800; ++step) {
      for (std::uint32_t u = 0; u != 2; ++u) {
        while (f.scheduler.gate().accounts[u].waiting < 12) {
          const auto prompt = static_cast<std::int64_t>(1 + random() % longest_prompt);
          const auto output = static_cast<std::int64_t>(1 + random() % longest_output);
          f.submit(prompt, output, 0, u);
        }
      }
      for (const request* r : f.step()) charged[r->tenant] += r->prompt.count();
      for (std::size_t i = 0; i != f.p.size(); ++i) charged[f.p[i].request->tenant] += f.p[i].samples ? 2 : 0;
      // The other part of the bound is what eight running requests may be charged between two questions.
      const std::int64_t bound = 2 * 2 * quantum + 2 * 8 * (longest_prompt + 2 * longest_output);
      REQUIRE(std::abs(charged[0] - charged[1] / 2) <= bound);
    }
    CHECK(charged[0] > 10'000);
    for (request& r : f.requests) static_cast<void>(f.scheduler.cancel(r));
  }
}

TEST_CASE("tenant_deficits: what the cache has is not charged") {
  struct caching : request {
    std::array<std::uint64_t, 4> hashes{11, 12, 13, 14};
    std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
  };
  using scheduler_type = iteration_scheduler<caching, order::fcfs, preempt::swap, admit::always, kv::prefix_cache,
                                             kv::csr_tables, gate::tenant_deficits>;
  const scheduler_limits limits{.blocks = 64, .block_size = 4_tok, .residents = 4};
  auto storage = storage_for<scheduler_type>(limits);
  scheduler_type scheduler{storage, {.gate = {.quantum = 100}}};
  const auto serve = [&](caching& r) {
    REQUIRE(scheduler.submit(r, time_point{}) == status::accepted);
    auto p = scheduler.plan(time_point{}, {});
    REQUIRE(p.size() == 1);
    REQUIRE(scheduler.commit(p, std::array{outcome{.finished = true}}, time_point{}) == status::ok);
  };
  std::array<caching, 2> requests;
  for (caching& r : requests) {
    r.prompt = 18_tok;
    r.max_output = 1_tok;
    r.tenant = 3;
  }
  serve(requests[0]);
  CHECK(scheduler.gate().credit(3) == 100 - 18 - 2);
  serve(requests[1]);
  CHECK(scheduler.gate().credit(3) == 100 - 18 - 2 - 2 - 2);  // four blocks of four were found
}
