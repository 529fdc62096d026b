// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/partition/range_refiner.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::partition;
using cost::request_lengths;
using namespace tessera::literals;

double quality(const cost::qoe_model& m, std::span<const request_lengths> part) {
  const auto n = double(part.size());
  double q = m.d[0] + m.d[1] * n;
  for (const auto& r : part) {
    const auto i = double(r.input.count());
    q += m.d[2] * i + m.d[3] * i * i + m.d[4] * double(r.length.count());
  }
  return n * q;
}

std::vector<request_lengths> draw(std::mt19937& random, std::size_t n, unsigned range) {
  std::vector<request_lengths> all(n);
  for (auto& r : all) {
    const auto l = std::int64_t(1 + random() % range);
    r = {tokens{std::int64_t(random()) % (l + 1)}, tokens{l}};
  }
  sort_by_length(all);
  return all;
}

TEST_CASE("the rules find the best boundary of all") {
  std::mt19937 random{5};
  for (int round = 0; round != 3000; ++round) {
    const auto sample = draw(random, 1 + random() % 30, round % 3 == 0 ? 4 : 5000);
    const cost::qoe_model m{{1e-3, double(random() % 3) * 1e-4, double(random() % 3) * 1e-6, 0, 1e-6}};
    // For every boundary: which requests are below it, and what that costs. Only boundaries at a request's length are
    // asked for.
    double least_q = std::numeric_limits<double>::infinity();
    std::int64_t least_count = std::numeric_limits<std::int64_t>::max();
    std::int64_t least_tokens = least_count;
    for (const auto& at : sample) {
      std::vector<request_lengths> low;
      std::vector<request_lengths> high;
      std::int64_t below = 0;
      std::int64_t above = 0;
      for (const auto& r : sample) {
        (r.length < at.length ? low : high).push_back(r);
        (r.length < at.length ? below : above) += r.length.count();
      }
      least_q = std::min(least_q, quality(m, low) + quality(m, high));
      least_count = std::min(least_count, std::abs(std::int64_t(low.size()) - std::int64_t(high.size())));
      least_tokens = std::min(least_tokens, std::abs(below - above));
    }
    const std::span<const request_lengths> all{sample};
    const auto valid = [&](std::size_t b) { return b < all.size() && (b == 0 || all[b].length != all[b - 1].length); };
    const std::size_t q = by_quality{m}(all);
    REQUIRE(valid(q));
    REQUIRE(quality(m, all.first(q)) + quality(m, all.subspan(q)) == tessera_test::approx(least_q).epsilon(1e-12));
    const std::size_t c = by_count{}(all);
    REQUIRE(valid(c));
    REQUIRE(std::abs(std::int64_t(all.size()) - 2 * std::int64_t(c)) == least_count);
    const std::size_t t = by_memory{}(all);
    REQUIRE(valid(t));
    std::int64_t apart = 0;
    for (std::size_t i = 0; i != all.size(); ++i) apart += (i < t ? 1 : -1) * all[i].length.count();
    REQUIRE(std::abs(apart) == least_tokens);
  }
}

TEST_CASE("the average part is every k-th, from the middle of the first k on") {
  std::vector<request_lengths> s;
  for (int i = 0; i != 10; ++i) s.push_back({tokens{0}, tokens{i + 1}});
  auto a = s;
  REQUIRE(average_part(a, 3) == 3);
  CHECK(a[0].length == tokens{2});
  CHECK(a[1].length == tokens{5});
  CHECK(a[2].length == tokens{8});
  a = s;
  CHECK(average_part(a, 1) == 10);
  CHECK(a == s);
  CHECK(average_part(a, 21) == 0);
}

TEST_CASE("a boundary is smoothed, clamped, and frozen when there is little traffic") {
  const std::vector<request_lengths> own{{0_tok, 100_tok}, {0_tok, 100_tok}, {0_tok, 100_tok}};
  const std::vector<request_lengths> theirs{{0_tok, 900_tok}, {0_tok, 900_tok}};
  std::vector<request_lengths> scratch(5);
  range_refiner<by_count> r{500_tok, {.smoothing = 0.25}};
  CHECK(r.boundary() == 500_tok);
  {
    tessera_test::no_allocation guard;
    const auto found = r.update(own, theirs, 1, 1_tok, 10000_tok, scratch);
    const auto allocations = guard.allocations();
    CHECK(allocations == 0);
    REQUIRE(found.has_value());
    CHECK(*found == 900_tok);  // 3 and 2 is the most even split
  }
  CHECK(r.boundary() == 600_tok);
  CHECK(r.update(own, theirs, 1, 1_tok, 620_tok, scratch) == 900_tok);
  CHECK(r.boundary() == 605_tok);  // a quarter of the way to 620
  // Two successors have one average request between them: four in all, so nothing moves.
  CHECK_FALSE(r.update(own, theirs, 2, 1_tok, 10000_tok, scratch).has_value());
  CHECK(r.boundary() == 605_tok);
  CHECK_FALSE(r.update({}, {}, 1, 1_tok, 10000_tok, scratch).has_value());
  // The neighbours' ranges come first, even before a smoothed boundary.
  CHECK(r.update(own, theirs, 1, 700_tok, 10000_tok, scratch).has_value());
  CHECK(r.boundary() >= 700_tok);
}

TEST_CASE("the boundary follows a drift") {
  std::mt19937 random{6};
  range_refiner<> r{1000_tok, {.rule = {{{1e-3, 2e-5, 1e-7, 0, 1e-7}}}, .smoothing = 0.3}};
  std::vector<request_lengths> scratch(400);
  for (int step = 0; step != 40; ++step) {
    auto own = draw(random, 200, 1000);
    auto theirs = draw(random, 200, 1000);
    for (auto& x : own) x.length += 5000_tok;
    for (auto& x : theirs) x.length += 5000_tok;
    static_cast<void>(r.update(own, theirs, 2, 1_tok, 100000_tok, scratch));
  }
  CHECK(r.boundary() > 5000_tok);
  CHECK(r.boundary() < 6000_tok);
}

}  // namespace
