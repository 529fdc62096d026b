// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/rank/length_distribution.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using rank::length_distribution;
using rank::running_length;

using tessera_test::approx;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// A life table as in a textbook, for lengths below 16, where each length is a bin. An output that is censored at n has
/// at least n, and was at risk for half of it.
class life_table {
 public:
  life_table(const std::vector<std::int64_t>& ended, const std::vector<std::int64_t>& censored) {
    for (std::int64_t n = 0; n != most; ++n) {
      const auto at_least = [n](std::int64_t x) { return x >= n; };
      const auto is = [n](std::int64_t x) { return x == n; };
      const auto here = static_cast<double>(std::count_if(ended.begin(), ended.end(), at_least) +
                                            std::count_if(censored.begin(), censored.end(), at_least));
      const double at_risk = here - static_cast<double>(std::count_if(censored.begin(), censored.end(), is)) / 2;
      const auto d = static_cast<double>(std::count_if(ended.begin(), ended.end(), is));
      hazard_.push_back(at_risk > 0 ? std::min(d / at_risk, 1.0) : 1.0);
    }
  }
  /// P(length >= n | length >= from).
  [[nodiscard]] double reaches(std::int64_t n, std::int64_t from) const {
    double p = 1;
    for (std::int64_t k = from; k < n; ++k) p *= k < most ? 1 - hazard_[static_cast<std::size_t>(k)] : 0;
    return p;
  }
  /// E(length - age | length > age), as the sum of its tail.
  [[nodiscard]] double rest(std::int64_t age) const {
    double sum = 0;
    for (std::int64_t n = age + 1; n <= most; ++n) sum += reaches(n, age + 1);
    return sum;
  }
  /// E(length^2) / E(length)^2; 1 where all are 0.
  [[nodiscard]] double length_bias() const {
    double mean = 0, squares = 0;
    for (std::int64_t n = 0; n <= most; ++n) {
      const double part = reaches(n, 0) - reaches(n + 1, 0);
      mean += part * static_cast<double>(n);
      squares += part * static_cast<double>(n * n);
    }
    return mean > 0 ? squares / (mean * mean) : 1;
  }

  static constexpr std::int64_t most = 16;

 private:
  std::vector<double> hazard_;
};

TEST_CASE("length distribution: as the textbook's life table, with and without running outputs") {
  std::mt19937 random{3};
  std::size_t censoring = 0;
  for (int round = 0; round != 400; ++round) {
    const std::size_t n = 1 + random() % 60;
    const std::size_t running = random() % 3 == 0 ? 0 : random() % 40;
    const auto longest = static_cast<std::int64_t>(1 + random() % 13);
    auto storage = storage_for<length_distribution>({.window = 64, .groups = 4});
    length_distribution d{storage};
    std::vector<std::int64_t> ended, censored;
    std::vector<running_length> still;
    for (std::size_t i = 0; i != n; ++i) {
      ended.push_back(static_cast<std::int64_t>(random()) % (longest + 1));
      d.observe(nan, tokens{ended.back()});
    }
    for (std::size_t i = 0; i != running; ++i) {
      const auto generated = static_cast<std::int64_t>(random()) % (longest + 1);
      still.push_back({nan, tokens{generated}});
      censored.push_back(generated + 1);
    }
    censoring += running != 0 ? 1U : 0U;
    {
      const tessera_test::no_allocation guard;
      d.fit(still);
      REQUIRE(guard.allocations() == 0);
    }
    const life_table table{ended, censored};
    CHECK(d.length_bias(nan) == approx(table.length_bias()));
    for (std::int64_t age = 0; age <= longest; ++age) {
      INFO("round " << round << ", age " << age);
      const double rest = table.rest(age);
      CHECK(std::abs(static_cast<double>(d.expected_rest(nan, tokens{age}).count()) - rest) <= 0.5 + 1e-9);
      for (const double q : {0.01, 0.25, 0.5, 0.9, 0.999, 1.0}) {
        INFO("q " << q);
        const std::int64_t k = d.rest_quantile(nan, tokens{age}, q).count();
        REQUIRE(k >= 1);
        // P(length <= age + k | length > age) is q at least, and with one less it is not.
        CHECK(1 - table.reaches(age + k + 1, age + 1) >= q - 1e-9);
        CHECK((k == 1 || 1 - table.reaches(age + k, age + 1) < q + 1e-9));
      }
    }
  }
  CHECK(censoring > 100);
}

