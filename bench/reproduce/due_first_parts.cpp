// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What each part of due-first contributes, and what no order can change.
#include "due_first_page.hpp"

#include <tessera/sim/planning/step_bounds.hpp>

#include <fmt/ranges.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reproduce::due_first_page {

void ablation(page& p, const options& o, const std::vector<setting>& settings) {
  const auto with_scores = [](const cluster_options& c, const rows_type& history, const rows_type& rows) {
    const double noise = pars_setting::noise_for(lengths_of(history), tau_of_pars, 1);
    return sim::run_due_first(c, scored(rows, noise, 1), {}, {}, quiet);
  };
  const auto bounded = [](const contestant& theirs) {
    return contestant{"`" + theirs.name + "`, steps bounded",
                      [theirs](const cluster_options& c, const rows_type& history, const rows_type& rows) {
                        return theirs.run(sim::bounded_steps(c), history, rows);
                      }};
  };
  std::vector<std::vector<std::string>> table;
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
      t.contestants.push_back(ours("nobody expected anew", {.revised = 1}));
    }
    t.contestants.push_back(ours("steps not bounded", {.bounded_steps = false}));
    t.contestants.push_back(theirs);
    t.contestants.push_back(bounded(theirs));
    const auto runs = run_all(o, {t}).front();
    for (std::size_t c = 1; c != runs.size(); ++c) {
      std::array<std::string, 3> cells;  // metric, value, change
      for (const metric& m : s.metrics) {
        if (!m.headline) continue;
        join(cells[0], m.name);
        join(cells[1], show(value(m, runs[c], runs[0]), m.digits));
        if (c > 1) join(cells[2], show_change(m, change(m, runs[c], runs[1], runs[0])));
      }
      table.push_back({c == 1 ? fmt::format("{}: {}", s.name, t.workload) : "", t.contestants[c].name,
                       c == 1 ? cells[0] : "", cells[1], cells[2]});
    }
  }
  p.heading("What each part contributes");
  p.text(
      "One workload of each setting, one part of `due-first` off at a time; changes are from the whole. \"With "
      "scores\" "
      "adds what only PARS's setting has, predictions of the quality of PARS's model. Where the planner expects too "
      "little of stages, \"without stages\" changes nothing; where it makes them, placement is theirs, steps are not "
      "bounded but where a trial says so, and pools are not tried. Last, the "
      "paper's policy, as it is and with the same bound on its steps, which any policy could have. " +
      of_seeds(o));
  p.table({"", "", "headline", "", "change"}, table);
}

void conserved(page& p, const setting& s, const std::vector<std::vector<samples>>& found) {
  p.heading("What no order can do");
  p.text(
      "Where a queue forms, no order lowers the longest time of every bin at once; docs/design/no_order.md has the "
      "statements and their proofs, tests/unit/conservation_test.cpp checks them on schedulers with one place, where "
      "they are exact. "
      "On one server of a fixed speed (1) the longest time in the system is never below that of arrival order, so the "
      "bin in which it falls has its maximum at or above that of `fcfs`; (2) the mean time to a token, over all "
      "tokens, is the same for all orders that are never idle, so where one bin waits less another waits more. For "
      "time to first *answering* token both hold but for the answers that are put off meanwhile, and for P99 in place "
      "of the maximum neither is a theorem: who gives up fewer than one in a hundred of each bin can be ahead in all.");
  p.text(
      "These instances are not of a fixed speed: batches differ, and interruptions cost. So this is what is observed: "
      "time to a token and the longest TTFT of `due-first` in per cent of `fcfs`'s on the same requests, with "
      "throughput, by which time to a token falls where capacity is gained. Beside the weighted sum stands its "
      "distribution: the best bin and the worst.");
  std::vector<std::vector<std::string>> table;
  const auto ratio = [&](std::size_t t, auto&& get) {
    return show(over_seeds(found[t].back(),
                           [&](std::size_t k) { return 100 * get(found[t].back()[k]) / get(found[t].front()[k]); }),
                1);
  };
  for (std::size_t t = 0; t != s.trials.size(); ++t) {
    const auto& runs = found[t];
    table.push_back({s.trials[t].workload, ratio(t, [](const sample& x) { return x.token_s; }),
                     ratio(t, [](const sample& x) { return x.longest_ttft; }),
                     ratio(t, [](const sample& x) { return x.numbers.window_tokens_per_s; }),
                     show(value(s.metrics[0], runs.back(), runs[0]), 1),
                     show(value(s.metrics[1], runs.back(), runs[0]), 1)});
  }
  p.table({"workload", "time to a token, %", "longest TTFT, %", "tokens/s, %", "best bin, %", "worst bin, %"}, table);
}

void frontier(page& p, const options& o, const setting& s) {
  p.heading("From arrival order to ours: one parameter");
  constexpr std::array paces{0.0, 0.025, 0.05, 0.075, 0.1, 0.2};
  std::vector<std::vector<std::string>> table;
  plot picture{.title = "What pace buys in PASCAL's setting",
               .x_label = "worst bin, % of FCFS",
               .y_label = "best bin, % of FCFS",
               .curves = {}};
  for (const std::string_view workload : {"arena-chat, 1.05", "arena-chat, 1.1", "reasoning-heavy, 1.1"}) {
    trial t = s.trials[trial_of(s, workload)];
    t.contestants.resize(1);
    for (const double pace : paces) t.contestants.push_back(ours(fmt::format("{:g}", pace), {.pace = pace}));
    const auto runs = run_all(o, {t}).front();
    picture.curves.push_back({.name = std::string{workload}, .x = {}, .y = {}});
    for (std::size_t c = 1; c != runs.size(); ++c) {
      std::vector<std::string> row{c == 1 ? std::string{workload} : "", t.contestants[c].name};
      for (std::size_t m = 0; m != 4; ++m)
        row.push_back(show(value(s.metrics[m], runs[c], runs[0]), s.metrics[m].digits));
      table.push_back(std::move(row));
      picture.curves.back().x.push_back(value(s.metrics[1], runs[c], runs[0]).mean);
      picture.curves.back().y.push_back(value(s.metrics[0], runs[c], runs[0]).mean);
    }
  }
  p.text(
      "`pace`, the seconds that a token of expected output is worth, is how far anybody may be overtaken: 0 is arrival "
      "order, with readers in time. 0.1 is the default, everywhere else on this page.");
  p.table({"workload", "pace, s", s.metrics[0].name, s.metrics[1].name, s.metrics[2].name, s.metrics[3].name}, table);
  p.figure("frontier", "Best bin against worst bin; each curve from pace 0, upper left, to 0.2", picture);
}

}  // namespace reproduce::due_first_page
