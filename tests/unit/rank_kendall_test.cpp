// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/rank/kendall.hpp>

#include "support/catch.hpp"

#include <cmath>
#include <random>
#include <vector>

namespace {

using tessera::rank::kendall_result;
using tessera::rank::kendall_tau_b;
using tessera_test::approx;

/// The definition, pair by pair.
kendall_result by_definition(const std::vector<float>& x, const std::vector<float>& y) {
  kendall_result r;
  for (std::size_t i = 0; i != x.size(); ++i) {
    for (std::size_t j = 0; j != i; ++j) {
      ++r.pairs;
      r.tied_first += x[i] == x[j];
      r.tied_second += y[i] == y[j];
      if (x[i] == x[j] || y[i] == y[j]) continue;
      ((x[i] < x[j]) == (y[i] < y[j]) ? r.concordant : r.discordant) += 1;
    }
  }
  r.tau = static_cast<double>(r.concordant - r.discordant) /
          std::sqrt(static_cast<double>(r.pairs - r.tied_first) * static_cast<double>(r.pairs - r.tied_second));
  return r;
}

double jackknife_by_definition(const std::vector<float>& x, const std::vector<float>& y) {
  std::vector<double> taus;
  for (std::size_t out = 0; out != x.size(); ++out) {
    std::vector<float> a = x;
    std::vector<float> b = y;
    a.erase(a.begin() + static_cast<std::ptrdiff_t>(out));
    b.erase(b.begin() + static_cast<std::ptrdiff_t>(out));
    taus.push_back(by_definition(a, b).tau);
  }
  double mean = 0;
  for (const double t : taus) mean += t / static_cast<double>(taus.size());
  double squares = 0;
  for (const double t : taus) squares += (t - mean) * (t - mean);
  const auto n = static_cast<double>(taus.size());
  return std::sqrt(squares * (n - 1) / n);
}

TEST_CASE("tau-b: perfect, reversed and a worked example") {
  const std::vector<float> up{1, 2, 3, 4, 5};
  const std::vector<float> down{5, 4, 3, 2, 1};
  CHECK(kendall_tau_b(up, up).tau == approx(1.0));
  CHECK(kendall_tau_b(up, down).tau == approx(-1.0));
  CHECK(kendall_tau_b(up, up).standard_error == approx(0.0).margin(1e-12));
  // Pairs: (1,1) (1,2) (2,2) (3,1): concordant (1,1)-(2,2); discordant (1,2)-(3,1), (2,2)-(3,1).
  const std::vector<float> x{1, 1, 2, 3};
  const std::vector<float> y{1, 2, 2, 1};
  const kendall_result r = kendall_tau_b(x, y);
  CHECK(r.pairs == 6);
  CHECK(r.concordant == 1);
  CHECK(r.discordant == 2);
  CHECK(r.tied_first == 1);
  CHECK(r.tied_second == 2);
  CHECK(r.tau == approx(-1.0 / std::sqrt(5.0 * 4.0)));
}

TEST_CASE("tau-b is undefined without two different values") {
  CHECK(std::isnan(kendall_tau_b({}, {}).tau));
  const std::vector<float> one{1};
  CHECK(std::isnan(kendall_tau_b(one, one).tau));
  const std::vector<float> two{1, 2};
  CHECK(kendall_tau_b(two, two).tau == 1.0);
  CHECK(std::isnan(kendall_tau_b(two, two).standard_error));
  const std::vector<float> same{3, 3, 3};
  const std::vector<float> different{1, 2, 3};
  CHECK(std::isnan(kendall_tau_b(same, different).tau));
  CHECK(std::isnan(kendall_tau_b(different, same).tau));
}

TEST_CASE("tau-b agrees with the definition, with few and with many ties") {
  std::mt19937 random{7};
  for (int round = 0; round != 200; ++round) {
    const std::size_t n = 2 + random() % 60;
    const unsigned values = round % 3 == 0 ? 3 : round % 3 == 1 ? 20 : 1u << 20;
    std::vector<float> x(n);
    std::vector<float> y(n);
    for (std::size_t i = 0; i != n; ++i) {
      x[i] = static_cast<float>(random() % values) - 5.0f;
      y[i] = random() % 2 == 0 ? x[i] : static_cast<float>(random() % values);
    }
    const kendall_result a = kendall_tau_b(x, y);
    const kendall_result b = by_definition(x, y);
    REQUIRE(a.pairs == b.pairs);
    REQUIRE(a.concordant == b.concordant);
    REQUIRE(a.discordant == b.discordant);
    REQUIRE(a.tied_first == b.tied_first);
    REQUIRE(a.tied_second == b.tied_second);
    if (std::isnan(b.tau)) {
      REQUIRE(std::isnan(a.tau));
    } else {
      REQUIRE(a.tau == approx(b.tau));
    }
  }
}

TEST_CASE("the standard error is the jackknife's") {
  std::mt19937 random{11};
  for (int round = 0; round != 20; ++round) {
    const std::size_t n = 5 + random() % 30;
    std::vector<float> x(n);
    std::vector<float> y(n);
    for (std::size_t i = 0; i != n; ++i) {
      x[i] = static_cast<float>(random() % 9);
      y[i] = x[i] + static_cast<float>(random() % 9);
    }
    const double expected = jackknife_by_definition(x, y);
    if (std::isnan(expected)) continue;
    REQUIRE(kendall_tau_b(x, y).standard_error == approx(expected).margin(1e-9));
  }
}

}  // namespace
