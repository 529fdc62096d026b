// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/cost/fit.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using namespace tessera::cost;

TEST_CASE("batch features are the sums over the batch, whatever came and went") {
  std::mt19937 random{1};
  batch_features f;
  std::vector<request_lengths> batch;
  for (int step = 0; step != 20000; ++step) {
    const auto what = random() % 4;
    if (batch.empty() || what == 0) {
      const auto i = std::int64_t(random() % 100000);
      batch.push_back({tokens{i}, tokens{i + 1}});
      f.join(batch.back());
    } else if (what == 1 && batch.size() > 40) {
      const auto at = random() % batch.size();
      f.leave(batch[at]);
      batch[at] = batch.back();
      batch.pop_back();
    } else {
      const tokens by{std::int64_t(random() % 3)};
      batch[random() % batch.size()].length += by;
      f.grow(by);
    }
    if (step % 100 != 0) continue;
    std::int64_t i1 = 0;
    std::int64_t i2 = 0;
    std::int64_t l = 0;
    for (const auto& r : batch) {
      i1 += r.input.count();
      i2 += r.input.count() * r.input.count();
      l += r.length.count();
    }
    REQUIRE(f.requests() == std::int64_t(batch.size()));
    REQUIRE(f.input() == tokens{i1});
    REQUIRE(f.input_squared() == i2);
    REQUIRE(f.length() == tokens{l});
    REQUIRE(f.features() == feature_vector{1, double(batch.size()), double(i1), double(i2), double(l)});
  }
  while (!batch.empty()) {
    f.leave(batch.back());
    batch.pop_back();
  }
  CHECK(f == batch_features{});
}

TEST_CASE("Q is n times what each request experiences") {
  const qoe_model m{{1, 2, 3, 4, 5}};
  batch_features b;
  CHECK(m.batch(b) == 0);
  b.join({2_tok, 3_tok});
  b.join({1_tok, 7_tok});
  // 1 + 2 * 2 + 3 * 3 + 4 * 5 + 5 * 10 = 84, for each of the two.
  CHECK(m.per_request(b.features()) == 84);
  CHECK(m.batch(b) == 168);
  CHECK(m.load({2_tok, 3_tok}) + m.load({1_tok, 7_tok}) == 83);
  CHECK(m.valid());
  CHECK_FALSE(qoe_model{{0, 0, -1e-300, 0, 0}}.valid());
  CHECK_FALSE(qoe_model{{0, 0, std::nan(""), 0, 0}}.valid());
  CHECK_FALSE(qoe_model{{0, 0, 0, 0, INFINITY}}.valid());
  CHECK(qoe_model{}.valid());
  CHECK(transfer_cost{2, 3}(5_tok) == 17);
  CHECK_FALSE(transfer_cost{-1, 0}.valid());
  CHECK_FALSE(transfer_cost{0, std::nan("")}.valid());
}

using rows_type = std::vector<std::pair<std::array<double, 5>, double>>;

double residual(const rows_type& rows, const std::array<double, 5>& x) {
  double sum = 0;
  for (const auto& [a, b] : rows) {
    double d = b;
    for (std::size_t c = 0; c != 5; ++c) d -= a[c] * x[c];
    sum += d * d;
  }
  return sum;
}

/// Least squares in the columns of `mask` by Gaussian elimination with pivoting on the normal equations.
bool normal_equations(const rows_type& rows, unsigned mask, std::array<double, 5>& x) {
  std::vector<std::size_t> in;
  for (std::size_t c = 0; c != 5; ++c) {
    if ((mask >> c & 1) != 0) in.push_back(c);
  }
  const std::size_t n = in.size();
  std::vector<std::vector<long double>> g(n, std::vector<long double>(n + 1, 0));
  for (const auto& [a, b] : rows) {
    for (std::size_t i = 0; i != n; ++i) {
      for (std::size_t j = 0; j != n; ++j) g[i][j] += static_cast<long double>(a[in[i]]) * a[in[j]];
      g[i][n] += static_cast<long double>(a[in[i]]) * b;
    }
  }
  for (std::size_t i = 0; i != n; ++i) {
    std::size_t pivot = i;
    for (std::size_t k = i; k != n; ++k) {
      if (std::fabs(g[k][i]) > std::fabs(g[pivot][i])) pivot = k;
    }
    if (std::fabs(g[pivot][i]) < 1e-12L) return false;
    std::swap(g[i], g[pivot]);
    for (std::size_t k = 0; k != n; ++k) {
      if (k == i) continue;
      const long double by = g[k][i] / g[i][i];
      for (std::size_t j = i; j <= n; ++j) g[k][j] -= by * g[i][j];
    }
  }
  x = {};
  for (std::size_t i = 0; i != n; ++i) x[in[i]] = static_cast<double>(g[i][n] / g[i][i]);
  return true;
}

