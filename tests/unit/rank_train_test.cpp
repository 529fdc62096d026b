// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/rank/dense.hpp>
#include <tessera/rank/features.hpp>
#include <tessera/rank/train.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace tessera::rank;
using tessera_test::approx;

/// Points in 4 dimensions with a length that grows with x0 - 2 x1, with noise.
dataset dense_problem(std::size_t n, unsigned seed, float noise) {
  const dense_features f{4};
  dataset data{f};
  std::mt19937 random{seed};
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i != n; ++i) {
    const std::array<float, 4> x{normal(random), normal(random), normal(random), normal(random)};
    data.add(f, x, std::exp(3.0f + x[0] - 2 * x[1] + noise * normal(random)));
  }
  return data;
}

/// Short texts with a length that depends on two words.
dataset text_problem(std::size_t n, unsigned seed) {
  static constexpr std::array<const char*, 6> filler{"the", "cat", "sat", "under", "our", "table"};
  const hashed_features f{12};
  dataset data{f};
  std::mt19937 random{seed};
  for (std::size_t i = 0; i != n; ++i) {
    const bool essay = random() % 2 == 0;
    const bool code = random() % 2 == 0;
    std::string text = essay ? "essay" : "word";
    for (int k = 0; k != 5; ++k) text += std::string{" "} + filler[random() % filler.size()];
    if (code) text += " code";
    data.add(f, text,
             10.0f + 100.0f * static_cast<float>(essay) + 30.0f * static_cast<float>(code) +
                 static_cast<float>(random() % 20));
  }
  return data;
}

TEST_CASE("training finds the planted order, by each loss") {
  const dataset data = dense_problem(400, 1, 0.1f);
  const dataset fresh = dense_problem(300, 2, 0.1f);
  for (const auto goal : {objective::pairwise, objective::pointwise, objective::listwise}) {
    train_options o;
    o.goal = goal;
    const linear_training t = train_linear(data, data.all_rows(), o);
    const kendall_result r = evaluate(t.model(), fresh, fresh.all_rows());
    CHECK(r.tau > (goal == objective::pointwise ? 0.8 : 0.9));
    CHECK(t.validation_tau > 0.7);
    CHECK(t.weights[0] > 0);
    CHECK(t.weights[1] < 0);
  }
}

TEST_CASE("a penalty that leaves no order does not take the place of one that leaves a good one") {
  // With coordinates so large the second penalty leaves weights below the smallest float: every prompt has the score 0.
  const dense_features f{2};
  dataset data{f};
  random_bits random{5};
  for (int i = 0; i != 200; ++i) {
    const float a = random.symmetric();
    const float b = random.symmetric();
    data.add(f, std::array<float, 2>{1e18f * a, 1e18f * b}, 500 + 400 * a);
  }
  train_options o;
  o.penalties = {1, 1e30};
  const linear_training t = train_linear(data, data.all_rows(), o);
  std::size_t without = 0;
  for (const curve_point& p : t.curve) without += !p.refit && std::isnan(p.validation_tau);
  CHECK(without == 1);
  CHECK(t.penalty == 1);
  CHECK(t.validation_tau > 0.9);
  // If no penalty leaves an order, there is none to report.
  o.penalties = {1e30, 1e30};
  CHECK(std::isnan(train_linear(data, data.all_rows(), o).validation_tau));
}

TEST_CASE("where too few rows are held out to have an order the strongest penalty stays") {
  const dense_features f{2};
  dataset data{f};
  for (int i = 0; i != 5; ++i) {
    data.add(f, std::array<float, 2>{static_cast<float>(i), static_cast<float>(i % 2)},
             static_cast<float>(100 * i + 1));
  }
  const train_options o;
  const linear_training t = train_linear(data, data.all_rows(), o);
  CHECK(std::isnan(t.validation_tau));
  CHECK(t.penalty == o.penalties.front());
}

