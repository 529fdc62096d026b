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
/// Service-level objectives as their user says them, and how much of a run meets them.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// What an objective bounds.
enum class slo_metric { ttft, first_token, tpot, e2e, normalized_latency };

/// As in `--slo`, and as the columns of a report are called.
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

/// One objective: so many of the requests are to be within so many seconds.
struct slo_bound {
  slo_metric metric = slo_metric::ttft;  ///< Of what.
  double part = 1;                       ///< Of the requests that must keep it: 0.99 for `ttft_p99`, 1 for `ttft`.
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

/// As the user says it: `ttft_p99`, or `ttft` of all.
[[nodiscard]] std::string to_string(const slo_bound& b);

/// A value beside a bound, with as many digits as it takes to tell them apart: at least four, at most eight.
[[nodiscard]] std::string show_beside(double value, double bound);

/// Objectives from text such as `ttft_p99=2,tpot_p99=0.05`: a metric (ttft, first_token, tpot, e2e,
/// normalized_latency), perhaps with a percentile above 0 and below 100 (`_p50`, `_p99.9`), and seconds. Without a
/// percentile all requests are meant. `ttft` ends with the first answering token, `first_token` with the first of any
/// kind: they differ for requests that reason.
/// @throws usage_error
[[nodiscard]] std::vector<slo_bound> parse_slo(std::string_view text);

/// What policies are told of objectives: the bounds of the time to first token and of the time per output token. Where
/// both `first_token` and `ttft` are bounded, the promise is of the first.
[[nodiscard]] promise promise_of(std::span<const slo_bound> bounds) noexcept;

/// How much of a run meets its objectives. A request meets them if it was completed and is within every bound; the run
/// meets them if of each bound as many requests are within it as it asks for.
struct slo_report {
  /// One objective.
  struct line {
    slo_bound bound;       ///< What was asked for.
    double within = 0;     ///< Part of the requests that are within it. Rejected and unfinished ones are not.
    double value = never;  ///< What so many requests keep as it asks for, among all: those that have not ended keep
                           ///< nothing. NaN where not as many have, or where none that has ended has it at all (a
                           ///< TPOT of answers of one token): then it is met.
    bool met = false;      ///< Whether enough are.
  };
  std::vector<line> lines;                ///< One for each objective.
  bool met = false;                       ///< Whether all are.
  double attainment = never;              ///< Part of the requests that are within all bounds.
  double goodput_requests_per_s = never;  ///< The same part of the arrivals per second.
  double goodput_tokens_per_s = never;    ///< Their output tokens, likewise.
};

/// Holds the requests of a window against objectives. O(requests log requests) for each.
[[nodiscard]] slo_report evaluate_slo(std::span<const slo_bound> bounds, std::span<const request_record> requests,
                                      const measured_window& window);

}  // namespace sim
TESSERA_NAMESPACE_END
