// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Section V: loads, tails, and what each rule contributes.
#include "pascal_runs.hpp"

#include <tessera/sim/input/workload.hpp>

#include <cstddef>
#include <vector>

namespace reproduce::pascal_runs {

namespace {

void add_loads(std::vector<row>& rows, const std::vector<cell>& where, const std::vector<sim::policy>& policies,
               const std::vector<samples>& all) {
  for (std::size_t i = 0; i != policies.size(); ++i) {
    const samples& s = all[i];
    const auto mean = [&](auto f) { return over(s, f); };
    rows.push_back(joined(joined(where, {policies[i].name, mean([](const sample& x) { return x.numbers.ttft.mean; }),
                                         mean([](const sample& x) { return x.numbers.ttft.p99; }),
                                         in_percent(mean([](const sample& x) { return x.numbers.slo_violation_rate; })),
                                         mean([](const sample& x) { return x.numbers.blocking_p99; }),
                                         mean([](const sample& x) { return x.numbers.kv_transfer_p99; }),
                                         mean([](const sample& x) { return x.numbers.window_tokens_per_s; }).mean,
                                         mean([](const sample& x) { return x.numbers.preemptions; }).mean,
                                         mean([](const sample& x) { return x.numbers.migrations; }).mean,
                                         mean([](const sample& x) { return x.same_target; }).mean}),
                          load_cells(s)));
  }
}

/// Tail TTFT against FCFS and both round-robins.
void add_bins(std::vector<row>& rows, const std::vector<cell>& where, const std::vector<sim::policy>& policies,
              const std::vector<samples>& all) {
  const lookup at{policies};
  for (const char* name :
       {"sarathi", "pascal", "pascal-nonadaptive", "pascal-nomigration", "pascal-paced", "due-first", "oracle"}) {
    for (const char* base : {"fcfs", "rr", "rr-quanta"}) {
      const compared c = compare(all[at[name]], all[at[base]]);
      rows.push_back(
          joined(where, {name, base, in_percent(estimate{.mean = c.best, .half_width = c.best_half}), c.best_seconds,
                         c.best_bin, in_percent(estimate{.mean = c.worst, .half_width = c.worst_half}), c.worst_bin}));
    }
  }
}

}  // namespace

double evaluate(evaluation& e, const options& o, const sim::workload& w, const effort& f) {
  const double saturation = saturation_rate(w, f.saturating, o.quick ? 1 : 2, o.threads);
  const std::vector<sim::policy> policies =
      compared_policies(sim::generate(w, f.requests, high * saturation, history_seed));
  const lookup at{policies};
  for (const double l : f.levels) {
    const std::size_t seeds = effort::seeds_at(l, o.seeds);
    const auto all = run_all(o, policies, w, l * saturation, f.requests, seeds);
    add_loads(e.loads, {w.name, in_percent(l), l * saturation, seeds}, policies, all);
    add_bins(e.bins, {w.name, in_percent(l)}, policies, all);
    const auto change = [&](auto latency) {
      return 100 * (over(all[at["pascal-nonadaptive"]], latency).mean / over(all[at["pascal"]], latency).mean - 1);
    };
    e.always_migrating.push_back({w.name, in_percent(l), change([](const sample& s) { return s.numbers.e2e.p50; }),
                                  change([](const sample& s) { return s.numbers.e2e.p99; })});
  }
  return saturation;
}

// First FCFS by other placements of new requests; then `pascal`, one rule off or changed at a time.
void show_rules(results& out, const options& o, const sim::workload& w, const effort& f, double saturation) {
  const std::vector<sim::policy> policies = ablations();
  const auto all = run_all(o, policies, w, high * saturation, f.requests, o.seeds);
  std::vector<row> rows;
  for (std::size_t i = 0; i != policies.size(); ++i) {
    const compared c = compare(all[i], all[0]);
    rows.push_back({policies[i].name, over(all[i], [](const sample& s) { return s.numbers.ttft.mean; }),
                    in_percent(estimate{.mean = c.best, .half_width = c.best_half}), 100 * c.worst,
                    in_percent(over(all[i], [](const sample& s) { return s.numbers.slo_violation_rate; })),
                    over(all[i], [](const sample& s) { return s.numbers.blocking_p99; }),
                    over(all[i], [](const sample& s) { return s.numbers.preemptions; }).mean,
                    over(all[i], [](const sample& s) { return s.same_target; }).mean});
  }
  out.table("rules",
            {"policy", "ttft_s±", "best_to_fcfs_pct±", "worst_to_fcfs_pct", "slo_missed_pct±", "blocking_p99_s±",
             "preemptions", "answers_on_one_instance"},
            rows);
}

}  // namespace reproduce::pascal_runs
