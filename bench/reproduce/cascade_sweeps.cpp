// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rates that rise: latency, throughput, and the attainment of objectives.
#include "cascade_page.hpp"

#include <tessera/sim/input/workload.hpp>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace reproduce::cascade_page {

sweep sweep_of(const options& o, std::string name, const source& s, const sim::profile& t, std::size_t instances,
               const std::vector<std::pair<std::string, double>>& rates, bool with_slo, double seconds, double warmup) {
  sweep out{.name = std::move(name), .points = {}, .labels = {}, .runs = {}};
  const unloaded slo = with_slo ? alone(s, t) : unloaded{};
  for (const auto& [label, rate] : rates) {
    out.labels.push_back(label);
    for (const contestant& c : all_systems()) {
      out.points.push_back({.from = s,
                            .testbed = t,
                            .rate = rate,
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

void show_sweep(page& p, const sweep& s) {
  std::vector<std::vector<std::string>> table;
  for (std::size_t g = 0; g != s.labels.size(); ++g) {
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
      const auto against = [&](double numbers::*what) {
        return c < baselines ? std::string{"-"}
                             : change(mine, group[0], what) + " / " + change(mine, best(what, false), what);
      };
      std::vector<sim::load_verdict> load;
      for (const numbers& r : mine) load.push_back(r.load);
      table.push_back({c == 0 ? s.labels[g] : "", s.points[systems * g + c].system.name,
                       show(mean_of(mine, &numbers::ttft), 3), against(&numbers::ttft),
                       fixed(mean_of(mine, &numbers::ttft_p99).mean), show_ms(mine, &numbers::tpot),
                       against(&numbers::tpot), fixed(1e3 * mean_of(mine, &numbers::tpot_p99).mean, 0),
                       show_ms(mine, &numbers::normalized), show(mean_of(mine, &numbers::throughput), 0),
                       c < baselines ? "-"
                                     : ratio(mine, group[0], &numbers::throughput) + " / " +
                                           ratio(mine, best(&numbers::throughput, true), &numbers::throughput),
                       verdict_of(load)});
    }
  }
  p.table(
      {"load", "", "TTFT, s", "to round-robin / best baseline", "P99, s", "TPOT, ms", "to round-robin / best baseline",
       "P99, ms", "normalised latency, ms", "tokens per s", "times round-robin / best baseline", "load"},
      table);
}

void draw_sweep(page& p, const std::string& file, const sweep& s, const std::vector<double>& x, const char* x_label) {
  const auto lines = [&](const char* suffix, const char* title, const char* y, double numbers::*what, bool log) {
    plot l{.title = title, .x_label = x_label, .y_label = y, .curves = {}, .log_y = log};
    for (std::size_t c = 0; c != systems; ++c) {
      series one{s.points[c].system.name, x, {}};
      for (std::size_t g = 0; g != s.labels.size(); ++g) one.y.push_back(mean_of(s.runs[systems * g + c], what).mean);
      l.curves.push_back(std::move(one));
    }
    p.figure(file + suffix, fmt::format("{}, {}", title, s.name), l);
  };
  lines("-ttft", "Mean time to first token", "seconds", &numbers::ttft, true);
  lines("-tpot", "Mean time per output token", "seconds", &numbers::tpot, true);
  lines("-throughput", "Throughput", "output tokens per second", &numbers::throughput, false);
}

std::vector<std::pair<std::string, double>> rates_of(const source& s, const sim::profile& t, std::size_t instances,
                                                     std::initializer_list<double> parts) {
  std::vector<std::pair<std::string, double>> out;
  for (const double part : parts) {
    const double rate = rate_for(s, t, instances, part);
    out.emplace_back(fmt::format("{:.2f} ({:.3g}/s)", part, rate), rate);
  }
  return out;
}

void attainment(page& p, const std::vector<const sweep*>& sweeps) {
  p.heading("Figure 12: SLO attainment");
  p.text(
      "Part of the requests whose TTFT and TPOT are both within 5, 10 and 20 times those of a request alone. Paper, "
      "3B: "
      "3.8 to 7.6 times the baselines' attainment at 5 times, 2.0 to 2.8 at 20 times.");
  std::vector<std::vector<std::string>> table;
  for (const sweep* s : sweeps) {
    for (std::size_t g = 0; g != s->labels.size(); ++g) {
      std::vector<std::string> cells{s->name, s->labels[g]};
      for (std::size_t c = 0; c != systems; ++c) {
        std::string text;
        for (std::size_t k = 0; k != 3; ++k) {
          const double part = mean_of(s->runs[systems * g + c], [k](const numbers& r) { return r.attained[k]; }).mean;
          text += (k == 0 ? "" : " / ") + fixed(100 * part, 0);
        }
        cells.push_back(text + " %");
      }
      table.push_back(std::move(cells));
    }
  }
  p.table({"", "load", "round-robin", "Llumnix-like", "least load, bounded steps", "CascadeInfer", "steady"}, table);
}

}  // namespace reproduce::cascade_page
