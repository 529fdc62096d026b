// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Accounts of tenants: exact for every weight and for years, forgiving where none waited, and each of one tenant only.

#include <tessera/compose/fcfs.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/gate/tenant_deficits.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/kv/row_tables.hpp>

#include "support/catch.hpp"
#include "support/is_slow.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook {
  std::uint32_t tenant = 0;
  std::vector<std::uint64_t> hashes;
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};

template <class Gate, class Store = kv::block_pool>
using scheduler_of = fcfs<request, Store, kv::row_tables, Gate>;

/// Two tenants on one instance, and what each has generated.
template <class Gate>
struct shop {
  owned_storage<scheduler_limits> storage =
      storage_for<scheduler_of<Gate>>({.requests = 1000, .blocks = 65'536, .residents = 32});
  scheduler_of<Gate> s;
  std::deque<request> requests;
  std::array<std::int64_t, 2> out{};
  std::array<int, 2> waiting{};

  explicit shop(const Gate& gate) : s{storage, {.gate = gate}} {}
  ~shop() {
    for (request& r : requests) s.cancel(r);
  }
  void submit(std::uint32_t tenant, std::int64_t output) {
    request& r = requests.emplace_back();
    r.tenant = tenant;
    r.prompt = 16_tok;
    r.max_output = tokens{output};
    REQUIRE(s.submit(r, time_point{}) == status::accepted);
    ++waiting[tenant];
  }
  void step() {
    const auto p = s.plan(time_point{}, {});
    std::vector<outcome> outcomes(p.size());
    for (std::size_t i = 0; i != p.size(); ++i) {
      const request& r = *p[i].request;
      waiting[r.tenant] -= p[i].origin == entry_origin::started;
      out[r.tenant] += p[i].samples;
      outcomes[i].finished = p[i].samples && r.generated() + 1_tok == r.max_output;
    }
    REQUIRE(s.commit(p, outcomes, time_point{}) == status::ok);
  }
};

/// What the second tenant generates for each token of the first, where both always have requests waiting.
template <class Gate>
double shares(Gate gate, std::int64_t a, std::int64_t b, int steps = tessera_test::is_slow ? 1'500 : 3'000) {
  gate.weights[0] = a;
  gate.weights[1] = b;
  shop<Gate> x{gate};
  std::mt19937_64 random{5};
  for (int i = 0; i != steps; ++i) {
    for (std::uint32_t t = 0; t != 2; ++t) {
      while (x.waiting[t] < 32) x.submit(t, 30 + static_cast<std::int64_t>(random() % 20));
    }
    x.step();
  }
  return static_cast<double>(x.out[1]) / static_cast<double>(x.out[0]);
}

}  // namespace

TEST_CASE("tenants: shares are as the weights, whatever their sizes") {
  const std::int64_t large = std::int64_t{1} << 61;
  const std::array<std::array<std::int64_t, 2>, 9> weights{{{1, 2},
                                                            {10, 15},
                                                            {700, 1000},
                                                            {1000, 1500},
                                                            {2000, 3000},
                                                            {3000, 9000},
                                                            {100'000, 200'000},
                                                            {1'000'000'007, 3'000'000'021},
                                                            {large, 2 * (large - 1)}}};
  for (const auto& [a, b] : weights) {
    CAPTURE(a, b);
    const double wanted = static_cast<double>(b) / static_cast<double>(a);
    CHECK(shares(gate::fair_tenants{}, a, b) == tessera_test::approx(wanted).epsilon(0.03));
    // Within a quantum, which grows with the weight: the largest takes more steps to disappear in the sum.
    if (b > 10'000) continue;
    const int steps = tessera_test::is_slow && b <= 3'000 ? 1'500 : 3'000;
    CHECK(shares(gate::tenant_deficits{.quantum = 1}, a, b, steps) == tessera_test::approx(wanted).epsilon(0.05));
  }
}

TEST_CASE("fair_tenants: an account is the exact fraction, whatever is charged") {
  std::mt19937_64 random{3};
  for (int round = 0; round != 200; ++round) {
    gate::basic_fair_tenants<2> gate{.prompt_cost = 0, .output_cost = static_cast<std::int64_t>(1 + random() % 1000)};
    for (std::int64_t& w : gate.weights) w = static_cast<std::int64_t>(1 + random() % (std::uint64_t{1} << 30U));
    gate.set_up(16_tok);
    std::array<request, 2> r;
    r[1].tenant = 1;
    std::array<std::int64_t, 2> cost{};
    for (int i = 0; i != 200; ++i) {
      const std::size_t t = random() % 2;
      const auto n = static_cast<std::int64_t>(random() % 1000);
      gate.charge(r[t], tokens{n});
      cost[t] += n * gate.output_cost;
      for (std::size_t u = 0; u != 2; ++u) {
        const auto& had = gate.accounts[u].had;
        REQUIRE(had.whole * gate.weights[u] + had.part == cost[u]);
        REQUIRE(had.part < gate.weights[u]);
      }
    }
  }
}

TEST_CASE("fair_tenants: accounts that come near the end of their numbers are counted from the least") {
  gate::basic_fair_tenants<3> gate{};
  std::array<request, 3> r;
  for (std::uint32_t t = 0; t != 3; ++t) r[t].tenant = t;
  gate.set_up(16_tok);
  const std::int64_t late = std::numeric_limits<std::int64_t>::max() - 1000;
  gate.joins(r[0]);
  gate.joins(r[1]);
  gate.accounts[0].had = {late, 0};
  gate.accounts[1].had = {late - 70, 0};
  gate.accounts[2].had = {late - 500, 0};  // it does not wait: it saves nothing up
  gate.begin();
  CHECK(gate.had(0) == 70);
  CHECK(gate.had(1) == 0);
  CHECK(gate.had(2) == 0);
  CHECK(gate.ask(r[1], gate_view<request>{}) == passage::start);
  CHECK(gate.ask(r[0], gate_view<request>{}) == passage::defer);
}

TEST_CASE("use of an idle machine is not held against a tenant") {
  const auto rest = [](auto gate) {
    shop<decltype(gate)> x{gate};
    for (int i = 0; i != 32; ++i) x.submit(0, 4000);
    while (!x.s.idle()) x.step();
    x.out = {};
    while (x.out[0] + x.out[1] < 100'000) {
      for (std::uint32_t t = 0; t != 2; ++t) {
        while (x.waiting[t] < 8) x.submit(t, 200);
      }
      x.step();
    }
    return x.out[0];
  };
  // Half of 100,000 tokens, after 128,000 alone.
  CHECK(std::abs(rest(gate::fair_tenants{}) - 50'000) < 2'000);
  CHECK(std::abs(rest(gate::tenant_deficits{}) - 50'000) < 2'000);
}

TEST_CASE("tenant_deficits: what is used while another waits is debt") {
  shop<gate::tenant_deficits> x{{.quantum = 100}};
  for (int i = 0; i != 32; ++i) x.submit(0, 400);
  x.step();
  x.submit(1, 10);
  for (int i = 0; i != 100; ++i) x.step();
  CHECK(x.s.gate().credit(0) < -100 * 32);
}

TEST_CASE("tenant_deficits: a cached prompt is charged for what is computed, by the scheduler's blocks") {
  auto storage = storage_for<scheduler_of<gate::tenant_deficits, kv::prefix_cache>>(
      {.blocks = 256, .block_size = 64_tok, .residents = 4});
  scheduler_of<gate::tenant_deficits, kv::prefix_cache> s{storage};
  std::array<request, 3> r;
  const auto serve = [&](request& one, std::int64_t prompt) {
    one.prompt = tokens{prompt};
    one.max_output = 2_tok;
    for (std::uint64_t i = 0; i != 64; ++i) one.hashes.push_back(i + 1);
    REQUIRE(s.submit(one, time_point{}) == status::accepted);
    const std::int64_t before = s.gate().credit(one.tenant);
    const auto p = s.plan(time_point{}, {.token_budget = 8192_tok});
    const std::int64_t computed = p.computed.count();
    REQUIRE(s.commit(p, std::array{outcome{.finished = true}}, time_point{}) == status::ok);
    return std::array{computed, before - s.gate().credit(one.tenant)};
  };
  serve(r[0], 4096);
  r[1].tenant = 1;
  const auto [computed, charged] = serve(r[1], 4096);
  CHECK(computed == 64);
  CHECK(charged == 64 + 2);
}

namespace {

template <class Gate>
void refuses_strangers() {
  auto storage = storage_for<scheduler_of<Gate>>({.blocks = 100, .residents = 4});
  scheduler_of<Gate> s{storage};
  std::array<request, 4> r;
  for (request& one : r) one.prompt = 16_tok, one.max_output = 4_tok;
  r[0].tenant = 64;
  r[1].tenant = 4711;
  r[2].tenant = 63;
  CHECK(s.submit(r[0], time_point{}) == status::invalid);
  CHECK(s.submit(r[1], time_point{}) == status::invalid);
  CHECK(s.adopt(r[1]) == status::invalid);
  CHECK(s.adopt(r[1], {.length = 16_tok}) == status::invalid);
  REQUIRE(s.submit(r[2], time_point{}) == status::accepted);
  const auto p = s.plan(time_point{}, {});
  REQUIRE(s.commit(p, std::array{outcome{}}, time_point{}) == status::ok);
  r[3] = r[2];
  r[3].tenant = 64;
  CHECK(s.fork(r[2], r[3]) == status::invalid);
  r[3].tenant = 63;
  CHECK(s.fork(r[2], r[3]) == status::ok);
  for (request& one : r) s.cancel(one);
}

}  // namespace

TEST_CASE("a tenant out of range is refused, and charged to none") {
  refuses_strangers<gate::fair_tenants>();
  refuses_strangers<gate::tenant_deficits>();
  refuses_strangers<gate::all<gate::in_line, gate::fair_tenants>>();
}
