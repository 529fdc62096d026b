// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/input/json_text.hpp>
#include <tessera/sim/measure/metrics.hpp>
#include <tessera/sim/report/replicates.hpp>
#include <tessera/sim/report/report_json.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {
namespace detail {

nlohmann::ordered_json to_json(const distribution& d) {
  return {{"mean", d.mean}, {"p50", d.p50}, {"p90", d.p90}, {"p95", d.p95}, {"p99", d.p99}, {"max", d.max}};
}

nlohmann::ordered_json to_json(const slo_report& r) {
  using json = nlohmann::ordered_json;
  if (r.lines.empty()) return nullptr;
  json bounds = json::object();
  for (const slo_report::line& l : r.lines) {
    bounds[to_string(l.bound)] = {
        {"bound_s", l.bound.seconds}, {"value_s", l.value}, {"within", l.within}, {"met", l.met}};
  }
  return {{"met", r.met},
          {"attainment", r.attainment},
          {"goodput_requests_per_s", r.goodput_requests_per_s},
          {"goodput_tokens_per_s", r.goodput_tokens_per_s},
          {"bounds", std::move(bounds)}};
}

}  // namespace detail
}  // namespace sim

namespace sim {

nlohmann::ordered_json to_json(const summary& s) {
  using json = nlohmann::ordered_json;
  json bins = json::array();
  for (const tail_bin& b : s.ttft_by_reasoning_bin) {
    bins.push_back(json{{"bin", b.bin}, {"n", b.n}, {"stat", std::string{b.stat}}, {"value", b.value}});
  }
  json j{{"policy", s.policy},
         {"placement", s.placement},
         {"requests", s.requests},
         {"completed", s.completed},
         {"rejected", s.rejected},
         {"measured", s.measured},
         {"ttft", detail::to_json(s.ttft)},
         {"first_token", detail::to_json(s.first_token)},
         {"tpot", detail::to_json(s.tpot)},
         {"e2e", detail::to_json(s.e2e)},
         {"normalized_latency", detail::to_json(s.normalized_latency)},
         {"slo_violation_rate", s.slo_violation_rate},
         {"reasoning_share", s.reasoning_share},
         {"qoe_mean", s.qoe_mean},
         {"blocking_p99", s.blocking_p99},
         {"throughput_tokens_per_s", s.throughput_tokens_per_s},
         {"window", {{"seconds", s.window_s}, {"tokens_per_s", s.window_tokens_per_s}}},
         {"load", {{"state", std::string{to_string(s.load.state)}}, {"left_behind", s.load.left_behind}}},
         {"slo", detail::to_json(s.slo)},
         {"preemptions", s.preemptions},
         {"migrations", s.migrations},
         {"faults",
          {{"deaths", s.faults.deaths},
           {"down_s", s.faults.down_s},
           {"recovered", s.faults.recovered},
           {"recomputed_tokens", s.faults.recomputed},
           {"missed", s.faults.missed}}},
         {"prefix_hit_rate", s.prefix_hit_rate},
         {"kv_transfer_p99", s.kv_transfer_p99},
         {"fragmentation", {{"mean", s.fragmentation_mean}, {"peak", s.fragmentation_peak}}},
         {"ttft_by_reasoning_bin", std::move(bins)},
         {"scheduler_ns_per_step", {{"mean", s.scheduler_ns_mean}, {"p99", s.scheduler_ns_p99}}},
         {"simulated_tokens_per_wall_s", s.simulated_tokens_per_wall_s}};
  // Omitted if the power of a device is unknown,
  if (!std::isnan(s.joules)) {
    j["energy"] = {{"joules", s.joules}, {"joules_per_output_token", s.joules_per_output_token}};
  }
  if (s.ttft_in_fault.count > 0) j["faults"]["ttft"] = detail::to_json(s.ttft_in_fault);
  // or if there are no sessions.
  if (s.session.count > 0) j["session"] = detail::to_json(s.session);
  if (!std::isnan(s.worst_tenant)) j["worst_tenant"] = s.worst_tenant;
  return j;
}

}  // namespace sim

namespace sim {
namespace detail {

nlohmann::ordered_json mean_of(std::span<const nlohmann::ordered_json* const> runs, nlohmann::ordered_json& half) {
  using json = nlohmann::ordered_json;
  const json& first = *runs.front();
  if (first.is_object()) {
    json mean = json::object();
    half = json::object();
    for (const json* some : runs) {
      for (const auto& item : some->items()) {
        if (mean.contains(item.key())) continue;
        std::vector<const json*> parts;
        for (const json* r : runs) {
          if (const auto part = r->find(item.key()); part != r->end()) parts.push_back(&*part);
        }
        json width;
        mean[item.key()] = mean_of(parts, width);
        if (!width.is_null()) half[item.key()] = std::move(width);
      }
    }
    if (half.empty()) half = nullptr;
    return mean;
  }
  std::vector<double> samples;
  for (const json* r : runs) {
    if (r->is_number()) samples.push_back(r->get<double>());
    if (r->is_boolean()) samples.push_back(r->get<bool>() ? 1 : 0);
  }
  half = nullptr;
  if (samples.empty()) return first;
  const estimate e = estimate_mean(samples);
  half = e.half_width;
  return e.mean;
}

/// Bins of all runs: the mean of their values, and all their samples.
nlohmann::ordered_json mean_of_bins(std::span<const summary> runs) {
  using json = nlohmann::ordered_json;
  struct sum {
    std::vector<double> values;
    std::size_t n = 0;
  };
  std::map<std::int64_t, sum> bins;
  for (const summary& s : runs) {
    for (const tail_bin& b : s.ttft_by_reasoning_bin) {
      bins[b.bin].values.push_back(b.value);
      bins[b.bin].n += b.n;
    }
  }
  json all = json::array();
  for (const auto& [bin, s] : bins) {
    const estimate e = estimate_mean(s.values);
    all.push_back(json{{"bin", bin}, {"n", s.n}, {"stat", "mean"}, {"value", e.mean}, {"interval95", e.half_width}});
  }
  return all;
}

}  // namespace detail
}  // namespace sim

namespace sim {

nlohmann::ordered_json to_json(const replicates& runs) {
  using json = nlohmann::ordered_json;
  if (runs.size() == 1) return to_json(runs.front());
  std::vector<json> each;
  std::array<std::size_t, 4> states{};
  for (const summary& s : runs) {
    each.push_back(to_json(s));
    each.back().erase("ttft_by_reasoning_bin");
    ++states[static_cast<std::size_t>(s.load.state)];
  }
  std::vector<const json*> pointers;
  for (const json& j : each) pointers.push_back(&j);
  json half;
  json mean = detail::mean_of(pointers, half);
  const auto most = std::max_element(states.begin(), states.end()) - states.begin();
  mean["load"]["state"] = std::string{to_string(static_cast<load_state>(most))};
  mean["ttft_by_reasoning_bin"] = detail::mean_of_bins(runs);
  mean["seeds"] = runs.size();
  mean["interval95"] = std::move(half);
  return mean;
}

std::string format_json(std::span<const replicates> rows, const nlohmann::ordered_json& what) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const replicates& r : rows) {
    all.push_back(to_json(r));
    for (const auto& [key, value] : what.items()) all.back()[key] = value;
  }
  return json_page(all);
}

std::string format_json(std::span<const summary> rows) {
  std::vector<replicates> once;
  for (const summary& s : rows) once.push_back({s});
  return format_json(once);
}

}  // namespace sim
TESSERA_NAMESPACE_END
