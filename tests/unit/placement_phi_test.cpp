// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/placement/phasor_router.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/round_robin.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <tuple>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::placement;
using tessera_test::approx;

struct view {
  double phi = 0;
  std::size_t requests = 0;
  bool present = true;
};

/// The textbook: sort by everything that counts; those that are no worse than the first have their turn.
std::size_t by_sorting(const std::vector<view>& workers, std::size_t& turn) {
  std::vector<std::tuple<double, std::size_t, std::size_t>> all;
  for (std::size_t i = 0; i != workers.size(); ++i) {
    const double phi = std::isnan(workers[i].phi) ? -std::numeric_limits<double>::infinity() : workers[i].phi;
    if (workers[i].present) all.emplace_back(-phi, workers[i].requests, i);
  }
  std::sort(all.begin(), all.end());
  std::vector<std::size_t> equals;
  for (const auto& [phi, requests, i] : all) {
    if (phi == std::get<0>(all.front()) && requests == std::get<1>(all.front())) equals.push_back(i);
  }
  return tessera_test::round_robin(equals, turn);
}

constexpr std::array<view, 3> three{view{0.5, 0}, view{0.75, 9}, view{-3, 0}};
static_assert(highest_phi{}(three) == 1);
static_assert(noexcept(highest_phi{}(three)));

