// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/placement/migrate_to_headroom.hpp>
#include <tessera/placement/power_of_two.hpp>
#include <tessera/placement/stay_in_range.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <set>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::placement;

struct view {
  std::size_t requests = 0;
  blocks kv_held{};
  blocks waiting_blocks{};
  blocks capacity{};
  blocks from{};
  blocks to{};
};

TEST_CASE("power_of_two: two different instances, the one with fewer requests, all pairs alike") {
  power_of_two policy;
  CHECK(policy(std::vector<view>{}) == nowhere);
  CHECK(policy(std::vector<view>(1)) == 0);
  std::vector<view> five;
  for (std::size_t i = 0; i != 5; ++i) five.push_back({.requests = i});
  std::vector<int> chosen(5);
  for (int k = 0; k != 20'000; ++k) ++chosen.at(policy(five));
  CHECK(chosen[4] == 0);  // the fullest is never the emptier of two
  // 4 of the 10 pairs have instance 0, 3 more instance 1, and so on.
  for (std::size_t i = 0; i != 4; ++i) {
    CHECK(std::abs(chosen[i] - 2000 * (4 - static_cast<int>(i))) < 300);
  }
  power_of_two again;
  power_of_two other{{.state = 2}};
  std::set<bool> differ;
  for (int k = 0; k != 50; ++k) differ.insert(again(five) == other(five));
  CHECK(differ.size() == 2);
}

TEST_CASE("migrate_to_headroom: only from one that is short, only for a gain, to the freest with it") {
  const migrate_to_headroom policy{.below = 0.2, .gain = 0.1};
  const auto goes = [&](const std::vector<view>& v, blocks size) {
    return migrate_to_headroom{policy}(v, 0, 1_blk, size);
  };
  CHECK(goes({{.kv_held = 79_blk, .capacity = 100_blk}, {.capacity = 100_blk}}, 10_blk) == 0);
  CHECK(goes({{.kv_held = 90_blk, .capacity = 100_blk}, {.capacity = 100_blk}}, 10_blk) == 1);
  CHECK(goes({{.kv_held = 40_blk, .waiting_blocks = 50_blk, .capacity = 100_blk}, {.capacity = 100_blk}}, 10_blk) == 1);
  CHECK(goes({{.kv_held = 90_blk, .capacity = 100_blk}, {.kv_held = 75_blk, .capacity = 100_blk}}, 10_blk) == 0);
  // The same blocks are a smaller share of a larger one.
  CHECK(goes({{.kv_held = 90_blk, .capacity = 100_blk},
              {.kv_held = 5_blk, .capacity = 50_blk},
              {.kv_held = 80_blk, .capacity = 400_blk}},
             20_blk) == 2);
  CHECK(goes({{.kv_held = 90_blk, .capacity = 100_blk}, {.capacity = 0_blk}}, 20_blk) == 0);
  CHECK(goes({{.kv_held = 90_blk, .capacity = 100_blk}}, 20_blk) == 0);
  migrate_to_headroom turns = policy;
  const std::vector<view> alike{{.kv_held = 9_blk, .capacity = 9_blk}, {.capacity = 9_blk}, {.capacity = 9_blk}};
  CHECK(turns(alike, 0, 1_blk, 1_blk) == 1);
  CHECK(turns(alike, 0, 1_blk, 1_blk) == 2);
}

TEST_CASE("migrate_to_headroom: while loads stand still no sequence of moves goes on for ever") {
  std::mt19937_64 random{3};
  for (int trial = 0; trial != 500; ++trial) {
    struct item {
      std::size_t where;
      std::int64_t size;
    };
    std::vector<item> items;
    std::vector<view> views(4);
    for (view& v : views) v.capacity = blocks{static_cast<std::int64_t>(50 + random() % 200)};
    for (int i = 0; i != 20; ++i) {
      const std::size_t where = random() % 4;
      items.push_back({where, static_cast<std::int64_t>(1 + random() % 20)});
    }
    migrate_to_headroom policy{.below = 0.9, .gain = 0.02};
    int moves = 0;
    for (bool went_on = true; went_on;) {
      went_on = false;
      for (item& x : items) {
        for (std::size_t i = 0; i != 4; ++i) {
          std::int64_t used = 0;
          for (const item& y : items) used += y.where == i ? y.size : 0;
          views[i].kv_held = blocks{used};
        }
        const std::size_t to = policy(views, x.where, 1_blk, blocks{x.size});
        if (to == x.where) continue;
        x.where = to;
        went_on = true;
        REQUIRE(++moves < 1000);
      }
    }
  }
}

TEST_CASE("stay_in_range: to the next stage when it has outgrown its own, to the least loaded there, never back") {
  const std::vector<view> stages{{.kv_held = 9_blk, .from = 0_blk, .to = 4_blk},
                                 {.kv_held = 8_blk, .from = 4_blk, .to = 8_blk},
                                 {.kv_held = 7_blk, .from = 4_blk, .to = 8_blk},
                                 {.kv_held = 1_blk, .from = 8_blk, .to = 16_blk}};
  const auto goes = [&](std::size_t current, blocks length) { return stay_in_range{}(stages, current, 0_blk, length); };
  CHECK(goes(0, 3_blk) == 0);
  CHECK(goes(0, 4_blk) == 2);
  CHECK(goes(0, 9_blk) == 3);
  CHECK(goes(3, 1_blk) == 3);
  CHECK(goes(3, 16_blk) == 3);
}

}  // namespace
