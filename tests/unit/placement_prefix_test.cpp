// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/placement/lmetric.hpp>
#include <tessera/placement/prefix_affinity.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/round_robin.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <tuple>
#include <vector>

namespace {

using namespace tessera;
using placement::lmetric;
using placement::nowhere;
using placement::prefix_affinity;

struct view {
  std::size_t requests = 0;
  tokens cached_tokens{};
  tokens new_prefill_tokens{};
};

/// Views of a prompt of 100 tokens.
view has(std::size_t requests, std::int64_t cached) { return {requests, tokens{cached}, tokens{100 - cached}}; }

/// The instances with the least key, then in turn.
template <class Key>
std::size_t by_sorting(const std::vector<view>& all, Key key, std::size_t& turn) {
  std::vector<std::size_t> equals;
  for (std::size_t i = 0; i != all.size(); ++i) {
    if (!equals.empty() && key(all[i]) < key(all[equals.front()])) equals.clear();
    if (equals.empty() || key(all[i]) == key(all[equals.front()])) equals.push_back(i);
  }
  return tessera_test::round_robin(equals, turn);
}

constexpr std::array<view, 2> two{view{3, tokens{0}, tokens{10}}, view{5, tokens{6}, tokens{4}}};
static_assert(lmetric{}(two) == 1);
static_assert(prefix_affinity{.bound = 2}(two) == 1);
static_assert(prefix_affinity{.bound = 1}(two) == 0);
static_assert(noexcept(lmetric{}(two)) && noexcept(prefix_affinity{}(two)));

TEST_CASE("lmetric: new tokens times batch size, then fewer tokens, then fewer requests, then in turn") {
  CHECK(lmetric{}(std::vector<view>{}) == nowhere);
  CHECK(lmetric{}(std::vector<view>{has(9, 0)}) == 0);
  CHECK(lmetric{}(std::vector<view>{has(2, 0), has(3, 50)}) == 1);  // 200, 150
  CHECK(lmetric{}(std::vector<view>{has(2, 0), has(5, 50)}) == 0);  // 200, 250
  CHECK(lmetric{}(std::vector<view>{has(0, 0), has(1, 99)}) == 0);  // an idle one is best,
  CHECK(lmetric{}(std::vector<view>{has(0, 0), has(0, 16)}) == 1);  // of several that which has more
  CHECK(lmetric{}(std::vector<view>{has(2, 0), has(4, 50)}) == 1);  // 200 each: fewer tokens
  CHECK(lmetric{}(std::vector<view>{has(2, 100), has(1, 100)}) == 1);
  const std::vector<view> alike{has(1, 0), has(2, 50), has(4, 75), has(2, 50), has(9, 0), has(4, 75)};
  lmetric policy;
  tessera_test::check_round_robin({2, 5}, alike.size(), [&] { return policy(alike); });
}

TEST_CASE("prefix_affinity: most of the prefix within the bound, else the fewest requests") {
  CHECK(prefix_affinity{}(std::vector<view>{}) == nowhere);
  CHECK(prefix_affinity{}(std::vector<view>{has(9, 0)}) == 0);
  CHECK(prefix_affinity{}(std::vector<view>{has(1, 0), has(0, 0)}) == 1);    // none has any
  CHECK(prefix_affinity{}(std::vector<view>{has(0, 16), has(0, 32)}) == 1);  // one on an idle cluster is never too many
  // With the request 8 on 2 instances, 1.25 times the mean is 5.
  CHECK(prefix_affinity{}(std::vector<view>{has(3, 0), has(4, 32)}) == 1);
  CHECK(prefix_affinity{}(std::vector<view>{has(2, 0), has(5, 32)}) == 0);
  CHECK(prefix_affinity{.bound = 2}(std::vector<view>{has(2, 0), has(5, 32)}) == 1);
  CHECK(prefix_affinity{}(std::vector<view>{has(2, 32), has(1, 32), has(0, 16)}) ==
        1);  // among equals, the one with less to do
  // The busy one is not a candidate then, though others have some of it, too: the least load it is.
  CHECK(prefix_affinity{.bound = 1}(std::vector<view>{has(9, 64), has(3, 32), has(1, 0)}) == 2);
  const std::vector<view> alike{has(1, 32), has(1, 0), has(1, 32), has(1, 32)};
  prefix_affinity policy;
  tessera_test::check_round_robin({0, 2, 3}, alike.size(), [&] { return policy(alike); });
  const std::vector<view> none{has(1, 0), has(2, 0), has(1, 0)};
  tessera_test::check_round_robin({0, 2}, none.size(), [&] { return policy(none); });
}

TEST_CASE("lmetric and prefix_affinity: as the rules word for word, over any range, without allocation") {
  std::mt19937 random{17};
  lmetric product;
  std::array<prefix_affinity, 3> bounded{prefix_affinity{.bound = 1}, prefix_affinity{}, prefix_affinity{.bound = 3}};
  std::size_t product_turn = 0;
  std::array<std::size_t, 3> turns{};
  std::size_t within = 0;
  std::size_t beyond = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<view> all(1 + random() % 8);
    for (view& v : all) {
      const std::size_t requests = random() % 6;
      const auto cached = static_cast<std::int64_t>(random() % 4);
      v = has(requests, random() % 2 == 0 ? 0 : 32 * cached);
    }
    const auto score = [](const view& v) {
      return std::tuple{v.new_prefill_tokens.count() * static_cast<std::int64_t>(v.requests),
                        v.new_prefill_tokens.count(), v.requests};
    };
    const std::size_t expected = by_sorting(all, score, product_turn);
    const tessera_test::no_allocation guard;
    const std::size_t chosen = product(std::span<const view>{all});
    static_cast<void>(prefix_affinity{}(std::span<const view>{all}));
    const std::size_t allocations = guard.allocations();
    CHECK(allocations == 0);
    CHECK(chosen == expected);

    double sum = 0;
    std::int64_t most = 0;
    for (const view& v : all) {
      sum += static_cast<double>(v.requests);
      most = std::max(most, v.cached_tokens.count());
    }
    for (std::size_t k = 0; k != bounded.size(); ++k) {
      const double limit = std::ceil(bounded[k].bound * (sum + 1) / static_cast<double>(all.size()));
      std::size_t turn = turns[k];
      const std::size_t warm = by_sorting(
          all,
          [](const view& v) {
            return std::pair{-v.cached_tokens.count(), v.requests};
          },
          turn);
      const bool fits = most > 0 && static_cast<double>(all[warm].requests + 1) <= limit;
      (fits ? within : beyond) += 1;
      if (fits) {
        turns[k] = turn;
        CHECK(bounded[k](all) == warm);
      } else {
        CHECK(bounded[k](all) == by_sorting(
                                     all, [](const view& v) { return v.requests; }, turns[k]));
      }
    }
  }
  CHECK(within > 1000);
  CHECK(beyond > 1000);
}

}  // namespace
