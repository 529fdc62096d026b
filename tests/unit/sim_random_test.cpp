// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/random.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace {

namespace sim = tessera::sim;
using tessera_test::approx;

/// xoshiro256**, written out from its description.
struct textbook_xoshiro {
  std::array<std::uint64_t, 4> s;
  static std::uint64_t rotate(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  std::uint64_t operator()() {
    const std::uint64_t result = rotate(s[1] * 5, 7) * 9;
    const std::uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
  }
};

TEST_CASE("the generator is xoshiro256** seeded by splitmix64", "[sim]") {
  // The published first outputs for the state 1, 2, 3, 4 show that the textbook version is right. The state is
  // splitmix64's published output for the seed 1234567.
  textbook_xoshiro reference{{1, 2, 3, 4}};
  CHECK(reference() == 11520U);
  CHECK(reference() == 0U);
  CHECK(reference() == 1509978240U);
  CHECK(reference() == 1215971899390074240U);
  textbook_xoshiro expected{{6457827717110365317U, 3203168211198807973U, 9817491932198370423U, 4593380528125082431U}};
  sim::random_engine rng{1234567};
  for (int i = 0; i < 100; ++i) CHECK(rng() == expected());
}

TEST_CASE("seeds and streams give different sequences, each repeatable", "[sim]") {
  CHECK(sim::random_engine{1}() == sim::random_engine{1}());
  CHECK(sim::random_engine{1}() != sim::random_engine{2}());
  CHECK(sim::random_engine{1, 1}() != sim::random_engine{1, 2}());
  CHECK(sim::random_engine{1, 1}() != sim::random_engine{2, 1}());
  static_assert(sim::random_engine::min() == 0 && sim::random_engine::max() == ~std::uint64_t{0});
  static_assert(std::uniform_random_bit_generator<sim::random_engine>);
}

TEST_CASE("logarithm and exponential agree with the library's to the last bits", "[sim]") {
  sim::random_engine rng{3};
  for (int i = 0; i < 20'000; ++i) {
    const double u = sim::uniform_open(rng);
    const double x = i % 2 == 0 ? u : std::ldexp(u, static_cast<int>(sim::uniform_below(rng, 200)) - 100);
    const double l = std::log(x);
    CHECK(std::abs(sim::detail::exact_log(x) - l) <= 4e-16 * std::abs(l) + 1e-300);
    const double y = (u - 0.5) * 200;
    CHECK(std::abs(sim::detail::exact_exp(y) - std::exp(y)) <= 1e-15 * std::exp(y));
  }
  CHECK(sim::detail::exact_log(1) == 0);
  CHECK(sim::detail::exact_exp(0) == 1);
  CHECK(sim::detail::exact_exp(-1e6) == 0);
}

struct moments {
  double mean;
  double deviation;
  double least;
};

template <class Draw>
moments measure(Draw&& draw, int n = 200'000) {
  std::vector<double> x;
  for (int i = 0; i < n; ++i) x.push_back(draw());
  double sum = 0;
  double least = x[0];
  for (const double v : x) {
    sum += v;
    least = v < least ? v : least;
  }
  const double mean = sum / n;
  double square = 0;
  for (const double v : x) square += (v - mean) * (v - mean);
  return {mean, std::sqrt(square / n), least};
}

TEST_CASE("samplers have the moments they promise", "[sim]") {
  sim::random_engine rng{7};
  const auto u = measure([&] { return sim::uniform(rng); });
  CHECK(u.mean == approx(0.5).epsilon(0.01));
  CHECK(u.deviation == approx(std::sqrt(1.0 / 12)).epsilon(0.01));
  CHECK(u.least >= 0);

  const auto e = measure([&] { return sim::exponential(rng, 4); });
  CHECK(e.mean == approx(0.25).epsilon(0.015));
  CHECK(e.deviation == approx(0.25).epsilon(0.02));
  CHECK(e.least > 0);

  const auto n = measure([&] { return sim::normal(rng, 3, 2); });
  CHECK(n.mean == approx(3).epsilon(0.01));
  CHECK(n.deviation == approx(2).epsilon(0.01));

  for (const double shape : {0.1, 0.5, 1.0, 4.0, 100.0}) {
    INFO("shape " << shape);
    const auto g = measure([&] { return sim::gamma(rng, shape, 2); });
    CHECK(g.mean == approx(shape / 2).epsilon(0.03));
    CHECK(g.deviation == approx(std::sqrt(shape) / 2).epsilon(0.03));
    CHECK(g.least >= 0);
  }
}

TEST_CASE("a gamma of shape 1 is an exponential", "[sim]") {
  // Compare distribution functions, not just moments: the largest gap is below 1.95 / sqrt(n) in all but 0.1 % of runs.
  sim::random_engine rng{11};
  std::vector<double> x;
  for (int i = 0; i < 50'000; ++i) x.push_back(sim::gamma(rng, 1));
  std::sort(x.begin(), x.end());
  double gap = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    gap = std::max(gap, std::abs(static_cast<double>(i + 1) / static_cast<double>(x.size()) - (1 - std::exp(-x[i]))));
  }
  CHECK(gap < 1.95 / std::sqrt(50'000.0));
}

TEST_CASE("whole numbers below n are uniform", "[sim]") {
  sim::random_engine rng{5};
  for (const std::uint64_t n : {1U, 2U, 3U, 7U, 8U, 9U}) {
    std::vector<int> counts(n, 0);
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t x = sim::uniform_below(rng, n);
      REQUIRE(x < n);
      ++counts[x];
    }
    double chi = 0;
    const double expected = 20'000.0 / static_cast<double>(n);
    for (const int c : counts) chi += (c - expected) * (c - expected) / expected;
    INFO("n " << n << " chi " << chi);
    CHECK(chi < 27.9);  // 0.9995 quantile of 8 degrees of freedom.
  }
  CHECK(sim::uniform_below(rng, std::uint64_t{1} << 63) < std::uint64_t{1} << 63);
}

TEST_CASE("the same numbers on every machine", "[sim]") {
  // Recorded bit patterns: a change of any of them changes every generated workload.
  sim::random_engine rng{42};
  CHECK(rng() == 1546998764402558742U);
  CHECK(std::bit_cast<std::uint64_t>(sim::exponential(rng)) == 4606914645433642432U);
  CHECK(std::bit_cast<std::uint64_t>(sim::normal(rng)) == 4597152819617802828U);
  CHECK(std::bit_cast<std::uint64_t>(sim::gamma(rng, 0.3)) == 4612022876119901283U);
  CHECK(std::bit_cast<std::uint64_t>(sim::gamma(rng, 2.5, 3)) == 4610405547489190365U);
}

TEST_CASE("quantiles are interpolated between their levels", "[sim]") {
  const std::array<double, 4> levels{0, 0.5, 0.9, 1};
  const std::array<double, 4> values{10, 20, 60, 160};
  const auto at = [&](double u) { return sim::interpolate_quantile(levels, values, u); };
  CHECK(at(0) == 10);
  CHECK(at(0.25) == approx(15));
  CHECK(at(0.5) == approx(20));
  CHECK(at(0.7) == approx(40));
  CHECK(at(0.95) == approx(110));
  CHECK(at(1) == approx(160));
}

}  // namespace
