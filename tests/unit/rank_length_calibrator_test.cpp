// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/rank/length_calibrator.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using rank::length_calibrator;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

using pairs = std::deque<std::pair<float, std::int64_t>>;

/// The fitted function from its definition. It has groups by the place of the middle one of equal scores, and the
/// min-max formula of isotonic regression, which pools nothing. Lengths must be small enough for means in double.
class oracle {
 public:
  oracle(const pairs& window, std::size_t groups) {
    std::map<float, std::vector<std::int64_t>> by_score;
    std::size_t n = 0;
    std::int64_t total = 0;
    for (const auto& [score, output] : window) {
      total += output;
      if (std::isnan(score)) continue;
      by_score[score].push_back(output);
      ++n;
    }
    if (!window.empty()) mean_ = rounded(total, window.size());

    std::map<std::size_t, group> all;
    std::size_t before = 0;
    for (const auto& [score, outputs] : by_score) {
      const std::size_t middle = before + (outputs.size() - 1) / 2;
      before += outputs.size();
      group& g = all[middle * groups / n];
      g.largest = score;
      for (const std::int64_t output : outputs) g.sum += output;
      g.count += outputs.size();
    }
    for (const auto& [_, g] : all) groups_.push_back(g);
    for (std::size_t i = 0; i != groups_.size(); ++i) groups_[i].fitted = min_max(i);
  }

  [[nodiscard]] std::int64_t operator()(float score) const {
    if (std::isnan(score) || groups_.empty()) return mean_;
    for (const group& g : groups_)
      if (g.largest >= score) return g.fitted;
    return groups_.back().fitted;
  }

 private:
  struct group {
    float largest = 0;
    std::int64_t sum = 0;
    std::size_t count = 0;
    std::int64_t fitted = 0;
  };
  static std::int64_t rounded(std::int64_t sum, std::size_t count) {
    return static_cast<std::int64_t>(std::floor(static_cast<double>(sum) / static_cast<double>(count) + 0.5));
  }
  /// max over a <= i of min over b >= i of the mean of the groups a to b.
  [[nodiscard]] std::int64_t min_max(std::size_t i) const {
    double best = -1;
    for (std::size_t a = 0; a <= i; ++a) {
      double least = std::numeric_limits<double>::infinity();
      double sum = 0;
      double count = 0;
      for (std::size_t b = a; b != groups_.size(); ++b) {
        sum += static_cast<double>(groups_[b].sum);
        count += static_cast<double>(groups_[b].count);
        if (b >= i) least = std::min(least, sum / count);
      }
      best = std::max(best, least);
    }
    return static_cast<std::int64_t>(std::floor(best + 0.5));
  }

  std::vector<group> groups_;
  std::int64_t mean_ = 0;
};

struct fitted {
  owned_storage<length_calibrator::limits> storage;
  length_calibrator length{storage};

  fitted(const length_calibrator::limits& l, const pairs& seen) : storage{storage_for<length_calibrator>(l)} {
    for (const auto& [score, output] : seen) length.observe(score, tokens{output});
    length.fit();
  }
  [[nodiscard]] std::int64_t operator()(float score) const { return length(score).count(); }
};