TEST_CASE("training on text learns the words that matter") {
  const dataset data = text_problem(300, 3);
  const dataset fresh = text_problem(200, 4);
  const linear_training t = train_linear(data, data.all_rows(), train_options{});
  CHECK(evaluate(t.model(), fresh, fresh.all_rows()).tau > 0.7);
}

TEST_CASE("pointwise scores are tokens") {
  const dataset data = text_problem(400, 5);
  train_options o;
  o.goal = objective::pointwise;
  o.penalties = {0.1};
  o.final_steps = 200;
  const linear_training t = train_linear(data, data.all_rows(), o);
  const auto rows = data.all_rows();
  const auto scores = score_rows(t.model(), data, rows);
  double error = 0;
  for (const auto r : rows) error += std::abs(static_cast<double>(scores[r] - data.length(r)));
  CHECK(error / static_cast<double>(rows.size()) < 10);  // lengths span 10 to 160
}

TEST_CASE("the same seed gives the same model, another seed another split") {
  const dataset data = text_problem(200, 6);
  train_options o;
  const linear_training a = train_linear(data, data.all_rows(), o);
  const linear_training b = train_linear(data, data.all_rows(), o);
  CHECK(a.weights == b.weights);
  CHECK(a.penalty == b.penalty);
  CHECK(a.curve.size() == b.curve.size());
  o.seed = 2;
  const linear_training c = train_linear(data, data.all_rows(), o);
  CHECK(c.curve.front().loss != a.curve.front().loss);
}

TEST_CASE("the result is a minimum of the penalised loss over all pairs") {
  const dataset data = dense_problem(40, 7, 2.0f);
  train_options o;
  o.penalties = {4};
  o.final_steps = 500;
  const linear_training t = train_linear(data, data.all_rows(), o);
  // The objective on raw features, pair by pair. Everything is scaled to rows of mean square 1.
  double squares = 0;
  for (const auto r : data.all_rows()) {
    for (const feature& f : data.row(r)) squares += static_cast<double>(f.value) * static_cast<double>(f.value);
  }
  const double scale = std::sqrt(40.0 / squares);
  const auto value = [&](const std::vector<float>& w) {
    const auto s = score_rows(linear_model{w}, data, data.all_rows());
    double loss = 0;
    double pairs = 0;
    for (std::size_t a = 0; a != 40; ++a) {
      for (std::size_t b = 0; b != 40; ++b) {
        if (!(data.length(a) > data.length(b)) || !informative(data.length(a), data.length(b), o.delta)) continue;
        ++pairs;
        loss += std::max(0.0, 1.0 - static_cast<double>(s[a] - s[b]));
      }
    }
    double norm = 0;
    for (const float x : w) norm += static_cast<double>(x) / scale * (static_cast<double>(x) / scale);
    return loss / pairs + 0.5 * (4.0 / 40) * norm;
  };
  const double best = value(t.weights);
  CHECK(best < value({0, 0, 0, 0}));
  std::mt19937 random{8};
  std::normal_distribution<float> normal;
  for (int round = 0; round != 300; ++round) {
    auto w = t.weights;
    const float size = std::pow(10.0f, -static_cast<float>(round % 4));
    for (float& x : w) x += size * normal(random);
    REQUIRE(value(w) > best - 1e-4);
  }
}

TEST_CASE("the learning curve is reported as it grows") {
  const dataset data = text_problem(100, 9);
  train_options o;
  std::size_t calls = 0;
  o.progress = [&](const curve_point&) { ++calls; };
  const linear_training t = train_linear(data, data.all_rows(), o);
  CHECK(calls == t.curve.size());
  CHECK_FALSE(t.curve.front().refit);
  CHECK(t.curve.back().refit);
  CHECK(t.curve.back().penalty == t.penalty);
  o.penalties = {1.0};
  const linear_training fixed = train_linear(data, data.all_rows(), o);
  CHECK(fixed.curve.front().refit);
  CHECK(std::isnan(fixed.validation_tau));
}

