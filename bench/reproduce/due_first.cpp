// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library's own composition, `due-first`, in the settings of the four papers, against each paper's policy on that
// paper's headline metric.
#include "due_first_runs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace reproduce::due_first_runs {

namespace {

void summary(results& out, const std::vector<setting>& settings, const std::vector<found_type>& found) {
  std::vector<row> rows;
  for (std::size_t i = 0; i != settings.size(); ++i) {
    const setting& s = settings[i];
    for (std::size_t t = 0; t != s.trials.size(); ++t) {
      const auto& runs = found[i][t];
      for (const metric& m : s.metrics) {
        if (!m.headline) continue;
        const std::size_t rival = best_rival(m, s.trials[t], runs);
        const estimate e = change(m, runs.back(), runs[rival], runs[0]);
        rows.push_back({s.name, s.trials[t].workload, s.trials[t].seen ? "seen" : "held out", m.name,
                        s.trials[t].contestants[rival].name, value(m, runs[rival], runs[0]).mean,
                        value(m, runs.back(), runs[0]).mean, e, unit_of(m), verdict_names[verdict_of(m, e)]});
      }
    }
  }
  out.table("summary",
            {"setting", "workload", "seen", "metric", "best_other", "best_other_mean", "due_first_mean", "change±",
             "unit", "verdict"},
            rows);
}

/// All policies in a setting; for `due-first` also the changes from the paper's own policy, or from the best known one.
void show_setting(results& out, const std::string& file, const setting& s, const found_type& found) {
  std::vector<std::string> columns{"workload", "seen", "policy", "in_stages"};
  for (const metric& m : s.metrics) {
    columns.push_back(column_of(m.name) + "±");
    columns.push_back(fmt::format("{}_change_{}±", column_of(m.name), m.in_points ? "points" : "pct"));
  }
  std::vector<row> rows;
  for (std::size_t t = 0; t != s.trials.size(); ++t) {
    const auto& runs = found[t];
    for (std::size_t c = 0; c != runs.size(); ++c) {
      const bool ours = c + 1 == runs.size();
      const bool staged = ours && std::all_of(runs[c].begin(), runs[c].end(), [](auto& r) { return r.staged; });
      row cells{s.trials[t].workload, s.trials[t].seen ? "seen" : "held out", s.trials[t].contestants[c].name,
                staged ? "yes" : ""};
      for (const metric& m : s.metrics) {
        cells.emplace_back(value(m, runs[c], runs[0]));
        cells.push_back(ours ? cell{change(m, runs[c], runs[s.theirs], runs[0])} : cell{});
      }
      rows.push_back(std::move(cells));
    }
  }
  out.table(file, columns, rows);
}

void run(const options& o) {
  results out{o};
  const std::vector<setting> settings{pascals(o), parss(o), phasors(o), cascades(o), sessions(o), tenants(o)};
  const std::array files{"pascal", "pars", "phasor", "cascade", "sessions", "tenants"};
  std::vector<found_type> found;
  for (const setting& s : settings) found.push_back(run_all(o, s.trials));
  summary(out, settings, found);
  for (std::size_t i = 0; i != settings.size(); ++i) show_setting(out, files[i], settings[i], found[i]);
  conserved(out, settings.front(), found.front());
  // What a part does is told from the same requests with and without: fewer seeds do.
  options few = o;
  few.seeds = std::min<std::size_t>(o.seeds, 3);
  frontier(out, o, settings.front());
  show_sweeps(out, o, settings, found);
  told(out, o, std::span{settings}.subspan(2, 2), std::span{found}.subspan(2, 2));
  ablation(out, few, settings);
  out.finish();
}

[[maybe_unused]] const bool added = add({"due_first", "our own composition in the four papers' settings", run});

}  // namespace

}  // namespace reproduce::due_first_runs