TEST_CASE("length calibrator: as by the min-max formula, for windows, groups and scores of all sorts") {
  std::mt19937_64 random{1};
  std::normal_distribution<float> normal;
  for (const std::size_t window : {1U, 2U, 3U, 7U, 20U, 61U}) {
    for (const std::size_t groups : {1U, 2U, 3U, 8U, 20U, 100U}) {
      for (int kind = 0; kind != 6; ++kind) {
        const length_calibrator::limits limits{window, groups};
        auto storage = storage_for<length_calibrator>(limits);
        length_calibrator length{storage};
        pairs last;
        for (int i = 0; i != 150; ++i) {
          float score = normal(random);
          auto output = static_cast<std::int64_t>(random() % 40);
          if (kind == 1) output += static_cast<std::int64_t>(10 * (score + 5));  // A score that says something,
          if (kind == 2) output += static_cast<std::int64_t>(10 * (5 - score));  // or the contrary of it.
          if (kind == 3) score = static_cast<float>(random() % 4);
          if (kind == 4) score = random() % 3 != 0 ? 1.0F : score;  // A run longer than a group.
          if (kind == 5) {
            const float odd[] = {nan, -nan, infinity, -infinity, 0.0F, -0.0F, 1e-45F, -1e-45F, score};
            score = odd[random() % 9];
          }
          last.emplace_back(score, output);
          if (last.size() > window) last.pop_front();

          std::int64_t got[4];
          const float asked[] = {score, normal(random), last[random() % last.size()].first, nan};
          const tessera_test::no_allocation guard;
          length.observe(score, tokens{output});
          length.fit();
          for (std::size_t k = 0; k != 4; ++k) got[k] = length(asked[k]).count();
          REQUIRE(guard.allocations() == 0);

          const oracle expected{last, groups};
          REQUIRE(length.size() == last.size());
          for (std::size_t k = 0; k != 4; ++k) {
            INFO("window " << window << " groups " << groups << " kind " << kind << " score " << asked[k]);
            REQUIRE(got[k] == expected(asked[k]));
          }
        }
      }
    }
  }
}

TEST_CASE("length calibrator: nothing fitted, nothing known") {
  auto storage = storage_for<length_calibrator>({});
  length_calibrator length{storage};
  CHECK(length.size() == 0);
  CHECK(length(1.0F) == tokens{});
  CHECK(length(nan) == tokens{});
  length.observe(1.0F, tokens{100});
  CHECK(length.size() == 1);
  CHECK(length(1.0F) == tokens{});  // Not before it is fitted.
  length.fit();
  CHECK(length(1.0F) == tokens{100});
  CHECK(length(nan) == tokens{100});
  length.observe(1.0F, tokens{300});
  CHECK(length(1.0F) == tokens{100});
  length.fit();
  CHECK(length(1.0F) == tokens{200});

  auto empty_storage = storage_for<length_calibrator>({});
  length_calibrator empty{empty_storage};
  empty.fit();
  CHECK(empty(1.0F) == tokens{});
  CHECK(empty(nan) == tokens{});
}

TEST_CASE("length calibrator: equal scores all get the mean, halves rounded up") {
  const fitted length{{.window = 8, .groups = 4}, {{2, 10}, {2, 13}, {2, 1}, {2, 2}}};
  for (const float score : {-infinity, 1.0F, 2.0F, 3.0F, infinity, nan}) CHECK(length(score) == 7);  // 26 / 4
  const fitted below{{.window = 8, .groups = 4}, {{2, 10}, {2, 13}, {2, 1}, {2, 1}}};
  CHECK(below(2) == 6);  // 25 / 4
}

TEST_CASE("length calibrator: a score in the wrong order gives all the mean") {
  const fitted length{{.window = 100, .groups = 10}, [] {
                        pairs seen;
                        for (int i = 0; i != 100; ++i) seen.emplace_back(static_cast<float>(i), 1000 - 10 * i);
                        return seen;
                      }()};
  for (const float score : {-1.0F, 0.0F, 37.0F, 99.0F, 1e9F}) CHECK(length(score) == 505);
}

TEST_CASE("length calibrator: a score in the right order gives each group its mean") {
  // 10 pairs in 4 groups: of 3, 2, 3 and 2.
  pairs seen{{0, 1}, {1, 2}, {2, 6}, {3, 10}, {4, 20}, {5, 30}, {6, 30}, {7, 60}, {8, 100}, {9, 200}};
  std::shuffle(seen.begin(), seen.end(), std::mt19937{1});
  const fitted length{{.window = 10, .groups = 4}, seen};
  for (const float score : {-infinity, -5.0F, 0.0F, 1.5F, 2.0F}) CHECK(length(score) == 3);
  for (const float score : {2.5F, 3.0F, 4.0F}) CHECK(length(score) == 15);
  for (const float score : {4.1F, 7.0F}) CHECK(length(score) == 40);
  for (const float score : {7.5F, 9.0F, 10.0F, infinity}) CHECK(length(score) == 150);

  const fitted one_each{{.window = 10, .groups = 10}, seen};
  for (const auto& [score, output] : seen) CHECK(one_each(score) == output);
  const fitted more_groups{{.window = 10, .groups = 1000}, seen};
  for (const auto& [score, output] : seen) CHECK(more_groups(score) == output);
}

