// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/split_mix.hpp>
#include <tessera/core/status.hpp>
#include <tessera/cost/least_squares.hpp>
#include <tessera/cost/qoe_model.hpp>

#include <span>

TESSERA_NAMESPACE_BEGIN
namespace cost {

/// One measurement: the average load of the batches that a request was in, and the latency that it had.
struct profile_row {
  feature_vector load{};  ///< F0..F4; F0 is 1.
  double latency = 0;     ///< Seconds per output token: total time / output. Above 0.
};

/// Options of a fit.
struct fit_options {
  /// One row in this many is held out (drawn by `seed` and the row's index) and only measures the error. At least 2.
  std::size_t held_out_one_in = 5;
  std::uint64_t seed = 1;  ///< Chooses the rows that are held out.
  /// Minimise relative errors, so that short batches count as much as long ones; or absolute ones, as the paper does.
  bool relative = true;
};

/// A fitted model, and its errors.
struct fit_result {
  qoe_model model{};              ///< The coefficients.
  std::size_t training_rows = 0;  ///< Rows that were fitted.
  std::size_t held_out_rows = 0;  ///< Rows that were not.
  double training_error = 0;      ///< Mean of |predicted - measured| / measured over the rows that were fitted.
  double held_out_error = 0;      ///< The same over the rows that were not; 0 if there are none.
  double constant_error = 0;  ///< Over the same rows, the error of a predictor that always answers the mean latency of
                              ///< the fitted rows.
};

/// Fits D0..D4 >= 0 to measurements (CascadeInfer, section 4.1; non-negative as `qoe_model` says). O(rows), two passes,
/// allocates nothing, deterministic.
/// @return `invalid`, with `out` unchanged: no row to fit, a number that is not finite or negative, a latency of 0, or
/// `held_out_one_in` below 2.
[[nodiscard]] inline status fit(std::span<const profile_row> rows, const fit_options& options,
                                fit_result& out) noexcept {
  if (options.held_out_one_in < 2) return status::invalid;
  const auto held_out = [&](std::size_t i) noexcept {
    const std::uint64_t number = options.seed + (std::uint64_t{i} + 1) * tessera::detail::split_mix_step;
    return tessera::detail::split_mix(number) % options.held_out_one_in == 0;
  };
  constexpr double most = 1e100;  // products of two stay finite
  fit_result r;
  least_squares<5> squares;
  double mean = 0;
  for (std::size_t i = 0; i != rows.size(); ++i) {
    const profile_row& row = rows[i];
    if (!(row.latency >= 1 / most && row.latency <= most)) return status::invalid;
    for (const double f : row.load) {
      if (!(f >= 0 && f <= most)) return status::invalid;
    }
    if (held_out(i)) {
      ++r.held_out_rows;
      continue;
    }
    ++r.training_rows;
    mean += (row.latency - mean) / static_cast<double>(r.training_rows);
    feature_vector a = row.load;
    if (options.relative) {
      for (double& x : a) x /= row.latency;
    }
    squares.add(a, options.relative ? 1.0 : row.latency);
  }
  if (r.training_rows == 0) return status::invalid;
  r.model.d = squares.solve_nonnegative();
  if (!r.model.valid()) return status::invalid;
  for (std::size_t i = 0; i != rows.size(); ++i) {
    const double y = rows[i].latency;
    const double error = std::fabs(r.model.per_request(rows[i].load) - y) / y;
    if (held_out(i)) {
      r.held_out_error += error;
      r.constant_error += std::fabs(mean - y) / y;
    } else {
      r.training_error += error;
    }
  }
  r.training_error /= static_cast<double>(r.training_rows);
  if (r.held_out_rows != 0) {
    r.held_out_error /= static_cast<double>(r.held_out_rows);
    r.constant_error /= static_cast<double>(r.held_out_rows);
  }
  out = r;
  return status::ok;
}

}  // namespace cost
TESSERA_NAMESPACE_END
