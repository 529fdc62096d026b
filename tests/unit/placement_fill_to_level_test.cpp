// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/placement/fill_to_level.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::placement;

struct view {
  std::size_t requests = 0;
  blocks kv_held{};
  blocks waiting_blocks{};
  double phi = 1;
};

std::vector<view> of(const std::vector<std::size_t>& requests) {
  std::vector<view> all;
  for (const std::size_t n : requests) all.push_back({.requests = n});
  return all;
}

/// The level by pouring: the lowest are filled up to the next lowest, and so on.
double poured(std::vector<double> loads, double amount) {
  std::sort(loads.begin(), loads.end());
  for (std::size_t k = 1; k != loads.size(); ++k) {
    const double step = (loads[k] - loads[k - 1]) * static_cast<double>(k);
    if (step >= amount) return loads[k - 1] + amount / static_cast<double>(k);
    amount -= step;
  }
  return loads.back() + amount / static_cast<double>(loads.size());
}

TEST_CASE("fill_to_level: nothing expected is the least loaded, or one of those that are") {
  fill_to_level<> policy;
  CHECK(policy(std::vector<view>{}) == nowhere);
  CHECK(policy(of({5})) == 0);
  for (int k = 0; k != 50; ++k) CHECK(policy(of({5, 3, 4, 9})) == 1);
  std::vector<int> chosen(4);
  for (int k = 0; k != 4000; ++k) ++chosen.at(policy(of({5, 3, 3, 9})));
  CHECK((chosen[0] == 0 && chosen[3] == 0));
  CHECK(std::abs(chosen[1] - 2000) < 200);
}

TEST_CASE("fill_to_level: each as likely as what it has below the level, whatever the last level was") {
  std::mt19937_64 random{4};
  for (int trial = 0; trial != 300; ++trial) {
    const std::size_t n = 1 + random() % 20;
    std::vector<view> all;
    std::vector<double> loads;
    for (std::size_t i = 0; i != n; ++i) {
      const std::size_t requests = random() % 30;
      all.push_back({.requests = requests});
      loads.push_back(static_cast<double>(requests));
    }
    fill_to_level<> policy;
    policy.expected = static_cast<double>(random() % 50);
    policy.level = static_cast<double>(random() % 60) - 10;
    const std::size_t first = policy(all);
    const double level = poured(loads, policy.expected + 1);
    REQUIRE(policy.level == tessera_test::approx(level));
    REQUIRE(loads.at(first) < level);
    std::vector<int> chosen(n);
    constexpr int draws = 3000;
    for (int k = 0; k != draws; ++k) ++chosen.at(policy(all));
    for (std::size_t i = 0; i != n; ++i) {
      const double share = std::max(level - loads[i], 0.0) / (policy.expected + 1);
      // Five standard deviations.
      REQUIRE(std::abs(chosen[i] - draws * share) <= 5 * std::sqrt(draws * share * (1 - share)) + 1e-6 * draws);
    }
  }
}

TEST_CASE("fill_to_level: blocks and budgets are filled as requests are") {
  const std::vector<view> blocks_held{{.kv_held = 30_blk, .waiting_blocks = 10_blk}, {.kv_held = 39_blk}};
  fill_to_level<by_blocks> by_kv;
  CHECK(by_kv(blocks_held) == 1);
  const std::vector<view> budgets{{.phi = 0.5}, {.phi = -0.5}, {.phi = 0.6}};
  fill_to_level<by_phi> by_time{.one = 0.05};
  for (int k = 0; k != 20; ++k) CHECK(by_time(budgets) == 2);
  by_time.expected = 100;
  std::vector<int> chosen(3);
  for (int k = 0; k != 3000; ++k) ++chosen.at(by_time(budgets));
  CHECK(*std::min_element(chosen.begin(), chosen.end()) > 800);
  // So large that a request does not show.
  const std::vector<view> huge{{.phi = -1e300}, {.phi = -1e300}};
  CHECK(by_time(huge) < 2);
}

TEST_CASE("fill_to_level: a load that is no number is chosen only where none is one") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  fill_to_level<by_phi> policy{.expected = 0.1, .one = 0.1};
  for (int k = 0; k != 20; ++k) {
    CHECK(policy(std::vector<view>{{.phi = nan}, {.phi = 0.5}}) == 1);
    CHECK(policy(std::vector<view>{{.phi = 0.5}, {.phi = nan}}) == 0);
    CHECK(policy(std::vector<view>{{.phi = nan}, {.phi = nan}}) < 2);
  }
}

}  // namespace
