// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/placement/join_shortest_queue.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/random.hpp>
#include <tessera/placement/round_robin.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/round_robin.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using placement::nowhere;

struct queue_view {
  std::size_t requests = 0;
};
struct kv_view {
  blocks kv_held{};
  blocks free_blocks{};
};

TEST_CASE("round_robin placement: one after the other, from the first") {
  placement::round_robin next;
  const std::vector<int> three(3);
  std::vector<std::size_t> chosen;
  for (int i = 0; i != 7; ++i) chosen.push_back(next(three));
  CHECK(chosen == std::vector<std::size_t>{0, 1, 2, 0, 1, 2, 0});
  CHECK(next(std::vector<int>{}) == nowhere);
  CHECK(next(three) == 1);  // an empty cluster takes no turn
}

TEST_CASE("round_robin placement: instances come and go") {
  placement::round_robin next{.next = 4};
  CHECK(next(std::vector<int>(5)) == 4);
  CHECK(next(std::vector<int>(6)) == 5);  // a new one has its turn at once
  CHECK(next(std::vector<int>(3)) == 0);  // the one that had its turn is gone
  CHECK(next(std::vector<int>(1)) == 0);
}

TEST_CASE("join_shortest_queue: the fewest requests, then in turn; as by sorting") {
  CHECK(placement::join_shortest_queue{}(std::vector<queue_view>{}) == nowhere);
  std::mt19937 random{3};
  placement::join_shortest_queue shortest;
  std::size_t turn = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<queue_view> all(1 + random() % 9);
    for (queue_view& v : all) v.requests = random() % 5;
    const auto least = std::min_element(
        all.begin(), all.end(), [](const queue_view& a, const queue_view& b) { return a.requests < b.requests; });
    std::vector<std::size_t> equals;
    for (std::size_t i = 0; i != all.size(); ++i) {
      if (all[i].requests == least->requests) equals.push_back(i);
    }
    CHECK(placement::join_shortest_queue{}(all) == static_cast<std::size_t>(least - all.begin()));
    CHECK(shortest(std::span<const queue_view>{all}) == tessera_test::round_robin(equals, turn));
  }
}

TEST_CASE("turn: equals are chosen each as often as the others, whatever else there is") {
  placement::join_shortest_queue shortest;
  tessera_test::check_round_robin({0, 1, 2}, 3, [&] { return shortest(std::vector<queue_view>(3)); });
  // Not those that follow a busy one more often, as if the look began one further each time.
  const std::vector<queue_view> gaps{{0}, {1}, {1}, {1}, {0}, {0}, {7}};
  tessera_test::check_round_robin({0, 4, 5}, gaps.size(), [&] { return shortest(gaps); });
  CHECK(shortest(std::vector<queue_view>{}) == nowhere);
  const placement::turn before = shortest.ties;
  CHECK(shortest(std::vector<queue_view>{}) == nowhere);  // none had a turn
  CHECK(shortest.ties.next == before.next);
  CHECK(shortest(std::vector<queue_view>(1)) == 0);  // those that had their turn are gone
  placement::turn within{.next = 9};
  const auto alike = [](std::size_t) { return 7; };
  CHECK(within.least(3, 6, alike) == 3);
  CHECK(within.least(3, 6, alike) == 4);
  CHECK(within.least(3, 6, alike, [](std::size_t i) { return i != 5; }) == 3);
  CHECK(within.least(3, 3, alike) == nowhere);
  CHECK(within.least(3, 6, alike, [](std::size_t) { return false; }) == nowhere);
}

TEST_CASE("random placement: the published generator, and the same choices for the same seed") {
  // SplitMix64's reference output for the seed 1234567, reduced modulo 1000 by the rule without bias.
  placement::random reference{.state = 1234567};
  const std::vector<int> thousand(1000);
  for (const std::uint64_t drawn : {6457827717110365317U, 3203168211198807973U, 9817491932198370423U,
                                    4593380528125082431U, 16408922859458223821U}) {
    CHECK(reference(thousand) == drawn % 1000);
  }
  placement::random a{.state = 9};
  placement::random b{.state = 9};
  placement::random other{.state = 10};
  std::size_t differs = 0;
  for (int i = 0; i != 100; ++i) {
    const std::size_t chosen = a(thousand);
    CHECK(chosen == b(thousand));
    differs += chosen != other(thousand) ? 1U : 0U;
  }
  CHECK(differs > 90);
}

