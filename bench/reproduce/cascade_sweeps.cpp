// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rates that rise: latency, throughput, and the attainment of objectives.
#include "cascade_runs.hpp"

#include <tessera/sim/input/workload.hpp>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace reproduce::cascade_runs {

sweep sweep_of(const options& o, std::string name, const source& s, const sim::profile& t, std::size_t instances,
               const std::vector<load_point>& loads, bool with_slo, double seconds, double warmup) {
  sweep out{.name = std::move(name), .points = {}, .loads = loads, .runs = {}};
  const unloaded slo = with_slo ? alone(s, t) : unloaded{};
  for (const load_point& l : loads) {
    for (const contestant& c : all_systems()) {
      out.points.push_back({.from = s,
                            .testbed = t,
                            .rate = l.rate,
                            .system = c,
                            .instances = instances,
                            .seconds = seconds,
                            .warmup = warmup,
                            .slo = slo});
    }
  }
  out.runs = run_all(o, out.points);
  return out;
}

void show_sweeps(results& out, const std::vector<sweep>& sweeps) {
  std::vector<row> rows;
  for (const sweep& s : sweeps) {
    for (std::size_t g = 0; g != s.loads.size(); ++g) {
      const auto* group = s.runs.data() + systems * g;
      const auto best = [&](double numbers::*what, bool more) -> const samples& {
        std::size_t b = 0;
        for (std::size_t c = 1; c != baselines; ++c) {
          const double x = mean_of(group[c], what).mean, y = mean_of(group[b], what).mean;
          if (more ? x > y : x < y) b = c;
        }
        return group[b];
      };
      for (std::size_t c = 0; c != systems; ++c) {
        const samples& mine = group[c];
        const auto unless_baseline = [&](const estimate& e) { return c < baselines ? cell{} : cell{e}; };
        std::vector<sim::load_verdict> load;
        for (const numbers& r : mine) load.push_back(r.load);
        rows.push_back(joined<cell>(
            {s.name, s.loads[g].prefill, s.loads[g].rate, s.points[systems * g + c].system.name,
             mean_of(mine, &numbers::ttft), unless_baseline(change(mine, group[0], &numbers::ttft)),
             unless_baseline(change(mine, best(&numbers::ttft, false), &numbers::ttft)),
             mean_of(mine, &numbers::ttft_p99).mean, in_ms(mine, &numbers::tpot),
             unless_baseline(change(mine, group[0], &numbers::tpot)),
             unless_baseline(change(mine, best(&numbers::tpot, false), &numbers::tpot)),
             in_ms(mine, &numbers::tpot_p99).mean, in_ms(mine, &numbers::normalized),
             mean_of(mine, &numbers::throughput), unless_baseline(ratio(mine, group[0], &numbers::throughput)),
             unless_baseline(ratio(mine, best(&numbers::throughput, true), &numbers::throughput))},
            load_cells(load)));
      }
    }
  }
  out.table(
      "sweeps",
      joined<std::string>({"experiment", "prefill_load", "rate_per_s", "system", "ttft_s±", "ttft_to_round_robin_pct±",
                           "ttft_to_best_baseline_pct±", "ttft_p99_s", "tpot_ms±", "tpot_to_round_robin_pct±",
                           "tpot_to_best_baseline_pct±", "tpot_p99_ms", "normalized_ms±", "tokens_per_s±",
                           "tokens_to_round_robin_ratio±", "tokens_to_best_baseline_ratio±"},
                          load_columns),
      rows);
}

std::vector<load_point> loads_of(const source& s, const sim::profile& t, std::size_t instances,
                                 std::initializer_list<double> parts) {
  std::vector<load_point> out;
  for (const double part : parts) out.push_back({fmt::format("{:.2f}", part), rate_for(s, t, instances, part)});
  return out;
}

void attainment(results& out, const std::vector<const sweep*>& sweeps) {
  std::vector<row> rows;
  for (const sweep* s : sweeps) {
    for (std::size_t i = 0; i != s->runs.size(); ++i) {
      const load_point& l = s->loads[i / systems];
      row cells{s->name, l.prefill, l.rate, s->points[i].system.name};
      for (std::size_t k = 0; k != 3; ++k) {
        cells.emplace_back(100 * mean_of(s->runs[i], [k](const numbers& r) { return r.attained[k]; }).mean);
      }
      rows.push_back(std::move(cells));
    }
  }
  out.table("attainment",
            {"experiment", "prefill_load", "rate_per_s", "system", "within_5x_pct", "within_10x_pct", "within_20x_pct"},
            rows);
}

}  // namespace reproduce::cascade_runs
