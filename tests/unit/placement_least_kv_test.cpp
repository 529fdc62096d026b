// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/placement/least_kv.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <tuple>
#include <vector>

namespace {

using namespace tessera;
using placement::least_kv;
using placement::nowhere;

struct view {
  blocks kv_held{};
  std::size_t requests = 0;
};

/// The textbook: sort by everything that counts.
std::size_t by_sorting(const std::vector<view>& instances) {
  std::vector<std::tuple<std::int64_t, std::size_t, std::size_t>> all;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    all.emplace_back(instances[i].kv_held.count(), instances[i].requests, i);
  }
  std::sort(all.begin(), all.end());
  return all.empty() ? nowhere : std::get<2>(all.front());
}

constexpr std::array<view, 3> three{view{blocks{5}, 1}, view{blocks{3}, 9}, view{blocks{4}, 0}};
static_assert(least_kv{}(three) == 1);
static_assert(noexcept(least_kv{}(three)));

TEST_CASE("least_kv: nowhere among none, the only one among one") {
  CHECK(least_kv{}(std::vector<view>{}) == nowhere);
  CHECK(least_kv{}(std::array<view, 0>{}) == nowhere);
  CHECK(least_kv{}(std::vector<view>{{blocks{1'000'000}, 1000}}) == 0);
}

TEST_CASE("least_kv: least KV, then fewer requests, then the first") {
  CHECK(least_kv{}(std::vector<view>{{blocks{2}, 0}, {blocks{1}, 9}}) == 1);
  CHECK(least_kv{}(std::vector<view>{{blocks{1}, 9}, {blocks{2}, 0}}) == 0);
  CHECK(least_kv{}(std::vector<view>{{blocks{1}, 3}, {blocks{1}, 2}}) == 1);
  CHECK(least_kv{}(std::vector<view>{{blocks{1}, 2}, {blocks{1}, 3}}) == 0);
  CHECK(least_kv{}(std::vector<view>{{blocks{1}, 2}, {blocks{1}, 2}, {blocks{1}, 2}}) == 0);
}

TEST_CASE("least_kv: as by sorting, over any range") {
  std::mt19937 random{5};
  for (int round = 0; round < 2000; ++round) {
    std::vector<view> instances(random() % 9);
    for (view& v : instances) v = {blocks{static_cast<std::int64_t>(random() % 4)}, random() % 4};
    const std::size_t want = by_sorting(instances);
    CHECK(least_kv{}(instances) == want);
    CHECK(least_kv{}(std::span<const view>{instances}) == want);
  }
}

TEST_CASE("least_kv: requests that are placed one after the other spread evenly") {
  std::vector<view> instances(5);
  for (int i = 0; i < 50; ++i) {
    view& v = instances[least_kv{}(instances)];
    v.kv_held += blocks{7};
    ++v.requests;
  }
  for (const view& v : instances) CHECK(v.requests == 10);
}

}  // namespace
