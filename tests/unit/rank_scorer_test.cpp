// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/rank/mlp.hpp>
#include <tessera/rank/scorer.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <random>
#include <string>
#include <vector>

namespace {

using namespace tessera::rank;
using tessera_test::approx;

std::vector<float> random_weights(std::size_t n, unsigned seed) {
  std::mt19937 random{seed};
  std::vector<float> w(n);
  for (float& x : w) x = static_cast<float>(random() % 2001) * 1e-3f - 1.0f;
  return w;
}

TEST_CASE("a linear score is a dot product") {
  const auto w = random_weights(50, 1);
  const linear_model m{w, 0.75f};
  std::mt19937 random{2};
  for (int round = 0; round != 50; ++round) {
    std::vector<feature> x(random() % 30);
    double expected = 0.75;
    for (feature& f : x) {
      f = {static_cast<std::uint32_t>(random() % 50), static_cast<float>(random() % 100) * 0.01f};
      expected += static_cast<double>(w[f.index]) * static_cast<double>(f.value);
    }
    REQUIRE(static_cast<double>(score(m, x)) == approx(expected).margin(1e-5));
  }
  CHECK(score(m, {}) == 0.75f);
}

TEST_CASE("a hidden layer is what the formula says") {
  for (const std::size_t h : {std::size_t{1}, std::size_t{7}, mlp_model::max_hidden}) {
    const std::size_t d = 20;
    const auto w = random_weights(mlp_model::parameters(d, h), 3);
    const mlp_model m{w, d, h};
    std::mt19937 random{4};
    for (int round = 0; round != 20; ++round) {
      std::vector<feature> x(random() % 30);
      std::vector<double> dense(d, 0.0);
      for (feature& f : x) {
        f = {static_cast<std::uint32_t>(random() % d), static_cast<float>(random() % 100) * 0.01f};
        dense[f.index] += static_cast<double>(f.value);
      }
      double expected = static_cast<double>(w[d * h + 2 * h]);
      for (std::size_t k = 0; k != h; ++k) {
        double unit = static_cast<double>(w[d * h + k]);
        for (std::size_t i = 0; i != d; ++i) unit += dense[i] * static_cast<double>(w[i * h + k]);
        if (unit > 0) expected += unit * static_cast<double>(w[d * h + h + k]);
      }
      REQUIRE(static_cast<double>(score(m, x)) == approx(expected).margin(1e-4));
    }
  }
}

TEST_CASE("a scorer gives the score of the extracted features, and allocates nothing") {
  const hashed_features f{12};
  const auto w = random_weights(f.dimension(), 5);
  const auto v = random_weights(mlp_model::parameters(f.dimension(), 4), 6);
  const prompt_scorer linear{f, linear_model{w}};
  const prompt_scorer deep{f, mlp_model{v, f.dimension(), 4}};
  std::vector<feature> out(f.max_features());
  std::string text;
  for (int i = 0; i != 1000; ++i) {
    text += static_cast<char>(i * 37 % 256);
    if (i % 100 != 0) continue;
    tessera_test::no_allocation guard;
    const float a = linear(text);
    const float b = deep(text);
    const std::size_t n = extract(f, text, out);
    const auto allocations = guard.allocations();
    CHECK(allocations == 0);
    REQUIRE(a == score(linear.model(), std::span{out}.first(n)));
    REQUIRE(b == score(deep.model(), std::span{out}.first(n)));
  }
}

TEST_CASE("a scorer is a small value that can be copied") {
  std::vector<float> w(hashed_features{8}.dimension(), 0.5f);
  const prompt_scorer a{hashed_features{8}, linear_model{w, 1.0f}};
  const prompt_scorer b = a;
  CHECK(a("to be or not") == b("to be or not"));
  CHECK(a.features().bits() == 8);
  CHECK(sizeof a <= 64);
}

}  // namespace
