// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/error.hpp>
#include <tessera/sim/input/split_list.hpp>
#include <tessera/sim/measure/promise.hpp>
#include <tessera/sim/measure/request_record.hpp>
#include <tessera/sim/measure/slo.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

std::string to_string(const slo_bound& b) {
  return b.part < 1 ? fmt::format("{}_p{:g}", to_string(b.metric), 100 * b.part) : std::string{to_string(b.metric)};
}

std::string show_beside(double value, double bound) {
  std::string out;
  for (int digits = 4; digits <= 8; ++digits) {
    out = fmt::format("{:.{}g}", value, digits);
    if (value == bound || out != fmt::format("{:.{}g}", bound, digits)) break;
  }
  return out;
}

std::vector<slo_bound> parse_slo(std::string_view text) {
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

promise promise_of(std::span<const slo_bound> bounds) noexcept {
  promise p;
  for (const slo_bound& b : bounds) {
    if (b.metric == slo_metric::first_token || (b.metric == slo_metric::ttft && p.ttft_s == 0)) p.ttft_s = b.seconds;
    if (b.metric == slo_metric::tpot) p.tpot_s = b.seconds;
  }
  return p;
}

slo_report evaluate_slo(std::span<const slo_bound> bounds, std::span<const request_record> requests,
                        const measured_window& window) {
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
      // A request that has ended without this metric, as an answer of one token has no TPOT, keeps any bound.
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
    // The least value that the required number of requests keep: the objective is met if and only if it is within the
    // bound.
    const auto asked = static_cast<std::size_t>(std::ceil(bounds[i].part * count - 1e-9 * count));
    if (asked != 0 && asked <= values[i].size() && having[i] != 0) {
      const auto at = values[i].begin() + static_cast<std::ptrdiff_t>(asked - 1);
      std::nth_element(values[i].begin(), at, values[i].end());
      line.value = *at;
    }
    if (measured != 0) line.within = static_cast<double>(within[i]) / count;
    // The required number, whatever the rounding of a percentage of few.
    line.met = measured != 0 && static_cast<double>(within[i]) + 1e-9 * count >= bounds[i].part * count;
    report.met = report.met && line.met;
    report.lines.push_back(line);
  }
  if (measured == 0) return report;
  report.attainment = static_cast<double>(good) / count;
  if (window.length() > 0 && std::isfinite(window.length())) {
    // There is one gap less than there are requests, so the rate never exceeds the arrivals.
    const double arrivals_per_s = (count - 1) / window.length();
    report.goodput_requests_per_s = report.attainment * arrivals_per_s;
    report.goodput_tokens_per_s = tokens / count * arrivals_per_s;
  }
  return report;
}

}  // namespace sim
TESSERA_NAMESPACE_END