TEST_CASE("length calibrator: few values in two groups stay two values") {
  // As from a classifier: 3 of one class, 97 of the other, with far more groups than classes.
  pairs seen;
  for (int i = 0; i != 100; ++i) seen.emplace_back(i < 3 ? 0.0F : 1.0F, i < 3 ? 10 : 500);
  const fitted length{{.window = 100, .groups = 32}, seen};
  CHECK(length(0) == 10);
  CHECK(length(1) == 500);
}

TEST_CASE("length calibrator: joining goes back as far as it must") {
  // 7 and 6 join to 6.5, which is above 5. With a 0 these are 13 / 3, which is below it: all four join.
  const fitted three{{.window = 5, .groups = 5}, {{0, 5}, {1, 7}, {2, 6}}};
  CHECK(three(0) == 5);
  CHECK(three(1) == 7);
  CHECK(three(2) == 7);
  const fitted five{{.window = 5, .groups = 5}, {{0, 5}, {1, 7}, {2, 6}, {3, 0}, {4, 9}}};
  for (const float score : {0.0F, 1.0F, 2.0F, 3.0F}) CHECK(five(score) == 5);
  CHECK(five(4) == 9);
}

TEST_CASE("length calibrator: the oldest pairs are forgotten") {
  auto storage = storage_for<length_calibrator>({.window = 3, .groups = 3});
  length_calibrator length{storage};
  const auto see = [&](float score, std::int64_t output) {
    length.observe(score, tokens{output});
    length.fit();
    return std::pair{length(0.0F).count(), length(1.0F).count()};
  };
  CHECK(see(0, 90) == std::pair<std::int64_t, std::int64_t>{90, 90});
  CHECK(see(0, 30) == std::pair<std::int64_t, std::int64_t>{60, 60});
  CHECK(see(1, 100) == std::pair<std::int64_t, std::int64_t>{60, 100});
  CHECK(see(0, 10) == std::pair<std::int64_t, std::int64_t>{20, 100});  // Without the 90,
  CHECK(length.size() == 3);
  CHECK(see(1, 300) == std::pair<std::int64_t, std::int64_t>{10, 200});   // the 30,
  CHECK(see(1, 500) == std::pair<std::int64_t, std::int64_t>{10, 400});   // the 100,
  CHECK(see(1, 600) == std::pair<std::int64_t, std::int64_t>{467, 467});  // and the 10.
  CHECK(length.size() == 3);
}

TEST_CASE("length calibrator: NaN counts for the mean, infinities are scores") {
  const fitted length{{.window = 9, .groups = 9}, {{nan, 1000}, {-infinity, 10}, {0, 20}, {infinity, 70}, {-nan, 400}}};
  CHECK(length(-infinity) == 10);
  CHECK(length(-1e30F) == 20);
  CHECK(length(-0.0F) == 20);
  CHECK(length(1e-30F) == 70);
  CHECK(length(infinity) == 70);
  CHECK(length(nan) == 300);

  const fitted unknown{{.window = 4, .groups = 2}, {{nan, 1000}, {nan, 500}}};
  CHECK(unknown(0) == 750);
  CHECK(unknown(nan) == 750);

  // The zeros are one score.
  const fitted zeros{{.window = 4, .groups = 4}, {{-0.0F, 10}, {0.0F, 20}}};
  CHECK(zeros(-0.0F) == 15);
  CHECK(zeros(0.0F) == 15);
}

