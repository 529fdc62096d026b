// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/rank/losses.hpp>

#include "support/catch.hpp"

#include <cmath>
#include <random>
#include <vector>

namespace {

using namespace tessera::rank;
using tessera_test::approx;

struct sample {
  std::vector<float> lengths, scores;
};

sample draw(std::mt19937& random, std::size_t n) {
  sample s;
  for (std::size_t i = 0; i != n; ++i) {
    s.lengths.push_back(static_cast<float>(random() % 40));  // ties, and zeros
    // Quarters: scores tie, and stand exactly a margin apart, again and again.
    s.scores.push_back(static_cast<float>(random() % 17) * 0.25f - 2.0f);
  }
  return s;
}

/// All pairs, one after the other.
double pairwise_by_definition(const sample& s, double delta, double margin, std::vector<double>& gradient) {
  double total = 0;
  double pairs = 0;
  gradient.assign(s.scores.size(), 0.0);
  for (std::size_t a = 0; a != s.scores.size(); ++a) {
    for (std::size_t b = 0; b != s.scores.size(); ++b) {
      const double la = s.lengths[a];
      const double lb = s.lengths[b];
      if (!(la > lb) || la - lb < delta * la) continue;
      ++pairs;
      const double loss = margin - (static_cast<double>(s.scores[a]) - static_cast<double>(s.scores[b]));
      if (!(loss > 0)) continue;
      total += loss;
      gradient[a] -= 1;
      gradient[b] += 1;
    }
  }
  if (pairs == 0) return 0;
  for (double& g : gradient) g /= pairs;
  return total / pairs;
}

template <class Loss>
void check_gradient_by_differences(Loss& loss, std::vector<float> scores) {
  std::vector<double> gradient(scores.size());
  std::vector<double> unused(scores.size());
  loss(scores, gradient);
  for (std::size_t i = 0; i != scores.size(); ++i) {
    const float at = scores[i];
    const float h = 0x1p-9f;
    scores[i] = at + h;
    const double above = loss(scores, unused);
    scores[i] = at - h;
    const double below = loss(scores, unused);
    scores[i] = at;
    REQUIRE(gradient[i] == approx((above - below) / (2.0 * static_cast<double>(h))).margin(2e-5).epsilon(1e-3));
  }
}

TEST_CASE("the delta filter is PARS's equation 1") {
  CHECK(informative(100, 80, 0.2));
  CHECK(informative(80, 100, 0.2));
  CHECK_FALSE(informative(100, 81, 0.2));
  CHECK_FALSE(informative(100, 100, 0.0));
  CHECK(informative(100, 99, 0.0));
  CHECK(informative(1, 0, 0.99));
  CHECK_FALSE(informative(0, 0, 0.0));
}

TEST_CASE("the pairwise loss over all pairs is the sum over all pairs") {
  std::mt19937 random{3};
  for (int round = 0; round != 200; ++round) {
    const sample s = draw(random, random() % 50);
    const double delta = round % 4 == 0 ? 0.0 : round % 4 == 1 ? 0.2 : round % 4 == 2 ? 0.25 : 0.9;
    const double margin = round % 2 == 0 ? 1.0 : 0.3;
    pairwise_loss loss{s.lengths, delta, margin};
    std::vector<double> gradient(s.scores.size());
    std::vector<double> expected;
    const double value = pairwise_by_definition(s, delta, margin, expected);
    REQUIRE(loss(s.scores, gradient) == approx(value).margin(1e-9));
    for (std::size_t i = 0; i != gradient.size(); ++i) REQUIRE(gradient[i] == approx(expected[i]).margin(1e-12));
  }
}

TEST_CASE("the pairwise loss knows nothing but order") {
  const std::vector<float> lengths{10, 100, 1000};
  const std::vector<float> stretched{10, 200, 90000};
  const std::vector<float> scores{0.5f, 0.25f, 3.0f};
  std::vector<double> a(3);
  std::vector<double> b(3);
  pairwise_loss first{lengths, 0.2, 1.0};
  pairwise_loss second{stretched, 0.2, 1.0};
  CHECK(first(scores, a) == second(scores, b));
  CHECK(a == b);
  CHECK(first.pairs() == 3);
  const std::vector<float> equal{5, 5, 5};
  pairwise_loss none{equal, 0.0, 1.0};
  CHECK(none.pairs() == 0);
  CHECK(none(scores, a) == 0);
  CHECK(a == std::vector<double>{0, 0, 0});
}

TEST_CASE("ListMLE is the likelihood of drawing the true order") {
  const std::vector<float> lengths{10, 30, 20};
  const std::vector<float> scores{0.1f, 0.7f, -0.4f};
  const double e0 = std::exp(static_cast<double>(scores[0]));
  const double e1 = std::exp(static_cast<double>(scores[1]));
  const double e2 = std::exp(static_cast<double>(scores[2]));
  listwise_loss loss{lengths};
  std::vector<double> gradient(3);
  // Longest first: 1, 2, 0.
  CHECK(loss(scores, gradient) == approx(-std::log(e1 / (e0 + e1 + e2) * (e2 / (e0 + e2))) / 3));
  CHECK(gradient[1] == approx((e1 / (e0 + e1 + e2) - 1) / 3));
  CHECK(gradient[2] == approx((e2 / (e0 + e1 + e2) + e2 / (e0 + e2) - 1) / 3));
  CHECK(gradient[0] == approx((e0 / (e0 + e1 + e2) + e0 / (e0 + e2)) / 3));
}

TEST_CASE("ListMLE survives scores far apart") {
  std::vector<float> lengths;
  std::vector<float> scores;
  for (int i = 0; i != 50; ++i) {
    lengths.push_back(static_cast<float>(i));
    scores.push_back(static_cast<float>(i % 2 == 0 ? i : -i) * 100.0f);
  }
  listwise_loss loss{lengths};
  std::vector<double> gradient(scores.size());
  CHECK(std::isfinite(loss(scores, gradient)));
  for (const double g : gradient) REQUIRE(std::isfinite(g));
}

TEST_CASE("gradients agree with differences") {
  std::mt19937 random{5};
  for (int round = 0; round != 10; ++round) {
    const sample s = draw(random, 12);
    listwise_loss list{s.lengths};
    check_gradient_by_differences(list, s.scores);
    pointwise_loss point{s.lengths, length_unit::of(s.lengths), 0.1};
    check_gradient_by_differences(point, s.scores);
  }
}

TEST_CASE("the pointwise loss is the mean absolute error, in deviations from the median") {
  const std::vector<float> lengths{10, 20, 60};
  const length_unit unit = length_unit::of(lengths);
  CHECK(unit.median == 20);
  CHECK(unit.deviation == approx(50.0 / 3));
  pointwise_loss loss{lengths, unit, 1e-9};
  std::vector<double> gradient(3);
  const std::vector<float> scores{0, 1, 2};
  const double expected = ((10 / unit.deviation) + 1 + std::abs(2 - 40 / unit.deviation)) / 3;
  CHECK(loss(scores, gradient) == approx(expected));
  CHECK(gradient[0] == approx(1.0 / 3));
  CHECK(gradient[1] == approx(1.0 / 3));
  CHECK(gradient[2] == approx(-1.0 / 3));
  const std::vector<float> same{7, 7};
  CHECK(length_unit::of(same).deviation == 1);
  CHECK(length_unit::of({}).median == 0);
}

}  // namespace
