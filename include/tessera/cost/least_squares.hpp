// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

/// @file
/// Non-negative least squares in a few unknowns, from a stream of rows.

TESSERA_NAMESPACE_BEGIN
namespace cost {

/// Minimises sum (a . x - b)^2 over x, or over x >= 0, for any number of rows (a, b) in `N` unknowns.
///
/// Rows are not kept: each is rotated into a triangle (Givens). It has the same least squares solutions as all rows
/// together and, unlike the normal equations, does not square their condition. 8 N (N + 3) / 2 bytes; allocates
/// nothing. Requires finite numbers.
template <std::size_t N>
class least_squares {
 public:
  using vector = std::array<double, N>;  ///< A row, or the coefficients.

  /// Takes a row. O(N^2).
  void add(vector a, double b) noexcept {
    for (std::size_t c = 0; c != N; ++c) {
      if (a[c] == 0) continue;
      const double h = std::hypot(r_[c][c], a[c]);
      const double cosine = r_[c][c] / h;
      const double sine = a[c] / h;
      for (std::size_t k = c; k != N; ++k) rotate(r_[c][k], a[k], cosine, sine);
      rotate(z_[c], b, cosine, sine);
    }
    rest_ += b * b;
  }

  /// From now on each row so far counts as if it, and its b, were `factor` times as long. `factor` is from 0 to 1.
  /// O(N^2).
  void fade(double factor) noexcept {
    for (vector& row : r_) {
      for (double& value : row) value *= factor;
    }
    for (double& value : z_) value *= factor;
    rest_ *= factor * factor;
  }

  /// The solution with x[c] = 0 wherever `free[c]` is false; also where the rows do not determine x[c]. O(N^3).
  [[nodiscard]] vector solve(const std::array<bool, N>& free) const noexcept {
    // The columns are brought to one length first: counts and sums of squares differ by many powers of ten.
    const vector scale = column_lengths();
    least_squares part;
    for (std::size_t row = 0; row != N; ++row) {
      vector a{};
      for (std::size_t c = row; c != N; ++c) a[c] = free[c] && scale[c] > 0 ? r_[row][c] / scale[c] : 0;
      part.add(a, z_[row]);
    }
    // If rounding left next to nothing of a column, its row has gathered the common part of later columns. Without the
    // column, that part belongs to their rows.
    for (std::size_t c = 0; c != N; ++c) {
      if (std::fabs(part.r_[c][c]) > dependent) continue;
      vector a = std::exchange(part.r_[c], vector{});
      a[c] = 0;
      part.add(a, std::exchange(part.z_[c], 0.0));
    }
    vector x{};
    for (std::size_t c = N; c-- != 0;) {
      if (!(std::fabs(part.r_[c][c]) > dependent)) continue;
      double sum = part.z_[c];
      for (std::size_t k = c + 1; k != N; ++k) sum -= part.r_[c][k] * x[k];
      x[c] = sum / part.r_[c][c];
    }
    for (std::size_t c = 0; c != N; ++c) {
      if (scale[c] > 0) x[c] /= scale[c];
    }
    return x;
  }

  /// The solution with no x[c] below 0: the active set method (Lawson and Hanson, Solving Least Squares Problems,
  /// chapter 23). Ties go to the lower index. At most a few rounds of O(N^3).
  [[nodiscard]] vector solve_nonnegative() const noexcept {
    const vector scale = column_lengths();
    double length = 0;
    for (const double z : z_) length += z * z;
    const double tolerance = 1e-13 * std::sqrt(length);
    std::array<bool, N> free{};
    std::array<bool, N> refused{};
    vector x{};
    for (std::size_t round = 0; round != std::size_t{4} << N; ++round) {
      const vector w = descent(x, scale);
      std::size_t enters = N;
      for (std::size_t c = 0; c != N; ++c) {
        if (!free[c] && !refused[c] && w[c] > tolerance && (enters == N || w[c] > w[enters])) enters = c;
      }
      if (enters == N) break;
      free[enters] = true;
      vector s = solve(free);
      if (!(s[enters] > 0)) {  // a descent by rounding alone
        free[enters] = false;
        refused[enters] = true;
        continue;
      }
      refused = {};
      for (;;) {
        double step = 1;
        std::size_t leaves = N;
        for (std::size_t c = 0; c != N; ++c) {
          if (!free[c] || s[c] > 0) continue;
          const double to_zero = x[c] > 0 ? x[c] / (x[c] - s[c]) : 0;
          if (leaves == N || to_zero < step) {
            step = to_zero;
            leaves = c;
          }
        }
        if (leaves == N) break;
        for (std::size_t c = 0; c != N; ++c) {
          if (!free[c]) continue;
          x[c] += step * (s[c] - x[c]);
          if (c == leaves || !(x[c] > 0)) {
            x[c] = 0;
            free[c] = false;
          }
        }
        s = solve(free);
      }
      x = s;
    }
    return x;
  }

  /// Sum over the rows of (a . x - b)^2. O(N^2).
  [[nodiscard]] double residual(const vector& x) const noexcept {
    double sum = rest_;
    for (std::size_t row = 0; row != N; ++row) {
      const double d = difference(row, x);
      sum += d * d;
    }
    return sum;
  }

 private:
  /// A column depends on the others if its part orthogonal to them, scaled to length 1, is shorter than this.
  static constexpr double dependent = 1e-11;

  static void rotate(double& r, double& a, double cosine, double sine) noexcept {
    const double above = cosine * r + sine * a;
    a = cosine * a - sine * r;
    r = above;
  }
  [[nodiscard]] double difference(std::size_t row, const vector& x) const noexcept {
    double d = z_[row];
    for (std::size_t c = row; c != N; ++c) d -= r_[row][c] * x[c];
    return d;
  }
  [[nodiscard]] vector column_lengths() const noexcept {
    vector scale{};
    for (std::size_t c = 0; c != N; ++c) {
      for (std::size_t row = 0; row <= c; ++row) scale[c] = std::hypot(scale[c], r_[row][c]);
    }
    return scale;
  }
  /// Minus half the gradient at x, for columns of length 1.
  [[nodiscard]] vector descent(const vector& x, const vector& scale) const noexcept {
    vector w{};
    for (std::size_t row = 0; row != N; ++row) {
      const double d = difference(row, x);
      for (std::size_t c = row; c != N; ++c) {
        if (scale[c] > 0) w[c] += r_[row][c] / scale[c] * d;
      }
    }
    return w;
  }

  std::array<vector, N> r_{};  // upper triangle
  vector z_{};                 // the rotated b
  double rest_ = 0;            // sum of squares that no x explains
};

}  // namespace cost
TESSERA_NAMESPACE_END
