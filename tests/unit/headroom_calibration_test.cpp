// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/headroom/calibration.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::headroom;
using tessera_test::approx;

using rows = std::vector<prefill_sample>;

double residual(const rows& data, double a, double b) {
  double sum = 0;
  for (const prefill_sample& r : data) {
    const auto l = static_cast<double>(r.length.count());
    sum += (r.seconds - a * l * l - b * l) * (r.seconds - a * l * l - b * l);
  }
  return sum;
}

/// Textbook: the normal equations by Cramer's rule, in long double; then the bounds by trying them.
struct fit {
  double a = 0;
  double b = 0;
};
fit by_normal_equations(const rows& data) {
  long double s4 = 0, s3 = 0, s2 = 0, y2 = 0, y1 = 0;
  for (const prefill_sample& r : data) {
    const auto l = static_cast<long double>(r.length.count());
    const auto y = static_cast<long double>(r.seconds);
    s4 += l * l * l * l;
    s3 += l * l * l;
    s2 += l * l;
    y2 += l * l * y;
    y1 += l * y;
  }
  const long double det = s4 * s2 - s3 * s3;
  const fit plain{static_cast<double>((y2 * s2 - y1 * s3) / det), static_cast<double>((y1 * s4 - y2 * s3) / det)};
  if (plain.a >= 0 && plain.b >= 0) return plain;
  const fit only_square{static_cast<double>(y2 / s4), 0};
  const fit only_linear{0, static_cast<double>(y1 / s2)};
  return residual(data, only_square.a, 0) < residual(data, 0, only_linear.b) ? only_square : only_linear;
}

rows measured(double a, double b, double noise, std::size_t n, std::mt19937& random) {
  std::uniform_int_distribution<std::int64_t> length{128, 8192};
  std::normal_distribution<double> error{0, noise};
  rows data;
  for (std::size_t i = 0; i != n; ++i) {
    const tokens l{length(random)};
    const auto x = static_cast<double>(l.count());
    data.push_back({l, std::fmax(0.0, (a * x * x + b * x) * (1 + error(random)))});
  }
  return data;
}

TEST_CASE("calibration: exact data give the coefficients back, with R^2 of 1") {
  const double peak = 121e12;
  const prefill_cost truth{.alpha = 2.0e5, .beta = 1.5e10, .model_scale = 1.25};
  rows data;
  for (const std::int64_t l : {128, 256, 512, 1024, 2048, 4096, 8192}) {
    data.push_back({tokens{l}, truth.flops(tokens{l}) / peak});
  }
  const calibration c = calibrate(data, peak, 1.25);
  REQUIRE(ok(c.status));
  CHECK(c.cost.alpha == approx(truth.alpha).epsilon(1e-9));
  CHECK(c.cost.beta == approx(truth.beta).epsilon(1e-9));
  CHECK(c.cost.model_scale == 1.25);
  CHECK(c.r_squared == approx(1.0).epsilon(1e-12));
  CHECK(c.rows == 7);
  CHECK_FALSE(c.bounded);
  // Two rows determine it.
  const calibration two = calibrate(std::span{data}.first(2), peak, 1.25);
  REQUIRE(ok(two.status));
  CHECK(two.cost.alpha == approx(truth.alpha).epsilon(1e-9));
}

