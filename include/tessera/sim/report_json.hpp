// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/metrics.hpp>

#include <nlohmann/json.hpp>

#include <span>
#include <string>
#include <utility>

/// @file
/// What a comparison shows, as JSON.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// One run as JSON. What was not measured is null.
[[nodiscard]] inline nlohmann::ordered_json to_json(const summary& s) {
  using json = nlohmann::ordered_json;
  json bins = json::array();
  for (const tail_bin& b : s.ttft_by_reasoning_bin) {
    bins.push_back(json{{"bin", b.bin}, {"n", b.n}, {"stat", std::string{b.stat}}, {"value", b.value}});
  }
  return json{
      {"policy", s.policy},
      {"requests", s.requests},
      {"completed", s.completed},
      {"rejected", s.rejected},
      {"ttft",
       {{"mean", s.ttft.mean}, {"p50", s.ttft.p50}, {"p90", s.ttft.p90}, {"p99", s.ttft.p99}, {"max", s.ttft.max}}},
      {"tpot", {{"mean", s.tpot.mean}, {"p50", s.tpot.p50}, {"p99", s.tpot.p99}}},
      {"e2e", {{"mean", s.e2e.mean}, {"p50", s.e2e.p50}, {"p99", s.e2e.p99}}},
      {"normalized_latency", {{"mean", s.normalized_latency.mean}, {"p90", s.normalized_latency.p90}}},
      {"slo_violation_rate", s.slo_violation_rate},
      {"qoe_mean", s.qoe_mean},
      {"blocking_p99", s.blocking_p99},
      {"throughput_tokens_per_s", s.throughput_tokens_per_s},
      {"preemptions", s.preemptions},
      {"migrations", s.migrations},
      {"kv_transfer_p99", s.kv_transfer_p99},
      {"fragmentation", {{"mean", s.fragmentation_mean}, {"peak", s.fragmentation_peak}}},
      {"ttft_by_reasoning_bin", std::move(bins)},
      {"scheduler_ns_per_step", {{"mean", s.scheduler_ns_mean}, {"p99", s.scheduler_ns_p99}}},
      {"simulated_tokens_per_wall_s", s.simulated_tokens_per_wall_s}};
}

/// All runs as a JSON array, ending in a newline.
[[nodiscard]] inline std::string format_json(std::span<const summary> rows) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const summary& s : rows) all.push_back(to_json(s));
  return all.dump(2) + "\n";
}

}  // namespace sim
TESSERA_NAMESPACE_END
