// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/market/selection.hpp>
#include <tessera/market/triggers.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using market::bid;
using market::select_bids;

bid make(std::uint32_t id, std::int64_t load, double start, std::uint32_t arrival) {
  return {{id, 1}, tokens{load}, start, arrival};
}

std::vector<std::uint32_t> ids(const std::vector<bid>& bids) {
  std::vector<std::uint32_t> all;
  for (const bid& b : bids) all.push_back(b.from.id);
  return all;
}

/// The rule said in another way. A bid survives the first cut if fewer than ceil(n / 2) bids come before it by load. It
/// survives the second if fewer than `keep` survivors come before it by start. The rest is listed by reply.
std::vector<std::uint32_t> by_counting(const std::vector<bid>& bids, std::size_t keep) {
  const auto lighter = [](const bid& a, const bid& b) {
    if (a.load != b.load) return a.load < b.load;
    if (a.start < b.start || b.start < a.start) return a.start < b.start;
    return a.arrival != b.arrival ? a.arrival < b.arrival : a.from.id < b.from.id;
  };
  const auto sooner = [](const bid& a, const bid& b) {
    if (a.start < b.start || b.start < a.start) return a.start < b.start;
    if (a.load != b.load) return a.load < b.load;
    return a.arrival != b.arrival ? a.arrival < b.arrival : a.from.id < b.from.id;
  };
  std::vector<bid> light;
  for (const bid& b : bids) {
    std::size_t before = 0;
    for (const bid& other : bids) before += lighter(other, b);
    if (before < (bids.size() + 1) / 2) light.push_back(b);
  }
  std::vector<bid> kept;
  for (const bid& b : light) {
    std::size_t before = 0;
    for (const bid& other : light) before += sooner(other, b);
    if (before < keep) kept.push_back(b);
  }
  std::vector<std::uint32_t> out;
  for (std::uint32_t arrival = 0; out.size() != kept.size(); ++arrival) {
    for (const bid& b : kept) {
      if (b.arrival == arrival) out.push_back(b.from.id);
    }
  }
  return out;
}

TEST_CASE("bids: half by load, three by start, the first to reply") {
  // Loads 10 to 80; the lighter half is 1 to 4. Among these, 4, 2 and 3 can start first, and 3 has replied before them.
  std::vector<bid> bids{make(1, 10, 9.0, 0), make(2, 20, 2.0, 4), make(3, 30, 3.0, 1), make(4, 40, 1.0, 6),
                        make(5, 50, 0.0, 2), make(6, 60, 0.0, 3), make(7, 70, 0.0, 5), make(8, 80, 0.0, 7)};
  REQUIRE(select_bids(bids) == 3);
  bids.resize(3);
  CHECK(ids(bids) == std::vector<std::uint32_t>{3, 2, 4});
}

TEST_CASE("bids: few of them") {
  CHECK(select_bids({}) == 0);
  std::vector<bid> one{make(7, 1'000'000, 1e9, 0)};
  CHECK(select_bids(one) == 1);
  std::vector<bid> two{make(1, 5, 0, 0), make(2, 4, 9, 1)};
  REQUIRE(select_bids(two) == 1);
  CHECK(two[0].from.id == 2);
  std::vector<bid> three{make(1, 5, 0, 0), make(2, 4, 9, 1), make(3, 9, 0, 2)};
  REQUIRE(select_bids(three) == 2);
  CHECK(three[0].from.id == 1);
  CHECK(three[1].from.id == 2);
}

TEST_CASE("bids: the choice is that of counting, with few and with many ties, and does not depend on the order") {
  std::mt19937 random{17};
  for (int round = 0; round != 4000; ++round) {
    const std::size_t n = random() % 70;
    const unsigned values = round % 3 == 0 ? 2 : round % 3 == 1 ? 8 : 1000;
    const std::size_t keep = 1 + random() % 8;
    std::vector<bid> bids;
    for (std::size_t i = 0; i != n; ++i) {
      bids.push_back(make(static_cast<std::uint32_t>(i), static_cast<std::int64_t>(random() % values),
                          static_cast<double>(random() % values), 0));
    }
    std::shuffle(bids.begin(), bids.end(), random);
    for (std::size_t i = 0; i != n; ++i) bids[i].arrival = static_cast<std::uint32_t>(i);
    const std::vector<std::uint32_t> expected = by_counting(bids, keep);
    std::shuffle(bids.begin(), bids.end(), random);
    tessera_test::no_allocation guard;
    const std::size_t kept = select_bids(bids, keep);
    const std::size_t allocations = guard.allocations();
    REQUIRE(allocations == 0);
    bids.resize(kept);
    REQUIRE(ids(bids) == expected);
  }
}

TEST_CASE("triggers: a sequence leaves its stage, an instance is 25 % above its stage's mean") {
  CHECK_FALSE(market::outgrows(4095_tok, 4096_tok));
  CHECK(market::outgrows(4096_tok, 4096_tok));
  const market::rebalance r;
  // Mean 100; 125 is not above 1.25 times the mean, 126 would be of 100.25.
  const std::array<tokens, 4> even{125_tok, 100_tok, 100_tok, 75_tok};
  for (std::size_t i = 0; i != 4; ++i) CHECK(r.excess(even, i) == 0_tok);
  const std::array<tokens, 4> uneven{130_tok, 100_tok, 100_tok, 70_tok};
  CHECK(r.excess(uneven, 0) == 30_tok);
  CHECK(r.excess(uneven, 1) == 0_tok);
  const std::array<tokens, 3> odd{20_tok, 1_tok, 1_tok};  // the mean, 7 1/3, is rounded up
  CHECK(r.excess(odd, 0) == 12_tok);
  const std::array<tokens, 2> idle{};
  CHECK(r.excess(idle, 0) == 0_tok);
  CHECK(market::rebalance{1.0}.excess(even, 0) == 25_tok);
}

}  // namespace
