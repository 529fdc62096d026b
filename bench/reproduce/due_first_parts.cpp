// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What each part of due-first contributes, and what no order can change.
#include "due_first_runs.hpp"

#include <tessera/sim/planning/step_bounds.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reproduce::due_first_runs {

// Where the planner expects too little of stages, "without stages" changes nothing. Last, the paper's policy, as it is
// and with the same bound on its steps, which any policy could have.
void ablation(results& out, const options& o, const std::vector<setting>& settings) {
  const auto with_scores = [](const cluster_options& c, const rows_type& history, const rows_type& rows) {
    const double noise = pars_setting::noise_for(lengths_of(history), tau_of_pars, 1);
    return sim::run_due_first(c, scored(rows, noise, 1), {}, {}, quiet);
  };
  const auto bounded = [](const contestant& theirs) {
    return contestant{theirs.name + ", steps bounded",
                      [theirs](const cluster_options& c, const rows_type& history, const rows_type& rows) {
                        return theirs.run(sim::bounded_steps(c), history, rows);
                      }};
  };
  std::vector<row> rows;
  for (const setting& s : settings) {
    if (s.ablated.empty()) continue;
    trial t = s.trials[trial_of(s, s.ablated)];
    const contestant theirs = t.contestants[s.theirs];
    t.contestants = {t.contestants.front(), t.contestants.back()};  // The first is what bins are compared with.
    t.contestants.push_back(s.has_scores ? ours("without predictions", {.predicts = false})
                                         : contestant{"with scores", with_scores});
    if (t.cluster(t.rows(first_seed)).instances > 1) {
      t.contestants.push_back(ours("least load, not headroom", {.by_headroom = false}));
      t.contestants.push_back(ours("without stages", {.stages = false}));
      t.contestants.push_back(ours("without pools", {.pools = false}));
      t.contestants.push_back(ours("lengths not expected anew", {.revised = 1}));
    }
    t.contestants.push_back(ours("steps not bounded", {.bounded_steps = false}));
    t.contestants.push_back(theirs);
    t.contestants.push_back(bounded(theirs));
    const auto runs = run_all(o, {t}).front();
    for (std::size_t c = 1; c != runs.size(); ++c) {
      for (const metric& m : s.metrics) {
        if (!m.headline) continue;
        rows.push_back({s.name, t.workload, t.contestants[c].name, m.name, value(m, runs[c], runs[0]),
                        c == 1 ? cell{} : cell{change(m, runs[c], runs[1], runs[0])}, c == 1 ? "" : unit_of(m)});
      }
    }
  }
  out.table("parts", {"setting", "workload", "variant", "metric", "mean±", "change±", "unit"}, rows);
}

// Where a queue forms, no order lowers the longest time of every bin at once. The statements and their proofs, for one
// server of a fixed speed, are in docs/design/no_order.md. These instances are not of a fixed speed, so this is what is
// observed.
void conserved(results& out, const setting& s, const std::vector<std::vector<samples>>& found) {
  std::vector<row> rows;
  const auto ratio = [&](std::size_t t, auto&& get) {
    return over_seeds(found[t].back(),
                      [&](std::size_t k) { return 100 * get(found[t].back()[k]) / get(found[t].front()[k]); });
  };
  for (std::size_t t = 0; t != s.trials.size(); ++t) {
    const auto& runs = found[t];
    rows.push_back({s.trials[t].workload, ratio(t, [](const sample& x) { return x.token_s; }),
                    ratio(t, [](const sample& x) { return x.longest_ttft; }),
                    ratio(t, [](const sample& x) { return x.numbers.window_tokens_per_s; }),
                    value(s.metrics[0], runs.back(), runs[0]), value(s.metrics[1], runs.back(), runs[0])});
  }
  out.table(
      "conserved",
      {"workload", "token_time_pct±", "longest_ttft_pct±", "tokens_per_s_pct±", "best_bin_pct±", "worst_bin_pct±"},
      rows);
}

void frontier(results& out, const options& o, const setting& s) {
  constexpr std::array paces{0.0, 0.025, 0.05, 0.075, 0.1, 0.2};
  std::vector<row> rows;
  for (const std::string_view workload : {"arena-chat, 1.05", "arena-chat, 1.1", "reasoning-heavy, 1.1"}) {
    trial t = s.trials[trial_of(s, workload)];
    t.contestants.resize(1);
    for (const double pace : paces) t.contestants.push_back(ours(fmt::format("{:g}", pace), {.pace = pace}));
    const auto runs = run_all(o, {t}).front();
    for (std::size_t c = 1; c != runs.size(); ++c) {
      row cells{workload, paces[c - 1]};
      for (std::size_t m = 0; m != 4; ++m) cells.emplace_back(value(s.metrics[m], runs[c], runs[0]));
      rows.push_back(std::move(cells));
    }
  }
  std::vector<std::string> columns{"workload", "pace_s_per_token"};
  for (std::size_t m = 0; m != 4; ++m) columns.push_back(column_of(s.metrics[m].name) + "±");
  out.table("pace", columns, rows);
}

}  // namespace reproduce::due_first_runs