TEST_CASE("degenerate data trains to something harmless") {
  const hashed_features f{8};
  dataset data{f};
  CHECK(train_linear(data, {}, train_options{}).weights == std::vector<float>(f.dimension(), 0.0f));
  for (int i = 0; i != 3; ++i) data.add(f, "the same", 7);
  for (const auto goal : {objective::pairwise, objective::pointwise, objective::listwise}) {
    train_options o;
    o.goal = goal;
    const linear_training t = train_linear(data, data.all_rows(), o);
    const auto s = score_rows(t.model(), data, data.all_rows());
    CHECK(s[0] == s[1]);
    CHECK(std::isfinite(s[0]));
  }
}

TEST_CASE("folds part the rows") {
  const dataset data = dense_problem(23, 10, 1);
  std::vector<int> held(23, 0);
  for (std::size_t k = 0; k != 5; ++k) {
    const row_split s = split_fold(data.all_rows(), 5, k, 99);
    CHECK(s.train.size() + s.held_out.size() == 23);
    CHECK((s.held_out.size() == 4 || s.held_out.size() == 5));
    for (const auto r : s.held_out) {
      ++held[r];
      CHECK(std::find(s.train.begin(), s.train.end(), r) == s.train.end());
    }
  }
  CHECK(held == std::vector<int>(23, 1));
  CHECK(split_fold(data.all_rows(), 5, 0, 1).held_out != split_fold(data.all_rows(), 5, 0, 2).held_out);
}

/// Given by hand; 0 to 3 are lexical.
struct two_words {
  using input_type = std::array<std::uint32_t, 3>;
  [[nodiscard]] std::size_t dimension() const noexcept { return 5; }
  [[nodiscard]] std::size_t lexical_dimension() const noexcept { return 4; }
  [[nodiscard]] std::size_t max_features() const noexcept { return 3; }
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return 1; }
  template <class Sink>
  void visit(input_type in, Sink&& sink) const noexcept {
    for (const auto i : in) sink(i, 1.0f);
  }
};

TEST_CASE("the design matrix merges, weighs and scales") {
  const two_words f;
  dataset data{f};
  data.add(f, {0, 0, 4}, 1);
  data.add(f, {0, 1, 4}, 2);
  data.add(f, {2, 1, 4}, 3);
  const design_matrix x{data, data.all_rows()};
  REQUIRE(x.columns() == 4);                    // feature 3 never occurs
  CHECK(x.index(0) == 4);                       // in all three
  const double idf2 = std::log(4.0 / 3.0) + 1;  // in two of three
  const double idf1 = std::log(4.0 / 2.0) + 1;
  const double squares = (4 * idf2 * idf2 + 1) + (2 * idf2 * idf2 + 1) + (idf1 * idf1 + idf2 * idf2 + 1);
  const double factor = std::sqrt(3 / squares);
  CHECK(static_cast<double>(x.scale(0)) == approx(factor));
  CHECK(static_cast<double>(x.scale(1)) == approx(factor * idf2));
  REQUIRE(x.row(0).size() == 2);
  CHECK(x.index(x.row(0)[1].column) == 0);
  CHECK(static_cast<double>(x.row(0)[1].value) == approx(2 * factor * idf2));
  const std::vector<float> w{1, 10, 100, 1000};
  std::vector<float> s(3);
  x.multiply(w, s);
  for (std::size_t i = 0; i != 3; ++i) {
    double expected = 0;
    for (const auto& e : x.row(i)) expected += static_cast<double>(e.value) * static_cast<double>(w[e.column]);
    CHECK(static_cast<double>(s[i]) == approx(expected));
  }
  const std::vector<double> g{1, 0, -2};
  std::vector<float> back(4, 0.0f);
  x.add_transposed(g, back);
  CHECK(static_cast<double>(back[0]) == approx(-factor));
}

}  // namespace
