// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "loop.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// The same trace through the real loop and through the simulator with a profile of this decoder: how far apart they
/// are.

namespace cuda_decode {

/// One number of both.
struct comparison {
  std::string_view name;
  double real = 0;
  double simulated = 0;
  [[nodiscard]] double error() const noexcept { return simulated / real - 1; }
};

/// One composition in both.
struct validation {
  std::string policy;
  std::vector<comparison> numbers;
  std::uint64_t preemptions = 0;            ///< In the real loop.
  std::uint64_t simulated_preemptions = 0;  ///< In the simulator.
};

/// The largest error of the mean end-to-end latency that is still called right.
inline constexpr double end_to_end_bar = 0.05;

[[nodiscard]] inline validation compare(const std::string& policy, const sim::summary& real,
                                        const sim::summary& simulated) {
  return {.policy = policy,
          .numbers = {{"ttft", real.ttft.mean, simulated.ttft.mean},
                      {"tpot", real.tpot.mean, simulated.tpot.mean},
                      {"e2e", real.e2e.mean, simulated.e2e.mean},
                      {"e2e_p99", real.e2e.p99, simulated.e2e.p99},
                      {"throughput", real.throughput_tokens_per_s, simulated.throughput_tokens_per_s}},
          .preemptions = real.preemptions,
          .simulated_preemptions = simulated.preemptions};
}

/// Whether the mean end-to-end latency is near enough.
[[nodiscard]] inline bool holds(const validation& v) {
  for (const comparison& c : v.numbers) {
    if (c.name == "e2e") return std::abs(c.error()) <= end_to_end_bar;
  }
  return false;
}

/// Runs `rows` under one composition in the loop and in the simulator. @throws device_error
[[nodiscard]] inline validation validate(const composition& c, decoder& d, const sim::profile& p, const loop_options& o,
                                         std::span<const sim::trace_row> rows, std::int32_t vocabulary,
                                         std::uint64_t seed) {
  const loop_result real = run_trace(c, d, o, rows, vocabulary, seed);
  return compare(c.name, real.run.numbers, c.simulate(p, o, rows).numbers);
}

[[nodiscard]] inline std::string format_validations(std::span<const validation> all) {
  std::string table =
      fmt::format("{:<14} {:<12} {:>12} {:>12} {:>9}\n", "policy", "mean of", "real", "simulated", "error");
  for (const validation& v : all) {
    for (const comparison& c : v.numbers) {
      table += fmt::format("{:<14} {:<12} {:>12.5g} {:>12.5g} {:>8.2f}%{}\n", v.policy, c.name, c.real, c.simulated,
                           100 * c.error(),
                           c.name != "e2e" ? ""
                           : holds(v)      ? "  holds"
                                           : "  does not hold");
    }
    table +=
        fmt::format("{:<14} {:<12} {:>12} {:>12}\n", v.policy, "preemptions", v.preemptions, v.simulated_preemptions);
  }
  return table;
}

[[nodiscard]] inline nlohmann::ordered_json to_json(std::span<const validation> all) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const validation& v : all) {
    nlohmann::ordered_json j{{"policy", v.policy}};
    for (const comparison& c : v.numbers) {
      j[std::string{c.name}] = {{"real", c.real}, {"simulated", c.simulated}, {"error", c.error()}};
    }
    j["preemptions"] = {{"real", v.preemptions}, {"simulated", v.simulated_preemptions}};
    j["holds"] = holds(v);
    out.push_back(std::move(j));
  }
  return out;
}

}  // namespace cuda_decode
