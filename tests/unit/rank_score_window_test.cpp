// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/storage.hpp>
#include <tessera/rank/score_window.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

using namespace tessera;
using namespace tessera::literals;
using rank::score_window;

TEST_CASE("score_window: the last pairs, their scores in order, and even groups that keep equal scores together") {
  std::mt19937_64 random{5};
  for (int round = 0; round != 60; ++round) {
    const std::size_t window = 1 + random() % 40;
    const std::size_t groups = 1 + random() % 9;
    const std::size_t observed = random() % 90;
    const bool coarse = random() % 2 == 0;
    std::vector<std::byte> memory(storage_layout{}.add_bytes(score_window::required_bytes(window)).bytes_unaligned());
    arena from{memory};
    score_window w{from, window};
    std::deque<std::pair<float, std::int64_t>> last;
    for (std::size_t i = 0; i != observed; ++i) {
      const auto draw = static_cast<float>(random() % (coarse ? 4 : 1000)) - 2;
      const float score = random() % 8 == 0 ? std::numeric_limits<float>::quiet_NaN() : draw;
      const auto length = static_cast<std::int64_t>(random() % 500);
      w.observe(score, tokens{length});
      last.emplace_back(score, length);
      if (last.size() > window) last.pop_front();
    }
    REQUIRE(w.all().size() == last.size());
    std::multimap<float, std::int64_t> sorted;
    for (const auto& [score, length] : last) {
      if (score == score) sorted.emplace(score, length);
    }
    std::size_t place = 0;
    auto next = sorted.begin();
    const tessera_test::no_allocation guard;
    w.each_score(groups, [&](std::uint64_t group, std::span<const score_window::pair> equal) {
      REQUIRE(next != sorted.end());
      const float score = next->first;
      REQUIRE(equal.size() == sorted.count(score));
      CHECK(group == (2 * place + equal.size() - 1) / 2 * groups / sorted.size());
      CHECK(group < groups);
      std::int64_t sum = 0;
      for (const score_window::pair p : equal) {
        CHECK(score_window::key_of(p) == score_window::key(score));
        sum += score_window::length_of(p).count();
      }
      for (; next != sorted.end() && next->first == score; ++next) sum -= next->second;
      CHECK(sum == 0);
      place += equal.size();
    });
    CHECK(next == sorted.end());
  }
}

TEST_CASE("score_window: a very long output counts as the longest there is") {
  alignas(storage_alignment) std::byte memory[256];
  arena from{memory};
  score_window w{from, 1};
  w.observe(1, tokens{std::int64_t{1} << 40});
  CHECK(score_window::length_of(w.all().front()) == score_window::longest);
}
