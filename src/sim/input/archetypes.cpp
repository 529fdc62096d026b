// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/input/workload.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

const std::array<archetype, 6>& archetypes() noexcept {
  static constexpr std::array<archetype, 6> all{{
      {.name = "S-S", .task = "short questions", .prompt = 128, .output = 128, .ttft_slo_s = 0.3, .tpot_slo_s = 0.15},
      {.name = "M-M", .task = "dialogue", .prompt = 1024, .output = 1024, .ttft_slo_s = 0.4, .tpot_slo_s = 0.2},
      {.name = "S-L", .task = "code", .prompt = 128, .output = 2048, .ttft_slo_s = 0.125, .tpot_slo_s = 0.2},
      {.name = "L-S", .task = "summaries", .prompt = 2048, .output = 128, .ttft_slo_s = 2.25, .tpot_slo_s = 0.13},
      {.name = "L-L", .task = "translation", .prompt = 2048, .output = 512, .ttft_slo_s = 3.0, .tpot_slo_s = 0.18},
      {.name = "mix", .task = "production mix", .prompt = 1024, .output = 256, .ttft_slo_s = 0.4, .tpot_slo_s = 0.2},
  }};
  return all;
}

std::vector<trace_row> generate(const archetype& a, const std::vector<rate_phase>& phases, double cv,
                                std::uint64_t seed) {
  // Log-normal with that mean and variation.
  const double spread = std::sqrt(detail::exact_log(1 + a.variation * a.variation));
  random_engine lengths{seed, 2};
  const auto draw = [&](double mean) {
    const double x = detail::exact_exp(normal(lengths, detail::exact_log(mean) - spread * spread / 2, spread));
    return std::min<std::int64_t>(detail::whole_tokens(x), 32'768);
  };
  // Arrivals at rate 1, on a clock that runs faster or slower.
  arrival_generator arrivals{{.cv = cv}, 1.0, seed};
  std::vector<trace_row> rows;
  double began_s = 0;
  double beat = arrivals.next();
  double beats = 0;
  for (const rate_phase& phase : phases) {
    for (; beat < beats + phase.seconds * phase.rate; beat = arrivals.next()) {
      trace_row row;
      row.arrival_s = began_s + (beat - beats) / phase.rate;
      row.prompt_tokens = draw(a.prompt);
      row.output_tokens = row.answer_tokens = draw(a.output);
      rows.push_back(row);
    }
    beats += phase.seconds * phase.rate;
    began_s += phase.seconds;
  }
  return rows;
}

}  // namespace sim
TESSERA_NAMESPACE_END