TEST_CASE("length calibrator: never falls as the score rises, and keeps the mean") {
  std::mt19937_64 random{2};
  std::normal_distribution<float> normal;
  std::lognormal_distribution<double> lengths{15, 1};  // Long ones, so that rounding is nothing next to them.
  for (const float says : {0.0F, 0.3F, 3.0F}) {
    pairs seen;
    double sum = 0;
    for (int i = 0; i != 4000; ++i) {
      const double output = std::min(lengths(random), 4e9);
      seen.emplace_back(says * static_cast<float>(std::log(output)) + normal(random),
                        static_cast<std::int64_t>(output));
      sum += std::floor(output);
    }
    const fitted length{{.window = 4096, .groups = 32}, seen};
    double fitted_sum = 0;
    for (const auto& [score, _] : seen) fitted_sum += static_cast<double>(length(score));
    CHECK(std::abs(fitted_sum - sum) <= 0.5 * 4000);

    std::int64_t before = 0;
    std::size_t rises = 0;
    for (float score = -20; score < 80; score += 0.01F) {
      const std::int64_t now = length(score);
      REQUIRE(now >= before);
      if (now > before) ++rises;
      before = now;
    }
    CHECK(rises <= 32);
    if (says > 1) CHECK(rises > 16);

    // No unit or scale matters.
    pairs other = seen;
    for (auto& [score, _] : other) score = score * 8;
    const fitted scaled{{.window = 4096, .groups = 32}, other};
    for (std::size_t i = 0; i != seen.size(); ++i) REQUIRE(scaled(other[i].first) == length(seen[i].first));
  }
}

TEST_CASE("length calibrator: the order in which pairs come does not matter") {
  std::mt19937_64 random{3};
  pairs seen;
  for (int i = 0; i != 300; ++i) seen.emplace_back(static_cast<float>(random() % 50), random() % 1000);
  const fitted length{{.window = 300, .groups = 16}, seen};
  std::shuffle(seen.begin(), seen.end(), random);
  const fitted shuffled{{.window = 300, .groups = 16}, seen};
  for (int i = -1; i != 51; ++i) CHECK(shuffled(static_cast<float>(i)) == length(static_cast<float>(i)));
}

TEST_CASE("length calibrator: lengths that do not fit 32 bits count as the longest that does") {
  constexpr std::int64_t longest = (std::int64_t{1} << 32) - 1;
  const fitted length{{.window = 3, .groups = 2},
                      {{0, longest}, {0, std::numeric_limits<std::int64_t>::max()}, {1, longest + 1}}};
  CHECK(length(0) == longest);
  CHECK(length(1) == longest);
}

TEST_CASE("length calibrator: means that differ by less than a token are told apart") {
  // 1/2, which rounds to 1, then 2/5: joined, 3/7, which rounds to 0.
  const fitted halves{{.window = 7, .groups = 7}, {{0, 1}, {0, 0}, {1, 1}, {1, 1}, {1, 0}, {1, 0}, {1, 0}}};
  CHECK(halves(0) == 0);
  CHECK(halves(1) == 0);
  // 2/5, then 1/2: in order.
  const fitted apart{{.window = 7, .groups = 7}, {{1, 1}, {1, 0}, {0, 1}, {0, 1}, {0, 0}, {0, 0}, {0, 0}}};
  CHECK(apart(0) == 0);
  CHECK(apart(1) == 1);
}

TEST_CASE("length calibrator: limits of 1, and storage of exactly the size asked for, at any address") {
  constexpr length_calibrator::limits smallest{.window = 1, .groups = 1};
  constexpr std::size_t size = length_calibrator::required_bytes(smallest);
  for (std::size_t shift = 0; shift < 64; shift += 7) {
    std::vector<std::byte> buffer(size + shift);
    length_calibrator length{std::span{buffer}.subspan(shift), smallest};
    length.fit();
    CHECK(length(0.0F) == tokens{});
    length.observe(1.0F, tokens{5});
    length.fit();
    CHECK(length(0.0F) == tokens{5});
    length.observe(nan, tokens{0});
    length.fit();
    CHECK(length(1.0F) == tokens{});
    length.observe(-1.0F, tokens{8});
    length.fit();
    CHECK(length(1.0F) == tokens{8});
    CHECK(length.size() == 1);
  }
  const fitted one_group{{.window = 4, .groups = 1}, {{0, 10}, {1, 20}, {2, 40}, {3, 50}}};
  for (const float score : {0.0F, 3.0F, nan}) CHECK(one_group(score) == 30);
  const fitted one_pair{{.window = 1, .groups = 9}, {{0, 10}, {1, 20}}};
  CHECK(one_pair(0) == 20);
}

}  // namespace
