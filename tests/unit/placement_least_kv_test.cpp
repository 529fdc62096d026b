// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/least_load.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/round_robin.hpp"

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
using placement::least_load;
using placement::nowhere;

struct view {
  blocks kv_held{};
  std::size_t requests = 0;
  blocks waiting_blocks{};
};

/// The textbook: sort by everything that counts; those that are no worse than the first have their turn.
std::size_t by_sorting(const std::vector<view>& instances, bool waiting, std::size_t& turn) {
  std::vector<std::tuple<std::int64_t, std::size_t, std::size_t>> all;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    const view& v = instances[i];
    all.emplace_back(v.kv_held.count() + (waiting ? v.waiting_blocks.count() : 0), v.requests, i);
  }
  std::sort(all.begin(), all.end());
  std::vector<std::size_t> equals;
  for (const auto& [load, requests, i] : all) {
    if (load == std::get<0>(all.front()) && requests == std::get<1>(all.front())) equals.push_back(i);
  }
  return tessera_test::round_robin(equals, turn);
}

constexpr std::array<view, 3> three{view{blocks{5}, 1, blocks{0}}, view{blocks{3}, 9, blocks{9}},
                                    view{blocks{4}, 0, blocks{2}}};
static_assert(least_kv{}(three) == 1);
static_assert(least_load{}(three) == 0);
static_assert(noexcept(least_kv{}(three)) && noexcept(least_load{}(three)));

TEST_CASE("least_kv: nowhere among none, the only one among one") {
  CHECK(least_kv{}(std::vector<view>{}) == nowhere);
  CHECK(least_kv{}(std::array<view, 0>{}) == nowhere);
  CHECK(least_kv{}(std::vector<view>{{blocks{1'000'000}, 1000}}) == 0);
}

TEST_CASE("least_kv: least KV, then fewer requests, then in turn") {
  CHECK(least_kv{}(std::vector<view>{{blocks{2}, 0}, {blocks{1}, 9}}) == 1);
  CHECK(least_kv{}(std::vector<view>{{blocks{1}, 9}, {blocks{2}, 0}}) == 0);
  CHECK(least_kv{}(std::vector<view>{{blocks{1}, 3}, {blocks{1}, 2}}) == 1);
  CHECK(least_kv{}(std::vector<view>{{blocks{1}, 2}, {blocks{1}, 3}}) == 0);
  const std::vector<view> alike{{blocks{1}, 2}, {blocks{1}, 3}, {blocks{1}, 2}, {blocks{2}, 0}, {blocks{1}, 2}};
  CHECK(least_kv{}(alike) == 0);
  least_kv policy;
  tessera_test::check_round_robin({0, 2, 4}, alike.size(), [&] { return policy(alike); });
  least_load other;
  tessera_test::check_round_robin({0, 2, 4}, alike.size(), [&] { return other(alike); });
}

TEST_CASE("least_kv and least_load: as by sorting, over any range, without allocation") {
  std::mt19937 random{5};
  least_kv kv;
  least_load load;
  std::size_t kv_turn = 0;
  std::size_t load_turn = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<view> instances(random() % 9);
    for (view& v : instances) {
      v.kv_held = blocks{static_cast<std::int64_t>(random() % 4)};
      v.requests = random() % 4;
      v.waiting_blocks = blocks{static_cast<std::int64_t>(random() % 3)};
    }
    std::size_t first = 0;
    CHECK(least_kv{}(instances) == by_sorting(instances, false, first));
    const tessera_test::no_allocation guard;
    const std::size_t held = kv(std::span<const view>{instances});
    const std::size_t all = load(std::span<const view>{instances});
    const std::size_t allocations = guard.allocations();
    CHECK(allocations == 0);
    CHECK(held == by_sorting(instances, false, kv_turn));
    CHECK(all == by_sorting(instances, true, load_turn));
  }
}

TEST_CASE("least_load: sees waiting requests, where least_kv herds") {
  // Both are full. One has a queue; the other's has just freed a block less.
  std::vector<view> full{{.kv_held = blocks{100}, .requests = 90, .waiting_blocks = blocks{400}},
                         {.kv_held = blocks{101}, .requests = 10}};
  CHECK(least_kv{}(full) == 0);
  CHECK(least_load{}(full) == 1);
}

TEST_CASE("least_kv: requests that are placed one after the other spread evenly") {
  std::vector<view> instances(5);
  least_kv policy;
  for (int i = 0; i < 50; ++i) {
    view& v = instances[policy(instances)];
    v.kv_held += blocks{7};
    ++v.requests;
  }
  for (const view& v : instances) CHECK(v.requests == 10);
}

}  // namespace