TEST_CASE("length distribution: the output that a token belongs to, by score") {
  auto storage = storage_for<length_distribution>({.window = 40'000, .groups = 2});
  length_distribution d{storage};
  CHECK(d.length_bias(nan) == 1);  // nothing is known
  std::mt19937_64 random{5};
  std::exponential_distribution<double> draw{1.0 / 700};
  for (int i = 0; i != 20'000; ++i) {
    d.observe(1.0F, tokens{777});
    d.observe(2.0F, tokens{static_cast<std::int64_t>(draw(random))});
  }
  CHECK(d.length_bias(nan) == 1);  // nor fitted
  d.fit();
  CHECK(d.length_bias(1.0F) == approx(1).epsilon(0.01));
  CHECK(d.length_bias(2.0F) == approx(2).epsilon(0.05));
  CHECK(d.length_bias(nan) == approx(1.5).epsilon(0.05));

  // An output that runs through the last bin counts for the longest.
  auto other = storage_for<length_distribution>({.window = 8, .groups = 1});
  length_distribution longest{other};
  longest.observe(nan, tokens{10});
  longest.fit(std::vector<running_length>(100, {nan, length_distribution::longest}));
  CHECK(longest.length_bias(nan) == approx(1.01).epsilon(0.01));
}

double mean_rest(const std::vector<std::int64_t>& lengths, std::int64_t age) {
  double sum = 0, n = 0;
  for (const std::int64_t x : lengths) {
    if (x <= age) continue;
    sum += static_cast<double>(x - age);
    n += 1;
  }
  return sum / n;
}

TEST_CASE("length distribution: long outputs, within the width of the bins") {
  std::mt19937_64 random{17};
  std::lognormal_distribution<double> draw{5.5, 1.2};
  std::vector<std::int64_t> lengths(20'000);
  auto storage = storage_for<length_distribution>({.window = lengths.size(), .groups = 1});
  length_distribution d{storage};
  for (std::int64_t& n : lengths) {
    n = 1 + static_cast<std::int64_t>(draw(random));
    d.observe(1.0F, tokens{n});
  }
  d.fit();
  double sum = 0, squares = 0;
  for (const std::int64_t n : lengths) {
    sum += static_cast<double>(n);
    squares += static_cast<double>(n) * static_cast<double>(n);
  }
  CHECK(d.length_bias(0.5F) == approx(squares / (sum * sum) * static_cast<double>(lengths.size())).epsilon(0.02));
  std::vector<std::int64_t> sorted = lengths;
  std::sort(sorted.begin(), sorted.end());
  for (const std::int64_t age : {0, 5, 30, 100, 333, 1000, 3000}) {
    INFO("age " << age);
    CHECK(static_cast<double>(d.expected_rest(0.5F, tokens{age}).count()) ==
          approx(mean_rest(lengths, age)).epsilon(0.02));
    const auto from = std::upper_bound(sorted.begin(), sorted.end(), age);
    for (const double q : {0.1, 0.5, 0.9, 0.99}) {
      const auto length =
          static_cast<double>(*(from + static_cast<std::ptrdiff_t>(q * static_cast<double>(sorted.end() - from))));
      CHECK(static_cast<double>((tokens{age} + d.rest_quantile(0.5F, tokens{age}, q)).count()) ==
            approx(length).epsilon(0.07).margin(1.5));
    }
  }
}

TEST_CASE("length distribution: an output that still runs is not taken for short") {
  // A server that began 600 steps ago: of those that came, mostly the short ones have ended.
  std::mt19937_64 random{5};
  std::exponential_distribution<double> draw{1.0 / 500};
  auto storage = storage_for<length_distribution>({.window = 8192, .groups = 1});
  length_distribution d{storage};
  std::vector<running_length> running;
  for (int i = 0; i != 6000; ++i) {
    const auto length = 1 + static_cast<std::int64_t>(draw(random));
    const std::int64_t age = 600 - i / 10;
    if (length <= age) {
      d.observe(nan, tokens{length});
    } else {
      running.push_back({nan, tokens{age}});
    }
  }
  d.fit();
  CHECK(d.rest_quantile(nan, tokens{}, 0.5) < tokens{240});
  d.fit(running);
  CHECK(static_cast<double>(d.rest_quantile(nan, tokens{}, 0.5).count()) == approx(500 * std::log(2.0)).epsilon(0.1));
}

TEST_CASE("length distribution: each score has that of its group, whatever the scale") {
  std::mt19937_64 random{23};
  auto storage = storage_for<length_distribution>({.window = 4096, .groups = 4});
  length_distribution d{storage};
  CHECK(d.expected_rest(0.0F, tokens{}) == tokens{});
  CHECK(d.rest_quantile(0.0F, tokens{}, 0.5) == tokens{});
  for (int i = 0; i != 5000; ++i) {
    const auto kind = static_cast<std::int64_t>(random() % 4);
    d.observe(static_cast<float>(std::exp(5.0 * static_cast<double>(kind))), tokens{100 << kind});
  }
  CHECK(d.size() == 4096);
  d.fit();
  for (std::int64_t kind = 0; kind != 4; ++kind) {
    const auto score = static_cast<float>(std::exp(5.0 * static_cast<double>(kind)));
    const auto length = static_cast<double>(100 << kind);
    CHECK(static_cast<double>(d.expected_rest(score, tokens{}).count()) == approx(length).epsilon(0.07));
    CHECK(static_cast<double>(d.expected_rest(score, tokens{50}).count()) == approx(length - 50).epsilon(0.13));
    CHECK(static_cast<double>(d.rest_quantile(score, tokens{}, 0.99).count()) == approx(length).epsilon(0.13));
  }
  // Without a score: all of them.
  CHECK(static_cast<double>(d.expected_rest(nan, tokens{}).count()) == approx(375).epsilon(0.05));
  // Longer than anything that was seen: it ends soon, and at least with the next token.
  CHECK(d.expected_rest(1e9F, tokens{100'000'000}) >= tokens{1});
  CHECK(d.rest_quantile(1e9F, tokens{5'000}, 1.0) >= tokens{1});
}

TEST_CASE("length distribution: a drift is noticed soon, and hardly ever where there is none") {
  std::mt19937_64 random{29};
  const auto draw = [&](double mean) {
    std::lognormal_distribution<double> d{std::log(mean) - 0.32, 0.8};
    return tokens{1 + static_cast<std::int64_t>(d(random))};
  };
  std::size_t alarms = 0;
  constexpr int stationary = 200;
  for (int run = 0; run != stationary; ++run) {
    auto storage = storage_for<length_distribution>({.window = 4096, .groups = 4});
    length_distribution d{storage};
    for (int i = 0; i != 4096; ++i) d.observe(static_cast<float>(i % 7), draw(300));
    d.fit();
    CHECK(d.drift() == 0);
    for (int i = 0; i != 1000; ++i) {
      d.observe(static_cast<float>(i % 7), draw(300));
      if (std::abs(d.drift()) > length_distribution::drifts_at) {
        ++alarms;
        break;
      }
    }
    if (run >= 20) continue;
    d.fit();
    for (const double mean : {900.0, 80.0}) {
      int seen = 0;
      for (; std::abs(d.drift()) <= length_distribution::drifts_at; ++seen) {
        REQUIRE(seen < 200);
        d.observe(static_cast<float>(seen % 7), draw(mean));
      }
      CHECK((d.drift() > 0) == (mean > 300));
      CHECK(seen < 60);
      auto copy = storage_for<length_distribution>({.window = 4096, .groups = 4});
      d.fit();
      for (int i = 0; i != 4096; ++i) d.observe(static_cast<float>(i % 7), draw(300));
      d.fit();
    }
  }
  INFO(alarms << " false alarms in " << stationary << " runs of 1000");
  CHECK(alarms <= 8);
}

TEST_CASE("length distribution: an output that has outlived all that was learned ends evenly in its bin") {
  owned_storage<length_distribution::limits> storage = storage_for<length_distribution>({.window = 128});
  length_distribution d{storage};
  for (std::int64_t n = 100; n != 200; ++n) d.observe(nan, tokens{n});
  d.fit();
  for (const std::int64_t age : {250, 600, 4095, 5000}) {
    CAPTURE(age);
    double sum = 0;
    for (int k = 0; k != 1000; ++k) {
      sum += static_cast<double>(d.rest_quantile(nan, tokens{age}, (k + 0.5) / 1000).count());
    }
    const auto mean = static_cast<double>(d.expected_rest(nan, tokens{age}).count());
    CHECK(std::abs(sum / 1000 - mean) <= 1 + 0.01 * mean);
    CHECK(d.rest_quantile(nan, tokens{age}, 0.01) <= d.rest_quantile(nan, tokens{age}, 0.5));
  }
  CHECK(d.rest_quantile(nan, tokens{4095}, 0.01) < tokens{10});
  CHECK(d.rest_quantile(nan, tokens{4095}, 1.0) == tokens{512});
}

}  // namespace
