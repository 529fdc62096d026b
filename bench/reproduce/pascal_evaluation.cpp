// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Section V: the tails, the claims, and what each rule contributes.
#include "pascal_page.hpp"

#include <tessera/compose/pascal.hpp>
#include <tessera/compose/pascal_paced.hpp>
#include <tessera/sim/input/workload.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace reproduce::pascal_page {

namespace {

series curve_of(const std::string& name, const std::map<std::int64_t, double>& values) {
  series s{.name = name, .x = {}, .y = {}};
  for (const auto& [bin, value] : values) {
    s.x.push_back(static_cast<double>(bin));
    s.y.push_back(value);
  }
  return s;
}

void tail_figure(page& p, const std::string& name, const std::string& caption, const std::vector<sim::policy>& policies,
                 const std::vector<samples>& all, std::span<const std::size_t> shown) {
  plot figure{.title = caption, .x_label = "reasoning tokens (bins of 256)", .y_label = "tail TTFT, s", .curves = {}};
  for (const std::size_t i : shown) figure.curves.push_back(curve_of(policies[i].name, bins(all[i], &sample::tail)));
  p.figure(name, caption, figure);
}

void bars_over_levels(page& p, const std::string& name, const std::string& caption, const std::string& y,
                      const std::vector<sim::policy>& policies, const evaluated& e, double (*value)(const sample&)) {
  plot figure{
      .title = caption, .x_label = "load, % of saturation", .y_label = y, .curves = {}, .drawn_as = style::bars};
  for (const double l : e.levels) figure.x_names.push_back(fmt::format("{}", in_percent(l)));
  for (std::size_t i = 0; i != policies.size(); ++i) {
    series s{.name = policies[i].name, .x = {}, .y = {}};
    for (std::size_t k = 0; k != e.levels.size(); ++k) s.y.push_back(over(e.at[k][i], value).mean);
    figure.curves.push_back(std::move(s));
  }
  p.figure(name, caption, figure);
}

void summary_table(page& p, const std::vector<sim::policy>& policies, const std::vector<samples>& all) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i != policies.size(); ++i) {
    const samples& s = all[i];
    rows.push_back({policies[i].name, seconds(over(s, [](const sample& x) { return x.numbers.ttft.mean; })),
                    seconds(over(s, [](const sample& x) { return x.numbers.ttft.p99; })),
                    share(over(s, [](const sample& x) { return x.numbers.slo_violation_rate; })),
                    seconds(over(s, [](const sample& x) { return x.numbers.blocking_p99; })),
                    seconds(over(s, [](const sample& x) { return x.numbers.kv_transfer_p99; })),
                    fmt::format("{:.0f}", over(s, [](const sample& x) { return x.numbers.window_tokens_per_s; }).mean),
                    fmt::format("{:.0f}", over(s, [](const sample& x) { return x.numbers.preemptions; }).mean),
                    fmt::format("{:.0f}", over(s, [](const sample& x) { return x.numbers.migrations; }).mean),
                    fmt::format("{:.2f}", over(s, [](const sample& x) { return x.same_target; }).mean), verdict(s)});
    for (std::string& cell : rows.back()) {
      if (cell.find("nan") != std::string::npos) cell = "-";
    }
  }
  p.table({"policy", "TTFT mean s", "TTFT P99 s", "SLO missed", "blocking P99 s", "KV transfer P99 s", "tokens/s",
           "preemptions", "migrations", "successive answers on one instance", "load"},
          rows);
}

/// Tail TTFT against FCFS and both round-robins.
void tail_table(page& p, const std::vector<sim::policy>& policies, const std::vector<samples>& all) {
  const lookup at{policies};
  std::vector<std::vector<std::string>> rows;
  for (const char* name :
       {"sarathi", "pascal", "pascal-nonadaptive", "pascal-nomigration", "pascal-paced", "due-first", "oracle"}) {
    std::vector<std::string> row{name};
    for (const char* base : {"fcfs", "rr", "rr-quanta"}) {
      const compared c = compare(all[at[name]], all[at[base]]);
      row.push_back(fmt::format("{} ± {:.1f} ({:.1f} s, bin {})", percent(c.best), 100 * c.best_half, c.best_seconds,
                                c.best_bin));
      row.push_back(fmt::format("{} ± {:.1f} (bin {})", percent(c.worst), 100 * c.worst_half, c.worst_bin));
    }
    rows.push_back(std::move(row));
  }
  p.table({"policy", "best bin, of FCFS", "worst", "best bin, of rr", "worst", "best bin, of rr-quanta", "worst"},
          rows);
}