TEST_CASE("random placement: every instance as often as any other") {
  for (const std::size_t n : {1U, 2U, 3U, 7U, 8U}) {
    placement::random any{.state = 5};
    const std::vector<int> instances(n);
    std::vector<double> chosen(n);
    const int draws = 80'000;
    for (int i = 0; i != draws; ++i) chosen.at(any(instances)) += 1;
    const double expected = draws / static_cast<double>(n);
    double chi_square = 0;
    for (const double c : chosen) chi_square += (c - expected) * (c - expected) / expected;
    CHECK(chi_square < 24.3);  // the 99.9 % quantile for 7 degrees of freedom
  }
  placement::random any;
  const auto before = any.state;
  CHECK(any(std::vector<int>{}) == nowhere);
  CHECK(any.state == before);
}

/// The rule word for word.
std::size_t when_tight(const std::vector<kv_view>& all, std::size_t current, blocks grows, blocks moves,
                       blocks headroom, std::size_t& turn) {
  if (!(all[current].free_blocks < grows + headroom)) return current;
  std::vector<std::pair<std::int64_t, std::size_t>> candidates;
  for (std::size_t i = 0; i != all.size(); ++i) {
    const blocks held = i == current ? all[i].kv_held - moves : all[i].kv_held;
    // Its own place comes first among equals.
    candidates.emplace_back(2 * held.count() + (i == current ? 0 : 1), i);
  }
  const auto least = std::min_element(candidates.begin(), candidates.end())->first;
  std::vector<std::size_t> equals;
  for (const auto& [held, i] : candidates) {
    if (held == least) equals.push_back(i);
  }
  return equals.front() == current ? current : tessera_test::round_robin(equals, turn);
}

TEST_CASE("migrate_when_tight: as the rule word for word, on random clusters") {
  std::mt19937 random{13};
  std::size_t moved = 0;
  std::size_t turn = 0;
  placement::migrate_when_tight policy;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<kv_view> all(1 + random() % 9);
    for (kv_view& v : all) {
      v.kv_held = blocks{static_cast<std::int64_t>(40 + random() % 20)};
      v.free_blocks = blocks{static_cast<std::int64_t>(random() % 20)};
    }
    const std::size_t current = random() % all.size();
    const blocks grows{static_cast<std::int64_t>(random() % 2)};
    const blocks moves{static_cast<std::int64_t>(random() % 12)};
    const blocks headroom{static_cast<std::int64_t>(random() % 12)};
    policy.headroom = headroom;
    const std::size_t to = policy(all, current, grows, moves);
    REQUIRE(to == when_tight(all, current, grows, moves, headroom, turn));
    moved += to != current ? 1U : 0U;
    // A request that moves leaves its new instance with no more than its old one had.
    if (to != current) CHECK(all[to].kv_held + moves < all[current].kv_held);
  }
  CHECK(moved > 1000);
  const std::vector<kv_view> alike{{blocks{50}, {}}, {blocks{9}, {}}, {blocks{9}, {}}, {blocks{10}, {}}};
  tessera_test::check_round_robin({1, 2}, 4, [&] { return policy(alike, 0, blocks{1}, blocks{5}); });
}

TEST_CASE("placement baselines: allocate nothing") {
  const std::vector<queue_view> queues(100);
  const std::vector<kv_view> memory(100);
  placement::round_robin next;
  placement::random any;
  const tessera_test::no_allocation guard;
  std::size_t sum = next(queues) + any(queues) + placement::join_shortest_queue{}(queues);
  sum += placement::migrate_when_tight{.headroom = blocks{1}}(memory, 3, blocks{1}, blocks{4});
  const std::size_t allocations = guard.allocations();
  CHECK(sum < 400);
  CHECK(allocations == 0);
}

}  // namespace
