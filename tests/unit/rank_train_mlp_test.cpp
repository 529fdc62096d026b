// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/rank/dense.hpp>
#include <tessera/rank/train_mlp.hpp>

#include "support/catch.hpp"

#include <array>
#include <cmath>
#include <random>

namespace {

using namespace tessera::rank;

/// The length depends on the product of two coordinates: no linear score can order it.
dataset product_problem(std::size_t n, unsigned seed) {
  const dense_features f{2};
  dataset data{f};
  std::mt19937 random{seed};
  std::uniform_real_distribution<float> uniform{-1, 1};
  for (std::size_t i = 0; i != n; ++i) {
    const std::array<float, 2> x{uniform(random), uniform(random)};
    data.add(f, x, std::exp(4.0f + 2 * x[0] * x[1]));
  }
  return data;
}

mlp_options options() {
  mlp_options o;
  o.batch = 64;
  o.epochs = 60;
  o.patience = 20;
  o.learning_rate = 0.1;
  o.decay = 0;
  o.base.delta = 0;
  return o;
}

TEST_CASE("a hidden layer orders what a linear model cannot, by each loss") {
  const dataset data = product_problem(500, 1);
  const dataset fresh = product_problem(300, 2);
  const linear_training line = train_linear(data, data.all_rows(), train_options{});
  CHECK(std::abs(evaluate(line.model(), fresh, fresh.all_rows()).tau) < 0.2);
  for (const auto goal : {objective::pairwise, objective::pointwise, objective::listwise}) {
    mlp_options o = options();
    o.base.goal = goal;
    const mlp_training t = train_mlp(data, data.all_rows(), o);
    CHECK(evaluate(t.model(), fresh, fresh.all_rows()).tau > 0.75);
    CHECK(t.epochs >= 1);
    CHECK(t.curve.back().refit);
  }
}

TEST_CASE("an epoch without an order does not take the place of one with a good one") {
  // Steps so large that after some epochs all hidden units are dead: every prompt has the same score.
  const dense_features f{4};
  dataset data{f};
  random_bits random{3};
  std::array<float, 4> x{};
  for (int i = 0; i != 400; ++i) {
    for (float& v : x) v = random.symmetric();
    data.add(f, x, 500 + 400 * x[0] + 50 * random.symmetric());
  }
  std::size_t without = 0;
  for (const auto goal : {objective::pairwise, objective::pointwise, objective::listwise}) {
    mlp_options o;
    o.base.goal = goal;
    o.base.seed = 2;
    o.hidden = 2;
    o.learning_rate = 1;
    o.decay = 1;
    o.epochs = 15;
    o.batch = 32;
    o.patience = 3;
    const mlp_training t = train_mlp(data, data.all_rows(), o);
    double best = -2;
    std::size_t at = 0;
    for (const curve_point& p : t.curve) {
      if (p.refit) continue;
      without += std::isnan(p.validation_tau);
      if (p.validation_tau > best) best = p.validation_tau, at = p.iteration;
    }
    CHECK(t.epochs == at);
    CHECK(t.validation_tau == best);
  }
  CHECK(without > 0);
}

TEST_CASE("training a hidden layer repeats itself") {
  const dataset data = product_problem(120, 3);
  mlp_options o = options();
  o.epochs = 5;
  const mlp_training a = train_mlp(data, data.all_rows(), o);
  const mlp_training b = train_mlp(data, data.all_rows(), o);
  CHECK(a.weights == b.weights);
  o.base.seed = 9;
  CHECK(train_mlp(data, data.all_rows(), o).weights != a.weights);
}

TEST_CASE("the search for the number of epochs stops when it does not get better") {
  const dataset data = product_problem(60, 4);
  mlp_options o = options();
  o.epochs = 200;
  o.patience = 2;
  const mlp_training t = train_mlp(data, data.all_rows(), o);
  std::size_t searched = 0;
  for (const curve_point& p : t.curve) searched += !p.refit;
  CHECK(searched == std::min<std::size_t>(200, t.epochs + 2));
  CHECK(t.curve.size() == searched + t.epochs);
}

}  // namespace
