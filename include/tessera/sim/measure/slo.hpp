// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/error.hpp>
#include <tessera/sim/input/split_list.hpp>
#include <tessera/sim/measure/promise.hpp>
#include <tessera/sim/measure/request_record.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// Service-level objectives in the user's notation, and how much of a run meets them.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// What an objective bounds.
enum class slo_metric { ttft, first_token, tpot, e2e, normalized_latency };

/// As in `--slo`, and in the column names of a report.
[[nodiscard]] constexpr std::string_view to_string(slo_metric m) noexcept {
  switch (m) {
    case slo_metric::ttft: return "ttft";
    case slo_metric::first_token: return "first_token";
    case slo_metric::tpot: return "tpot";
    case slo_metric::e2e: return "e2e";
    case slo_metric::normalized_latency: return "normalized_latency";
  }
  return "?";
}

/// One objective: a fraction of the requests must be within a number of seconds.
struct slo_bound {
  slo_metric metric = slo_metric::ttft;  ///< The bounded metric.
  double part = 1;                       ///< The fraction of requests that must keep it: 0.99 for `ttft_p99`, 1 for
                                         ///< `ttft`.
  double seconds = 0;                    ///< The bound.

  /// The metric of one request. NaN if it has none (a TPOT of one token): then it keeps the bound.
  [[nodiscard]] double of(const request_record& r) const noexcept {
    switch (metric) {
      case slo_metric::ttft: return r.ttft();
      case slo_metric::first_token: return r.first_token_s();
      case slo_metric::tpot: return r.tpot();
      case slo_metric::e2e: return r.e2e();
      case slo_metric::normalized_latency: return r.normalized_latency();
    }
    return never;
  }
};

/// In the user's notation: `ttft_p99`, or `ttft` for all.
[[nodiscard]] std::string to_string(const slo_bound& b);

/// A value beside a bound, with enough digits to tell them apart: at least four, at most eight.
[[nodiscard]] std::string show_beside(double value, double bound);

/// Objectives from text such as `ttft_p99=2,tpot_p99=0.05`: a metric (ttft, first_token, tpot, e2e,
/// normalized_latency), an optional percentile (`_p50`, `_p99.9`), and seconds. A percentile is above 0 and below 100.
/// Without one, all requests are meant. `ttft` ends with the first answering token, `first_token` with the first of any
/// kind: they differ for requests that reason.
/// @throws usage_error
[[nodiscard]] std::vector<slo_bound> parse_slo(std::string_view text);

/// The promise that policies get from objectives: the bounds of the time to first token and of the time per output
/// token. If both `first_token` and `ttft` are bounded, the promise is that of `first_token`.
[[nodiscard]] promise promise_of(std::span<const slo_bound> bounds) noexcept;

/// How much of a run meets its objectives. A request meets them if it completed and is within every bound. A run meets
/// them if, for each bound, the required fraction of requests is within it.
struct slo_report {
  /// One objective.
  struct line {
    slo_bound bound;       ///< The objective.
    double within = 0;     ///< Fraction of the requests within it. Rejected and unfinished ones are not.
    double value = never;  ///< The metric at the required fraction of all requests; unfinished ones keep nothing. NaN
                           ///< if too few have ended. NaN as well if no ended request has the metric (TPOT of one-token
                           ///< answers): then it is met.
    bool met = false;      ///< Whether the required fraction is within it.
  };
  std::vector<line> lines;                ///< One for each objective.
  bool met = false;                       ///< Whether all are met.
  double attainment = never;              ///< Fraction of the requests within all bounds.
  double goodput_requests_per_s = never;  ///< The same fraction of the arrivals per second.
  double goodput_tokens_per_s = never;    ///< Their output tokens, likewise.
};

/// Judges the requests of a window by objectives. O(requests log requests) for each.
[[nodiscard]] slo_report evaluate_slo(std::span<const slo_bound> bounds, std::span<const request_record> requests,
                                      const measured_window& window);

}  // namespace sim
TESSERA_NAMESPACE_END