/// The paper's claims beside what `name` does at every level.
void claims_table(page& p, const std::vector<sim::policy>& policies, const evaluated& e, const char* name) {
  const lookup at{policies};
  const auto mean = [&](std::size_t k, const char* who, auto f) { return over(e.at[k][at[who]], f).mean; };
  const auto slo = [](const sample& s) { return s.numbers.slo_violation_rate; };
  const auto blocking = [](const sample& s) { return s.numbers.blocking_p99; };
  const auto speed = [](const sample& s) { return s.numbers.window_tokens_per_s; };
  const auto median = [](const sample& s) { return s.numbers.e2e.p50; };
  const auto tail = [](const sample& s) { return s.numbers.e2e.p99; };
  const auto against = [&](std::size_t k, const char* who) { return compare(e.at[k][at[name]], e.at[k][at[who]]); };
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](const char* what, const char* paper, auto f) {
    rows.push_back({what, paper});
    for (std::size_t k = 0; k != e.at.size(); ++k) rows.back().push_back(f(k));
  };
  row("best bin of tail TTFT, of FCFS", "-61 % (AlpacaEval), -72 % (Arena-Hard)", [&](std::size_t k) {
    const compared c = against(k, "fcfs");
    return fmt::format("{} ± {:.1f}", percent(c.best), 100 * c.best_half);
  });
  row("worst bin, of FCFS", "+6.12 %", [&](std::size_t k) { return percent(against(k, "fcfs").worst); });
  row("best bin, of RR (circle; by quanta)", "-33 % (AlpacaEval), -29 % (Arena-Hard)", [&](std::size_t k) {
    return fmt::format("{}; {}", percent(against(k, "rr").best), percent(against(k, "rr-quanta").best));
  });
  row("worst bin, of RR (circle; by quanta)", "+9.23 %", [&](std::size_t k) {
    return fmt::format("{}; {}", percent(against(k, "rr").worst), percent(against(k, "rr-quanta").worst));
  });
  row("throughput, of FCFS's", "within 3 %",
      [&](std::size_t k) { return percent(mean(k, name, speed) / mean(k, "fcfs", speed) - 1); });
  row("SLO missed", "no more than FCFS and RR", [&](std::size_t k) { return share(over(e.at[k][at[name]], slo)); });
  row("SLO missed by FCFS; RR in a circle; by quanta", "", [&](std::size_t k) {
    return fmt::format("{:.2f} %; {:.2f} %; {:.2f} %", 100 * mean(k, "fcfs", slo), 100 * mean(k, "rr", slo),
                       100 * mean(k, "rr-quanta", slo));
  });
  row("P99 blocking; without migration", "near 0; 27.39 s", [&](std::size_t k) {
    return fmt::format("{:.2f} s; {:.2f} s", mean(k, name, blocking), mean(k, "pascal-nomigration", blocking));
  });
  row("SLO missed when always migrating", "7.45 % (10.8 times)", [&](std::size_t k) {
    return fmt::format("{:.2f} %{}", 100 * mean(k, "pascal-nonadaptive", slo),
                       times(mean(k, "pascal-nonadaptive", slo), mean(k, name, slo), 1));
  });
  row("end-to-end latency when always migrating: median; P99", "+20.1 %; +9.7 %", [&](std::size_t k) {
    return fmt::format("{}; {}", percent(mean(k, "pascal-nonadaptive", median) / mean(k, name, median) - 1),
                       percent(mean(k, "pascal-nonadaptive", tail) / mean(k, name, tail) - 1));
  });
  row("load, of FCFS's runs", "", [&](std::size_t k) { return verdict(e.at[k][at["fcfs"]]); });
  row("load, of its runs", "", [&](std::size_t k) { return verdict(e.at[k][at[name]]); });
  std::vector<std::string> header{fmt::format("`{}`: claim", name), "paper, high load"};
  for (const double l : e.levels) header.push_back(fmt::format("{} %", in_percent(l)));
  p.table(header, rows);
}

}  // namespace

