// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/placement/hashed.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

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
using placement::bounded_hashing;
using placement::dual_map;
using placement::nowhere;

struct view {
  std::size_t id = 0;
  std::uint64_t prefix_key = 0;
  std::size_t requests = 0;
  tokens new_prefill_tokens{};
  blocks waiting_blocks{};
};

std::vector<view> cluster(std::size_t n, std::uint64_t key) {
  std::vector<view> all(n);
  for (std::size_t i = 0; i != n; ++i) all[i] = {.id = i, .prefix_key = key};
  return all;
}

TEST_CASE("bounded_hashing: a key stays where it was, and each instance has its share of keys", "[placement]") {
  constexpr std::size_t n = 10;
  constexpr std::size_t keys = 20'000;
  std::mt19937_64 random{1};
  std::array<std::size_t, n> share{};
  std::size_t moved = 0;
  for (std::size_t k = 0; k != keys; ++k) {
    const std::uint64_t key = random();
    std::vector<view> all = cluster(n, key);
    const std::size_t to = bounded_hashing{}(all);
    ++share[to];
    REQUIRE(bounded_hashing{}(all) == to);
    // Whatever the order of the views; and without another instance.
    std::shuffle(all.begin(), all.end(), random);
    REQUIRE(all[bounded_hashing{}(all)].id == to);
    const std::size_t gone = random() % n;
    std::erase_if(all, [gone](const view& v) { return v.id == gone; });
    const std::size_t then = all[bounded_hashing{}(all)].id;
    REQUIRE((then == to || to == gone));
    moved += then != to ? 1U : 0U;
  }
  for (const std::size_t s : share) CHECK(std::abs(static_cast<double>(s) - keys / n) < 5 * std::sqrt(keys / n));
  CHECK(std::abs(static_cast<double>(moved) - keys / n) < 5 * std::sqrt(keys / n));
  CHECK(bounded_hashing{}(std::vector<view>{}) == nowhere);
  CHECK(dual_map{}(std::vector<view>{}) == nowhere);
}

TEST_CASE("bounded_hashing: none has more than the bound, and it is the key's own order that is gone down",
          "[placement]") {
  std::mt19937_64 random{2};
  std::size_t refused = 0;
  for (int round = 0; round != 5'000; ++round) {
    const std::uint64_t key = random();
    std::vector<view> all = cluster(1 + random() % 9, key);
    std::size_t sum = 1;
    for (view& v : all) {
      v.requests = random() % 8;
      sum += v.requests;
    }
    const double most = std::ceil(1.25 * static_cast<double>(sum) / static_cast<double>(all.size()));
    // The key's order, from choices among ever fewer idle instances.
    std::vector<view> left = cluster(all.size(), key);
    const tessera_test::no_allocation guard;
    const std::size_t to = bounded_hashing{}(std::span<const view>{all});
    REQUIRE(guard.allocations() == 0);
    while (true) {
      const std::size_t next = bounded_hashing{}(left);
      const std::size_t id = left[next].id;
      if (static_cast<double>(all[id].requests + 1) <= most) {
        REQUIRE(to == id);
        break;
      }
      ++refused;
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(next));
    }
  }
  CHECK(refused > 500);
}

TEST_CASE("dual_map: of its two instances the one that has the prefix, until its queue is too long", "[placement]") {
  std::mt19937_64 random{3};
  std::array<std::size_t, 3> how{};  // affinity, load, alike
  for (int round = 0; round != 20'000; ++round) {
    const std::uint64_t key = random();
    std::vector<view> all = cluster(2 + random() % 7, key);
    // Which two they are, from idle instances that have nothing cached: the second gets what the first is too busy for.
    for (view& v : all) v.new_prefill_tokens = tokens{100};
    const dual_map policy{.prompts = tokens{1000}, .block_size = tokens{16}};
    const std::size_t a = policy(all);
    all[a].waiting_blocks = blocks{1'000'000};
    const std::size_t b = policy(all);
    REQUIRE(a != b);
    for (view& v : all) {
      v.new_prefill_tokens = tokens{static_cast<std::int64_t>(random() % 3) * 50};
      v.waiting_blocks = blocks{static_cast<std::int64_t>(random() % 120)};
    }
    const auto fresh = [&](std::size_t i) { return all[i].new_prefill_tokens.count(); };
    const auto work = [&](std::size_t i) { return fresh(i) + 16 * all[i].waiting_blocks.count(); };
    const std::size_t to = policy(all);
    REQUIRE((to == a || to == b));
    const std::size_t closer = fresh(a) < fresh(b) ? a : b;
    if (fresh(a) != fresh(b) && work(closer) <= 1000) {
      REQUIRE(to == closer);
      ++how[0];
    } else if (work(a) != work(b)) {
      REQUIRE(to == (work(a) < work(b) ? a : b));
      ++how[1];
    } else {
      ++how[2];
    }
  }
  CHECK(how[0] > 1000);
  CHECK(how[1] > 1000);
}

}  // namespace
