// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/pascal.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/round_robin.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <span>
#include <tuple>
#include <vector>

namespace {

using namespace tessera;
using placement::nowhere;

struct view {
  blocks kv_held{};
  blocks free_blocks{};
  std::size_t requests = 0;
  bool slo_met = true;
  std::size_t reasoning = 0;
  std::size_t fresh_answers = 0;
};

// The paper's algorithms word for word, with sets and copies as the pseudocode has them.

/// argmin over E; ties as documented: fewer requests, then in turn.
template <class Key>
std::size_t argmin(const std::vector<view>& all, const std::set<std::size_t>& E, Key key, std::size_t& turn) {
  std::vector<std::size_t> selected;
  for (const std::size_t i : E) {
    const auto than = [&](std::size_t k) { return std::tuple{key(k), all[k].requests}; };
    if (!selected.empty() && than(i) < than(selected.front())) selected.clear();
    if (selected.empty() || than(i) == than(selected.front())) selected.push_back(i);
  }
  return tessera_test::round_robin(selected, turn);
}

std::size_t algorithm_1(const std::vector<view>& I, std::size_t& turn) {
  std::set<std::size_t> E;
  for (std::size_t i = 0; i != I.size(); ++i) {
    if (I[i].slo_met) E.insert(i);
  }
  if (E.empty()) {
    for (std::size_t i = 0; i != I.size(); ++i) E.insert(i);
  }
  return argmin(
      I, E, [&](std::size_t i) { return I[i].kv_held.count(); }, turn);
}

std::size_t algorithm_2(const std::vector<view>& I, std::size_t& turn) {
  std::vector<std::size_t> r;
  for (const view& v : I) r.push_back(v.reasoning);
  std::set<std::size_t> E;
  for (std::size_t i = 0; i != I.size(); ++i) {
    if (I[i].slo_met) E.insert(i);
  }
  if (E.empty()) {
    for (std::size_t i = 0; i != I.size(); ++i) E.insert(i);
    for (const std::size_t i : E) r[i] += I[i].fresh_answers;
  }
  return argmin(
      I, E, [&](std::size_t i) { return r[i]; }, turn);
}

std::size_t adaptive(const std::vector<view>& I, std::size_t selected, std::size_t current, blocks grows, blocks moves,
                     blocks headroom) {
  const bool sufficient_here = !(I[current].free_blocks < grows + headroom);
  const bool sufficient_there = !(I[selected].free_blocks < moves + headroom);
  if (sufficient_here && !sufficient_there) return current;
  return selected;
}

/// Few distinct values, so that ties are common.
std::vector<view> random_cluster(std::mt19937& random, std::size_t most) {
  std::vector<view> all(1 + random() % most);
  const unsigned failing = random() % 4;  // of four: none, some, many, all
  for (view& v : all) {
    v.kv_held = blocks{static_cast<std::int64_t>(random() % 5)};
    v.free_blocks = blocks{static_cast<std::int64_t>(random() % 60)};
    v.requests = random() % 4;
    v.slo_met = failing != 3 && random() % 4 >= failing;
    v.reasoning = random() % 4;
    v.fresh_answers = random() % 4;
  }
  return all;
}

TEST_CASE("pascal placement: as the paper's algorithms word for word, on random clusters") {
  std::mt19937 random{7};
  std::size_t nobody_meets = 0;
  std::size_t overridden = 0;
  placement::pascal_arrival arrival;
  placement::pascal_phase_change change;
  placement::pascal_migrate_always always;
  placement::pascal_migrate_adaptively adaptively;
  std::size_t arrival_turn = 0;
  std::size_t change_turn = 0;
  for (int round = 0; round < 30'000; ++round) {
    const std::vector<view> all = random_cluster(random, 12);
    const bool none = std::none_of(all.begin(), all.end(), [](const view& v) { return v.slo_met; });
    nobody_meets += none ? 1U : 0U;
    const std::size_t current = random() % all.size();
    const blocks grows{static_cast<std::int64_t>(random() % 2)};
    const blocks moves{static_cast<std::int64_t>(random() % 60)};
    const blocks headroom{random() % 2 == 0 ? 0 : 16};
    std::size_t first = 0;
    REQUIRE(placement::pascal_arrival{}(all) == algorithm_1(all, first));
    const std::size_t recommended = algorithm_2(all, change_turn);
    REQUIRE(change(all) == recommended);
    REQUIRE(always(all, current, grows, moves) == recommended);
    adaptively.headroom = headroom;
    const std::size_t to = adaptively(all, current, grows, moves);
    REQUIRE(to == adaptive(all, recommended, current, grows, moves, headroom));
    overridden += to != recommended ? 1U : 0U;
    REQUIRE(placement::stay{}(all, current, grows, moves) == current);
    // Any range of views.
    REQUIRE(arrival(std::span<const view>{all}) == algorithm_1(all, arrival_turn));
  }
  CHECK(nobody_meets > 1000);
  CHECK(overridden > 1000);
}

TEST_CASE("pascal placement: what waiting requests need counts where views show it, unless it should not") {
  struct queued : view {
    blocks waiting_blocks{};
  };
  std::mt19937 random{11};
  std::size_t differ = 0;
  for (int round = 0; round < 10'000; ++round) {
    const std::vector<view> held = random_cluster(random, 12);
    std::vector<view> needed = held;
    std::vector<queued> shown;
    for (view& v : needed) {
      const blocks waiting{static_cast<std::int64_t>(random() % 5)};
      shown.push_back({v, waiting});
      v.kv_held += waiting;
    }
    std::size_t turn = 0;
    const std::size_t with = algorithm_1(needed, turn);
    turn = 0;
    const std::size_t without = algorithm_1(held, turn);
    REQUIRE(placement::pascal_arrival{}(shown) == with);
    REQUIRE(placement::pascal_arrival{.counts_waiting = false}(shown) == without);
    differ += with != without ? 1U : 0U;
  }
  CHECK(differ > 1000);
}

TEST_CASE("pascal placement: equals are chosen in turn, each as often as the others") {
  std::vector<view> all(5);
  all[1].slo_met = all[2].slo_met = false;
  placement::pascal_arrival arrival;
  tessera_test::check_round_robin({0, 3, 4}, 5, [&] { return arrival(all); });
  placement::pascal_migrate_adaptively adaptively;
  tessera_test::check_round_robin({0, 3, 4}, 5, [&] { return adaptively(all, 1, blocks{1}, blocks{1}); });
  for (view& v : all) v.slo_met = false;
  tessera_test::check_round_robin({0, 1, 2, 3, 4}, 5, [&] { return arrival(all); });
}

TEST_CASE("pascal placement: nowhere among none") {
  CHECK(placement::pascal_arrival{}(std::vector<view>{}) == nowhere);
  CHECK(placement::pascal_phase_change{}(std::vector<view>{}) == nowhere);
}

TEST_CASE("pascal placement: figure 7: the request stays on instance 0, which has memory, for instance 2 has none") {
  // Each has four blocks of memory. Instance 2 has no reasoning request and answers take all of its memory. Instance 0,
  // where a request ends its reasoning, has two blocks left.
  const std::vector<view> cluster{
      {.kv_held = blocks{2}, .free_blocks = blocks{2}, .requests = 2, .reasoning = 1},
      {.kv_held = blocks{3}, .free_blocks = blocks{1}, .requests = 3, .reasoning = 3},
      {.kv_held = blocks{4}, .free_blocks = blocks{0}, .requests = 4, .reasoning = 0, .fresh_answers = 4},
  };
  // (a) Algorithm 2 recommends instance 2, and so it is done without the adaptive rule.
  CHECK(placement::pascal_phase_change{}(cluster) == 2);
  CHECK(placement::pascal_migrate_always{}(cluster, 0, blocks{1}, blocks{1}) == 2);
  // (b) The recommendation is overridden.
  CHECK(placement::pascal_migrate_adaptively{}(cluster, 0, blocks{1}, blocks{1}) == 0);

  SECTION("not if instance 2 has a block") {
    auto roomy = cluster;
    roomy[2].free_blocks = blocks{1};
    CHECK(placement::pascal_migrate_adaptively{}(roomy, 0, blocks{1}, blocks{1}) == 2);
  }
  SECTION("not if instance 0 has none either") {
    auto tight = cluster;
    tight[0].free_blocks = blocks{0};
    CHECK(placement::pascal_migrate_adaptively{}(tight, 0, blocks{1}, blocks{1}) == 2);
  }
  SECTION("not if what is free here is less than the headroom") {
    CHECK(placement::pascal_migrate_adaptively{.headroom = blocks{1}}(cluster, 0, blocks{1}, blocks{1}) == 0);
    CHECK(placement::pascal_migrate_adaptively{.headroom = blocks{2}}(cluster, 0, blocks{1}, blocks{1}) == 2);
  }
}

TEST_CASE("pascal placement: allocates nothing") {
  std::mt19937 random{11};
  const std::vector<view> all = random_cluster(random, 1024);
  const tessera_test::no_allocation guard;
  std::size_t sum = placement::pascal_arrival{}(all) + placement::pascal_phase_change{}(all);
  sum += placement::pascal_migrate_adaptively{}(all, 0, blocks{1}, blocks{40});
  const std::size_t allocations = guard.allocations();
  CHECK(sum < 3 * all.size());
  CHECK(allocations == 0);
}

TEST_CASE("as much headroom as there is none of is never there") {
  const blocks all{std::numeric_limits<std::int64_t>::max()};
  const std::vector<view> two{{.kv_held = blocks{50}, .free_blocks = blocks{50}, .reasoning = 5},
                              {.free_blocks = blocks{100}}};
  CHECK(placement::migrate_when_tight{.headroom = all}(two, 0, blocks{1}, blocks{5}) == 1);
  CHECK(placement::pascal_migrate_adaptively{.headroom = all}(two, 0, blocks{1}, blocks{}) == 1);
}

}  // namespace