TEST_CASE("highest_phi: the most freeness, then fewer requests, then in turn; negative is no special case") {
  CHECK(highest_phi{}(std::vector<view>{}) == nowhere);
  CHECK(highest_phi{}(std::vector<view>{{-1e9, 5}}) == 0);
  CHECK(highest_phi{}(std::vector<view>{{-2, 0}, {-1, 9}}) == 1);
  CHECK(highest_phi{}(std::vector<view>{{0.5, 3}, {0.5, 2}}) == 1);
  CHECK(highest_phi{}(std::vector<view>{{0.5, 2}, {0.5, 2}}) == 0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(highest_phi{}(std::vector<view>{{nan, 0}, {-7, 9}}) == 1);
  CHECK(highest_phi{}(std::vector<view>{{-7, 9}, {nan, 0}}) == 0);
  const std::vector<view> alike{{0.5, 2}, {nan, 0}, {0.5, 2}, {0.5, 3}, {0.25, 0}, {0.5, 2}};
  highest_phi policy;
  tessera_test::check_round_robin({0, 2, 5}, alike.size(), [&] { return policy(alike); });
  const std::vector<view> unknown{{nan, 1}, {nan, 1}, {nan, 2}};
  tessera_test::check_round_robin({0, 1}, 3, [&] { return policy(unknown); });
}

TEST_CASE("highest_phi and phi_index: as by sorting, at every step") {
  std::mt19937_64 random{1};
  for (const std::size_t n : {1U, 2U, 3U, 5U, 8U, 9U, 33U, 100U}) {
    auto storage = storage_for<phi_index>({.workers = n});
    arena memory{storage.memory()};
    phi_index index{memory, storage.limits()};
    CHECK(index.best() == nowhere);
    CHECK(index.choose() == nowhere);
    std::vector<view> workers(n);
    highest_phi policy;
    std::size_t turn = 0;
    std::size_t policy_turn = 0;
    for (view& v : workers) v.present = false;
    for (int step = 0; step != 1500; ++step) {
      const std::size_t i = random() % n;
      const tessera_test::no_allocation guard;
      if (random() % 4 == 0) {
        workers[i].present = false;
        index.remove(i);
      } else {
        // Few values, so that there are ties.
        workers[i] = {static_cast<double>(random() % 7) / 2 - 2, random() % 3, true};
        index.set(i, workers[i].phi, workers[i].requests);
        REQUIRE(index.phi(i) == workers[i].phi);
      }
      const std::size_t best = index.best();
      REQUIRE(index.best() == best);  // to ask takes no turn
      const std::size_t turn_before = turn;
      const bool chosen = random() % 3 != 0;
      if (chosen) REQUIRE(index.choose() == best);
      REQUIRE(guard.allocations() == 0);
      REQUIRE(best == by_sorting(workers, turn));
      if (!chosen) turn = turn_before;
      REQUIRE(index.contains(i) == workers[i].present);
      const auto present = [](const view& v) { return v.present; };
      REQUIRE(index.size() == static_cast<std::size_t>(std::count_if(workers.begin(), workers.end(), present)));
      std::vector<view> all = workers;
      for (view& v : all) v.present = true;
      REQUIRE(policy(std::span<const view>{all}) == by_sorting(all, policy_turn));
    }
  }
}

constexpr prefill_worker v100{.cost = {.alpha = 200'704, .beta = 15.2e9},
                              .budget = {.peak_flops = 100e12, .ttft = 0.4_s}};
constexpr prefill_worker h100{.cost = {.alpha = 200'704, .beta = 15.2e9},
                              .budget = {.peak_flops = 600e12, .ttft = 0.4_s}};

TEST_CASE("phasor router: algorithm 1, lines 2 to 5, against a recomputation of every Phi") {
  constexpr std::size_t n = 13;
  auto storage = storage_for<phasor_router>({.workers = n});
  arena memory{storage.memory()};
  phasor_router router{memory, storage.limits()};
  CHECK(router.route(tokens{5}) == nowhere);

  struct queued {
    tokens prompt;
    tokens computed;
  };
  std::array<std::vector<queued>, n> queues;
  std::array<bool, n> open{};
  const auto kind = [](std::size_t i) { return i % 3 == 0 ? h100 : v100; };
  const auto phi = [&](std::size_t i) {
    headroom::prefill_load load;
    for (const queued& q : queues[i]) load.join(q.prompt, q.computed);
    return headroom::time_freeness(load, kind(i).cost, kind(i).budget);
  };
  std::mt19937_64 random{2};
  std::size_t turn = 0;
  const auto some = [&](std::int64_t most) {
    return tokens{static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1))};
  };
  for (int step = 0; step != 6000; ++step) {
    const std::size_t i = random() % n;
    switch (random() % 8) {
      case 0:
        router.open(i, kind(i));
        open[i] = true;
        break;
      case 1:
        if (random() % 4 == 0) {
          router.close(i);
          open[i] = false;
        }
        break;
      case 2:
      case 3:
        if (!queues[i].empty()) {
          const std::size_t k = random() % queues[i].size();
          router.leave(i, queues[i][k].prompt, queues[i][k].computed);
          queues[i].erase(queues[i].begin() + static_cast<std::ptrdiff_t>(k));
        }
        break;
      case 4:
        if (!queues[i].empty()) {
          queued& q = queues[i][random() % queues[i].size()];
          const tokens to = some(q.prompt.count());
          router.advance(i, q.computed, to);
          q.computed = to;
        }
        break;
      default: {
        std::vector<view> views(n);
        for (std::size_t w = 0; w != n; ++w) views[w] = {open[w] ? phi(w) : 0, queues[w].size(), open[w]};
        const tokens prompt = some(4000);
        const std::size_t want = by_sorting(views, turn);
        REQUIRE(router.best() == want);
        REQUIRE(router.route(prompt) == want);
        if (want != nowhere) queues[want].push_back({prompt, {}});
      }
    }
    REQUIRE(router.requests(i) == queues[i].size());
    REQUIRE(router.is_open(i) == open[i]);
    if (open[i]) REQUIRE(router.phi(i) == phi(i));
  }
  CHECK(router.open_workers() == static_cast<std::size_t>(std::count(open.begin(), open.end(), true)));
}

TEST_CASE("phasor router: equal requests spread evenly, and by speed where workers differ") {
  auto storage = storage_for<phasor_router>({.workers = 4});
  arena memory{storage.memory()};
  phasor_router router{memory, storage.limits()};
  for (std::size_t w = 0; w != 4; ++w) router.open(w, w == 0 ? h100 : v100);
  for (int i = 0; i != 900; ++i) CHECK(router.route(tokens{1000}) != nowhere);
  // Six times the speed; all are far beyond their budgets.
  CHECK(router.requests(0) == approx(600).margin(1));
  for (std::size_t w = 1; w != 4; ++w) {
    CHECK(router.requests(w) == approx(100).margin(1));
    CHECK(router.phi(w) < 0);
  }
}

TEST_CASE("phasor router: workers that are idle again and again get requests in turn") {
  auto storage = storage_for<phasor_router>({.workers = 5});
  arena memory{storage.memory()};
  phasor_router router{memory, storage.limits()};
  for (const std::size_t w : {0U, 1U, 3U, 4U}) router.open(w, v100);
  router.join(3, tokens{100});
  tessera_test::check_round_robin({0, 1, 4}, 5, [&] {
    const std::size_t w = router.route(tokens{50});
    router.leave(w, tokens{50});
    return w;
  });
}

TEST_CASE("phasor router: long prompts weigh by their cost, not by their number") {
  auto storage = storage_for<phasor_router>({.workers = 2});
  arena memory{storage.memory()};
  phasor_router router{memory, storage.limits()};
  router.open(0, v100);
  router.open(1, v100);
  CHECK(router.route(tokens{100'000}) == 0);
  for (int i = 0; i != 150; ++i) CHECK(router.route(tokens{1000}) == 1);
  CHECK(router.requests(0) == 1);
}

}  // namespace