TEST_CASE("calibration: as the normal equations on noisy data, bounded or not") {
  std::mt19937 random{3};
  int bounded = 0;
  for (int round = 0; round != 400; ++round) {
    // From steep squares over none to the opposite curvature, which pushes a coefficient below 0.
    const double a = (static_cast<double>(round % 20) - 5) * 1e-9;
    const double b = round % 7 == 0 ? -1e-6 : 4e-5;
    const rows data = measured(a, b, 0.05, 3 + static_cast<std::size_t>(round), random);
    const calibration c = calibrate(data, 1.0);
    REQUIRE(ok(c.status));
    const fit want = by_normal_equations(data);
    const double scale = std::fabs(want.a) + 1e-12;
    CHECK(c.cost.alpha == approx(want.a).epsilon(1e-6).margin(scale * 1e-6));
    CHECK(c.cost.beta == approx(want.b).epsilon(1e-6).margin(1e-14));
    CHECK(c.cost.alpha >= 0);
    CHECK(c.cost.beta >= 0);
    bounded += c.bounded;
    // No fit near it is better.
    const double least = residual(data, c.cost.alpha, c.cost.beta);
    for (const double da : {0.99, 1.0, 1.01}) {
      for (const double db : {0.99, 1.0, 1.01}) {
        CHECK(residual(data, c.cost.alpha * da, c.cost.beta * db) >= least * (1 - 1e-9));
      }
    }
  }
  CHECK(bounded > 20);
  CHECK(bounded < 380);
}

TEST_CASE("calibration: R^2 by its definition") {
  std::mt19937 random{4};
  const rows data = measured(2e-9, 4e-5, 0.1, 200, random);
  const calibration c = calibrate(data, 5e12);
  double mean = 0;
  for (const auto& r : data) mean += r.seconds / 200;
  double total = 0;
  for (const auto& r : data) total += (r.seconds - mean) * (r.seconds - mean);
  const double want = 1 - residual(data, c.cost.alpha / 5e12, c.cost.beta / 5e12) / total;
  CHECK(c.r_squared == approx(want).epsilon(1e-9));
  CHECK(c.r_squared > 0.9);
  CHECK(c.r_squared < 1.0);
  // The same time for every length: nothing to explain.
  CHECK(calibrate(rows{{tokens{10}, 1.0}, {tokens{20}, 1.0}}, 1.0).r_squared == 0.0);
}

TEST_CASE("calibration: what cannot be fitted says why") {
  const rows good{{tokens{100}, 1.0}, {tokens{200}, 2.5}};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  for (const double bad : {0.0, -1.0, nan, inf}) {
    CHECK(calibrate(good, bad).status == calibration_status::bad_scale);
    CHECK(calibrate(good, 1.0, bad).status == calibration_status::bad_scale);
  }
  CHECK(calibrate({}, 1.0).status == calibration_status::too_few_rows);
  CHECK(calibrate(std::span{good}.first(1), 1.0).status == calibration_status::too_few_rows);
  const auto second = [&](tokens l, double s) {
    const rows data{good[0], {l, s}};
    const calibration c = calibrate(data, 1.0);
    CHECK(c.rows == 1);
    CHECK(c.cost.alpha == 0.0);
    CHECK(c.cost.beta == 0.0);
    return c.status;
  };
  for (const double bad : {nan, inf, -inf, -1e-9}) CHECK(second(tokens{200}, bad) == calibration_status::bad_row);
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-5}, longest_prompt.count() + 1}) {
    CHECK(second(tokens{bad}, 1.0) == calibration_status::bad_row);
  }
  const rows same(10, prefill_sample{tokens{512}, 0.1});
  CHECK(calibrate(same, 1.0).status == calibration_status::collinear);
  // One token apart is enough, with exact times.
  const rows close{{tokens{1000}, 1000.0 * 1000 + 1000}, {tokens{1001}, 1001.0 * 1001 + 1001}};
  const calibration c = calibrate(close, 1.0);
  REQUIRE(ok(c.status));
  CHECK(c.cost.alpha == approx(1.0).epsilon(1e-6));
  CHECK(c.cost.beta == approx(1.0).epsilon(1e-3));
  for (int s = 0; s <= 4; ++s) CHECK(std::string{to_string(static_cast<calibration_status>(s))} != "?");
}

TEST_CASE("calibration: allocates nothing") {
  std::mt19937 random{5};
  const rows data = measured(2e-9, 4e-5, 0.1, 100, random);
  const tessera_test::no_allocation guard;
  const calibration c = calibrate(data, 1.0);
  CHECK(guard.allocations() == 0);
  CHECK(ok(c.status));
}

}  // namespace