TEST_CASE("non-negative least squares: the best of all 32 active sets, and the conditions of Kuhn and Tucker") {
  std::mt19937 random{2};
  std::normal_distribution<double> normal;
  int at_a_bound = 0;
  for (int round = 0; round != 5000; ++round) {
    rows_type rows(1 + random() % 12);
    const bool duplicate = round % 5 == 0;  // two columns alike: no unique solution
    const bool zero = round % 7 == 0;
    std::array<double, 5> truth{};
    for (double& t : truth) t = std::max(0.0, normal(random));
    for (auto& [a, b] : rows) {
      for (double& x : a) x = normal(random) + (round % 2 == 0 ? 2 : 0);
      if (duplicate) a[3] = a[1];
      if (zero) a[2] = 0;
      b = round % 3 == 0 ? normal(random) : 0.1 * normal(random);
      for (std::size_t c = 0; c != 5; ++c) b += round % 3 == 0 ? 0 : truth[c] * a[c];
    }
    least_squares<5> squares;
    std::size_t allocations = 0;
    std::array<double, 5> x{};
    {
      tessera_test::no_allocation guard;
      for (const auto& [a, b] : rows) squares.add(a, b);
      x = squares.solve_nonnegative();
      allocations = guard.allocations();
    }
    INFO("round " << round);
    REQUIRE(allocations == 0);
    const double found = residual(rows, x);
    const double scale = residual(rows, {}) + 1;
    REQUIRE(squares.residual(x) == tessera_test::approx(found).epsilon(1e-9).margin(1e-9 * scale));
    double least = residual(rows, {});
    for (unsigned mask = 1; mask != 32; ++mask) {
      std::array<double, 5> y{};
      if (!normal_equations(rows, mask, y)) continue;
      if (std::all_of(y.begin(), y.end(), [](double v) { return v >= 0; })) least = std::min(least, residual(rows, y));
    }
    REQUIRE(found <= least + 1e-8 * scale);
    for (std::size_t c = 0; c != 5; ++c) {
      REQUIRE(x[c] >= 0);
      double gradient = 0;
      double length = 0;
      for (const auto& [a, b] : rows) {
        double d = -b;
        for (std::size_t k = 0; k != 5; ++k) d += a[k] * x[k];
        gradient += a[c] * d;
        length += a[c] * a[c];
      }
      REQUIRE(gradient >= -1e-7 * std::sqrt(length * scale));
      if (x[c] > 0) REQUIRE(std::fabs(gradient) <= 1e-7 * std::sqrt(length * scale));
      if (x[c] == 0) ++at_a_bound;
    }
  }
  CHECK(at_a_bound > 5000);
}

TEST_CASE("least squares finds coefficients of very different sizes again") {
  std::mt19937 random{3};
  const qoe_model truth{{8e-3, 3e-5, 2e-7, 1e-12, 5e-8}};
  std::vector<profile_row> rows(400);
  for (auto& row : rows) {
    batch_features b;
    for (auto n = 1 + random() % 200; n != 0; --n) {
      const auto i = std::int64_t(100 + random() % (1 << (7 + random() % 9)));
      b.join({tokens{i}, tokens{i + 1 + std::int64_t(random() % 2000)}});
    }
    row = {b.features(), truth.per_request(b.features())};
  }
  for (const bool relative : {true, false}) {
    fit_result r;
    REQUIRE(fit(rows, {.relative = relative}, r) == status::ok);
    for (std::size_t c = 0; c != 5; ++c) CHECK(r.model.d[c] == tessera_test::approx(truth.d[c]).epsilon(1e-6));
    CHECK(r.held_out_error < 1e-9);
    CHECK(r.constant_error > 0.1);
    CHECK(r.training_rows + r.held_out_rows == 400);
    CHECK(r.held_out_rows > 40);
  }
}

TEST_CASE("rows that cannot be fitted are refused, and the result is left alone") {
  fit_result r;
  r.training_rows = 77;
  CHECK(fit({}, {}, r) == status::invalid);
  std::vector<profile_row> rows{{{1, 1, 10, 100, 20}, 0.5}, {{1, 2, 20, 200, 40}, 0.6}, {{1, 1, 30, 900, 40}, 0.7}};
  CHECK(fit(rows, {.held_out_one_in = 1}, r) == status::invalid);
  for (const double bad : {0.0, -1.0, std::nan(""), double(INFINITY), 1e200}) {
    auto wrong = rows;
    wrong[1].latency = bad;
    CHECK(fit(wrong, {}, r) == status::invalid);
    if (bad == 0) continue;
    wrong = rows;
    wrong[2].load[3] = bad;
    CHECK(fit(wrong, {}, r) == status::invalid);
  }
  CHECK(r.training_rows == 77);
  CHECK(fit(rows, {.held_out_one_in = 1000}, r) == status::ok);
  CHECK(r.model.valid());
}

TEST_CASE("least squares: without a column that depends on others it is the solution of the rest") {
  std::mt19937_64 random{11};
  std::uniform_real_distribution<double> any{0.5, 8};
  for (int round = 0; round != 2000; ++round) {
    least_squares<3> both;
    least_squares<2> alone;
    std::vector<std::pair<std::array<double, 3>, double>> rows;
    const double times = any(random);
    for (int i = 0; i != 6; ++i) {
      const double a = any(random), c = any(random), b = any(random);
      both.add({a, times * a, c}, b);
      alone.add({a, c}, b);
      rows.push_back({{a, times * a, c}, b});
    }
    const auto x = both.solve({true, true, true});
    const auto y = alone.solve({true, true});
    CAPTURE(round, times, x[0], x[1], x[2], y[0], y[1]);
    REQUIRE(x[0] + times * x[1] == tessera_test::approx(y[0]).epsilon(1e-6).margin(1e-9));
    REQUIRE(x[2] == tessera_test::approx(y[1]).epsilon(1e-6).margin(1e-9));
  }
}

}  // namespace