evaluated evaluate(page& p, const options& o, const sim::workload& w, const effort& f, bool migration_figures) {
  evaluated e;
  e.workload = w.name;
  e.levels = f.levels;
  e.saturation = saturation_rate(w, f.saturating, o.quick ? 1 : 2, o.threads);
  const std::vector<sim::policy> policies =
      compared_policies(sim::generate(w, f.requests, high * e.saturation, history_seed));
  for (const sim::policy& policy : policies) e.names.push_back(policy.name);
  const lookup at{policies};
  const sim::length_means means = sim::mean_lengths(w);
  p.heading(fmt::format("Section V on {}", w.name));
  p.text(fmt::format(
      "{}. Source: {}. Mean lengths: prompt {:.0f}, reasoning {:.0f}, answer {:.0f}. FCFS saturates at "
      "{:.2f} requests/s (found with {} arrivals). {} requests a run.",
      w.summary, w.source, means.prompt, means.reasoning, means.answer, e.saturation, f.saturating, f.requests));
  for (const double l : e.levels) {
    e.at.push_back(run_all(o, policies, w, l * e.saturation, f.requests, effort::seeds_at(l, o.seeds)));
  }
  for (const char* name : {"pascal", "pascal-paced", "due-first"}) claims_table(p, policies, e, name);
  for (std::size_t k = 0; k != e.levels.size(); ++k) {
    p.text(fmt::format("**{} at {} % of saturation, {:.2f} requests/s**, {} seeds", w.name, in_percent(e.levels[k]),
                       e.levels[k] * e.saturation, e.at[k].front().size()));
    summary_table(p, policies, e.at[k]);
    tail_table(p, policies, e.at[k]);
    const std::array<std::size_t, 5> shown{at["fcfs"], at["rr"], at["rr-quanta"], at["pascal"], at["pascal-paced"]};
    tail_figure(
        p, fmt::format("{}_tail_{}", w.name, in_percent(e.levels[k])),
        fmt::format("{}: {}, {} % of saturation", w.name == "reasoning-heavy" ? "Figure 16" : "Figures 9 and 10",
                    w.name, in_percent(e.levels[k])),
        policies, e.at[k], shown);
  }
  bars_over_levels(p, fmt::format("{}_slo", w.name), fmt::format("Figure 11: SLO missed, {}", w.name), "share",
                   policies, e, [](const sample& s) { return s.numbers.slo_violation_rate; });
  bars_over_levels(p, fmt::format("{}_throughput", w.name), fmt::format("Figure 12: throughput, {}", w.name),
                   "output tokens/s", policies, e, [](const sample& s) { return s.numbers.window_tokens_per_s; });
  if (!migration_figures) return e;
  const std::array<std::size_t, 3> migration{at["pascal"], at["pascal-nomigration"], at["pascal-nonadaptive"]};
  tail_figure(p, fmt::format("{}_migration", w.name),
              fmt::format("Figures 13 (a) and 15 (a): with and without migration, {}, {} % of saturation", w.name,
                          in_percent(high)),
              policies, e.at_level(high), migration);
  plot reasoning{.title = "Figure 13 (b): reasoning latency",
                 .x_label = "reasoning tokens (bins of 256)",
                 .y_label = "mean, s",
                 .curves = {}};
  for (const std::size_t i : migration) {
    reasoning.curves.push_back(curve_of(policies[i].name, bins(e.at_level(high)[i], &sample::reasoning)));
  }
  p.figure(fmt::format("{}_reasoning", w.name),
           fmt::format("Figure 13 (b): {}, {} % of saturation", w.name, in_percent(high)), reasoning);
  return e;
}

evaluated show_ablation(page& p, const options& o, const sim::workload& w, const effort& f, double saturation) {
  p.heading("What each rule contributes");
  p.text(
      fmt::format("{} at {} % of saturation. First FCFS by other placements of new requests; then `pascal`, one rule "
                  "off or changed at a time, all else as it is.",
                  w.name, in_percent(high)));
  const std::vector<sim::policy> policies = ablations();
  const auto all = run_all(o, policies, w, high * saturation, f.requests, o.seeds);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i != policies.size(); ++i) {
    const compared c = compare(all[i], all[0]);
    rows.push_back({policies[i].name, seconds(over(all[i], [](const sample& s) { return s.numbers.ttft.mean; })),
                    fmt::format("{} ± {:.1f}", percent(c.best), 100 * c.best_half), percent(c.worst),
                    share(over(all[i], [](const sample& s) { return s.numbers.slo_violation_rate; })),
                    seconds(over(all[i], [](const sample& s) { return s.numbers.blocking_p99; })),
                    fmt::format("{:.0f}", over(all[i], [](const sample& s) { return s.numbers.preemptions; }).mean),
                    fmt::format("{:.2f}", over(all[i], [](const sample& s) { return s.same_target; }).mean)});
  }
  p.table({"policy", "TTFT mean s", "best bin, of FCFS", "worst", "SLO missed", "blocking P99 s", "preemptions",
           "successive answers on one instance"},
          rows);
  evaluated e;
  e.workload = w.name;
  e.levels = {high};
  e.at = {all};
  for (const sim::policy& policy : policies) e.names.push_back(policy.name);
  return e;
}

}  // namespace reproduce::pascal_page
