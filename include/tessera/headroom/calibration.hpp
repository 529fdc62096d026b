// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/headroom/prefill_cost.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// alpha and beta from measured prefill times (Phasor, appendix B.2): least squares of seconds * P_peak on l^2 and P_m
/// l.

TESSERA_NAMESPACE_BEGIN
namespace headroom {

/// One prompt, computed alone.
struct prefill_sample {
  tokens length{};     ///< Prompt length.
  double seconds = 0;  ///< Measured time of the prefill.
};

/// The result of a fit.
enum class calibration_status : std::uint8_t {
  ok,
  bad_scale,     ///< Peak or model scale is not a finite number above 0.
  too_few_rows,  ///< Fewer than two.
  bad_row,       ///< A length outside 1 to `longest_prompt`, or a time that is negative or not finite. See `rows`.
  collinear,     ///< All lengths are (nearly) the same: the square cannot be told from the linear term.
};

/// Whether it is `ok`.
[[nodiscard]] constexpr bool ok(calibration_status s) noexcept { return s == calibration_status::ok; }

/// A lower-case name, for logs.
[[nodiscard]] constexpr const char* to_string(calibration_status s) noexcept {
  switch (s) {
    case calibration_status::ok: return "ok";
    case calibration_status::bad_scale: return "bad_scale";
    case calibration_status::too_few_rows: return "too_few_rows";
    case calibration_status::bad_row: return "bad_row";
    case calibration_status::collinear: return "collinear";
  }
  return "?";
}

/// A fit, or the reason why there is none.
struct calibration {
  calibration_status status = calibration_status::too_few_rows;  ///< Whether the other members are valid.
  prefill_cost cost{};                                           ///< All 0 without a fit.
  double r_squared = 0;  ///< 1 - residual / total squares about the mean; 0 if all times are equal. May be negative.
  bool bounded = false;  ///< Plain least squares had a negative coefficient: it is set to 0, and the other was fitted
                         ///< alone.
  std::size_t rows = 0;  ///< Rows used; with `bad_row` the index of the first bad one.
};

/// Fits the cost model. A negative coefficient would make longer prompts look cheaper somewhere, so both are kept at
/// least 0. If plain least squares has one below, the best fit on that bound is taken, which is the exact constrained
/// optimum. O(rows); allocates nothing. Lengths are scaled to at most 1 and the columns made orthogonal, so that the
/// squares of long prompts cost no digits.
[[nodiscard]] constexpr calibration calibrate(std::span<const prefill_sample> rows, double peak_flops,
                                              double model_scale = 1.0) noexcept {
  const auto positive = [](double x) { return x > 0 && x < 1e300; };
  if (!positive(peak_flops) || !positive(model_scale)) return {.status = calibration_status::bad_scale};
  if (rows.size() < 2) return {.status = calibration_status::too_few_rows, .rows = rows.size()};

  double longest = 0;
  for (std::size_t i = 0; i != rows.size(); ++i) {
    const prefill_sample& row = rows[i];
    // Written so that NaN is rejected.
    if (row.length < tokens{1} || row.length > longest_prompt || !(row.seconds >= 0 && row.seconds < 1e100)) {
      return {.status = calibration_status::bad_row, .rows = i};
    }
    const auto l = static_cast<double>(row.length.count());
    if (l > longest) longest = l;
  }

  // Fits seconds to x = l / longest and x^2; the peak and the scale are multiplied in at the end.
  double xx = 0, xs = 0, ss = 0, xy = 0, sy = 0, sum = 0;
  const auto scaled = [&](const prefill_sample& row) { return static_cast<double>(row.length.count()) / longest; };
  for (const prefill_sample& row : rows) {
    const double x = scaled(row);
    xx += x * x;
    xs += x * x * x;
    ss += x * x * x * x;
    xy += x * row.seconds;
    sy += x * x * row.seconds;
    sum += row.seconds;
  }
  // The part of x^2 that is orthogonal to x, computed row by row: the difference of sums would lose its digits.
  const double projection = xs / xx;
  double rest = 0, rest_y = 0;
  for (const prefill_sample& row : rows) {
    const double x = scaled(row);
    const double r = x * x - projection * x;
    rest += r * r;
    rest_y += r * row.seconds;
  }
  if (!(rest > 1e-14 * ss)) return {.status = calibration_status::collinear, .rows = rows.size()};

  double square = rest_y / rest;
  double linear = xy / xx - square * projection;
  const bool bounded = square < 0 || linear < 0;
  if (square < 0) {
    square = 0;
    linear = xy / xx;
  } else if (linear < 0) {
    linear = 0;
    square = sy / ss;
  }

  const double mean = sum / static_cast<double>(rows.size());
  double residual = 0, total = 0;
  for (const prefill_sample& row : rows) {
    const double x = scaled(row);
    const double miss = row.seconds - (square * x + linear) * x;
    residual += miss * miss;
    total += (row.seconds - mean) * (row.seconds - mean);
  }
  return {.status = calibration_status::ok,
          .cost = {.alpha = square * peak_flops / (longest * longest),
                   .beta = linear * peak_flops / (longest * model_scale),
                   .model_scale = model_scale},
          .r_squared = total > 0 ? 1.0 - residual / total : 0.0,
          .bounded = bounded,
          .rows = rows.size()};
}

}  // namespace headroom
TESSERA_NAMESPACE_END
