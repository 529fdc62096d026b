// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/error.hpp>
#include <tessera/sim/input/split_list.hpp>
#include <tessera/sim/report/promise.hpp>
#include <tessera/sim/report/request_record.hpp>

#include <fmt/format.h>

#include <charconv>
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
[[nodiscard]] inline std::string to_string(const slo_bound& b) {
  return b.part < 1 ? fmt::format("{}_p{:g}", to_string(b.metric), 100 * b.part) : std::string{to_string(b.metric)};
}

/// A value beside a bound, with as many digits as it takes to tell them apart: at least four, at most eight.
[[nodiscard]] inline std::string show_beside(double value, double bound) {
  std::string out;
  for (int digits = 4; digits <= 8; ++digits) {
    out = fmt::format("{:.{}g}", value, digits);
    if (value == bound || out != fmt::format("{:.{}g}", bound, digits)) break;
  }
  return out;
}

/// Objectives from text such as `ttft_p99=2,tpot_p99=0.05`: a metric (ttft, first_token, tpot, e2e,
/// normalized_latency), perhaps with a percentile above 0 and below 100 (`_p50`, `_p99.9`), and seconds. Without a
/// percentile all requests are meant. `ttft` ends with the first answering token, `first_token` with the first of any
/// kind: they differ for requests that reason.
/// @throws usage_error
[[nodiscard]] inline std::vector<slo_bound> parse_slo(std::string_view text) {
  constexpr slo_metric metrics[] = {slo_metric::ttft, slo_metric::first_token, slo_metric::tpot, slo_metric::e2e,
                                    slo_metric::normalized_latency};
  const auto wrong = [&](std::string_view item) {
    return usage_error{
        fmt::format("--slo expects METRIC=SECONDS or METRIC_pPERCENTILE=SECONDS, comma-separated, as in "
                    "ttft_p99=2,tpot_p99=0.05; metrics are ttft (to the first answering token), first_token (of any "
                    "kind), tpot, e2e and normalized_latency, seconds above 0 and percentiles between 0 and 100; "
                    "found {}",
                    shown(item))};
  };
  const auto number = [](std::string_view digits, double& x) {
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), x);
    return failure == std::errc{} && end == digits.data() + digits.size() && std::isfinite(x) && x > 0;
  };
  std::vector<slo_bound> bounds;
  for (const std::string_view item : split_list(text)) {
    const std::size_t equals = item.find('=');
    if (equals == item.npos) throw wrong(item);
    const std::string_view name = item.substr(0, equals);
    slo_bound bound;
    bool known = false;
    for (const slo_metric m : metrics) {
      const std::string_view metric = to_string(m);
      if (name.substr(0, metric.size()) != metric) continue;
      const std::string_view rest = name.substr(metric.size());
      double percent = 100;
      if (!rest.empty()) {
        if (rest.substr(0, 2) != "_p" || !number(rest.substr(2), percent) || !(percent < 100)) throw wrong(item);
      }
      bound.metric = m;
      bound.part = percent / 100;
      known = true;
    }
    if (!known || !number(item.substr(equals + 1), bound.seconds)) throw wrong(item);
    for (const slo_bound& b : bounds) {
      if (b.metric == bound.metric) {
        throw usage_error{fmt::format("--slo names {} twice: one bound for each metric", to_string(b.metric))};
      }
    }
    bounds.push_back(bound);
  }
  return bounds;
}

/// What policies are told of objectives: the bounds of the time to first token and of the time per output token. Where
/// both `first_token` and `ttft` are bounded, the promise is of the first.
[[nodiscard]] inline promise promise_of(std::span<const slo_bound> bounds) noexcept {
  promise p;
  for (const slo_bound& b : bounds) {
    if (b.metric == slo_metric::first_token || (b.metric == slo_metric::ttft && p.ttft_s == 0)) p.ttft_s = b.seconds;
    if (b.metric == slo_metric::tpot) p.tpot_s = b.seconds;
  }
  return p;
}

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
[[nodiscard]] inline slo_report evaluate_slo(std::span<const slo_bound> bounds,
                                             std::span<const request_record> requests, const measured_window& window) {
  slo_report report;
  if (bounds.empty()) return report;
  std::size_t measured = 0;
  std::size_t good = 0;
  double tokens = 0;
  std::vector<std::size_t> within(bounds.size());
  std::vector<std::size_t> having(bounds.size());
  std::vector<std::vector<double>> values(bounds.size());
  for (const request_record& r : requests) {
    if (!window.contains(r.arrival)) continue;
    ++measured;
    bool all = r.completed();
    for (std::size_t i = 0; i != bounds.size(); ++i) {
      const double x = bounds[i].of(r);
      // One that has ended and lacks it, as an answer of one token its time per token, keeps any bound.
      if (r.completed()) values[i].push_back(std::isnan(x) ? 0 : x);
      having[i] += r.completed() && !std::isnan(x) ? 1U : 0U;
      const bool one = r.completed() && !(x > bounds[i].seconds);
      within[i] += one ? 1U : 0U;
      all = all && one;
    }
    if (!all) continue;
    ++good;
    tokens += static_cast<double>(r.output_tokens());
  }
  report.met = measured != 0;
  const auto count = static_cast<double>(measured);
  for (std::size_t i = 0; i != bounds.size(); ++i) {
    slo_report::line line{.bound = bounds[i]};
    // The least that as many keep as asked for: met if and only if it is within the bound.
    const auto asked = static_cast<std::size_t>(std::ceil(bounds[i].part * count - 1e-9 * count));
    if (asked != 0 && asked <= values[i].size() && having[i] != 0) {
      const auto at = values[i].begin() + static_cast<std::ptrdiff_t>(asked - 1);
      std::nth_element(values[i].begin(), at, values[i].end());
      line.value = *at;
    }
    if (measured != 0) line.within = static_cast<double>(within[i]) / count;
    // As many as asked for, whatever the rounding of a percentage of few.
    line.met = measured != 0 && static_cast<double>(within[i]) + 1e-9 * count >= bounds[i].part * count;
    report.met = report.met && line.met;
    report.lines.push_back(line);
  }
  if (measured == 0) return report;
  report.attainment = static_cast<double>(good) / count;
  if (window.length() > 0 && std::isfinite(window.length())) {
    // Between the first arrival and the last there is one gap less than there are requests: never more than arrive.
    const double arrivals_per_s = (count - 1) / window.length();
    report.goodput_requests_per_s = report.attainment * arrivals_per_s;
    report.goodput_tokens_per_s = tokens / count * arrivals_per_s;
  }
  return report;
}

}  // namespace sim
TESSERA_NAMESPACE_END
