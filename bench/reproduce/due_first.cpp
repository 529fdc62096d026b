// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library's own composition, `due-first`, in the settings of the four papers, against each paper's policy on that
// paper's headline metric.
#include "due_first_page.hpp"

#include <tessera/sim/planning/step_bounds.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace reproduce::due_first_page {

namespace {

/// Who is behind `due-first` in no headline of a trial, and ahead of it in one.
std::vector<std::string> better_in_all(const setting& s, const trial& t, const std::vector<samples>& runs) {
  std::vector<std::string> names;
  for (std::size_t c = 0; c + 1 != runs.size(); ++c) {
    std::array<std::size_t, verdicts> count{};
    for (const metric& m : s.metrics) {
      if (m.headline) ++count[verdict_of(m, change(m, runs.back(), runs[c], runs[0]))];
    }
    if (!is_oracle(t.contestants[c].name) && count[ahead] == 0 && count[behind] != 0) {
      names.push_back(fmt::format("`{}`", t.contestants[c].name));
    }
  }
  return names;
}

void summary(page& p, const std::vector<setting>& settings, const std::vector<found_type>& found) {
  std::vector<std::vector<std::string>> table;
  std::array<std::array<std::size_t, verdicts>, 2> count{};  // held out, seen
  std::array<std::size_t, 3> alike_as{};                     // nothing is left to gain, no difference, not decided
  constexpr double equal = 2;                                // per cent, or points
  std::vector<std::string> lost, dominated;
  for (std::size_t i = 0; i != settings.size(); ++i) {
    const setting& s = settings[i];
    for (std::size_t t = 0; t != s.trials.size(); ++t) {
      const auto& runs = found[i][t];
      if (const auto names = better_in_all(s, s.trials[t], runs); !names.empty()) {
        dominated.push_back(fmt::format("{}, {} by {}", s.name, s.trials[t].workload, fmt::join(names, ", ")));
      }
      std::array<std::string, 5> cells;  // metric, the best of the others, ours, change, word
      for (const metric& m : s.metrics) {
        if (!m.headline) continue;
        const std::size_t rival = best_rival(m, s.trials[t], runs);
        const estimate e = change(m, runs.back(), runs[rival], runs[0]);
        const verdict v = verdict_of(m, e);
        ++count[s.trials[t].seen ? 1 : 0][v];
        if (v == alike) {
          const bool full = m.most > 0 && value(m, runs[rival], runs[0]).mean >= 0.995 * m.most;
          ++alike_as[full ? 0 : std::abs(e.mean) + e.half_width <= equal ? 1 : 2];
        }
        if (v == behind) {
          lost.push_back(fmt::format("{}, {}: {} {} of `{}`", s.name, s.trials[t].workload, m.name, show_change(m, e),
                                     s.trials[t].contestants[rival].name));
        }
        join(cells[0], m.name);
        join(cells[1], fmt::format("{} {:.{}f}", s.trials[t].contestants[rival].name,
                                   value(m, runs[rival], runs[0]).mean, m.digits));
        join(cells[2], fmt::format("{:.{}f}", value(m, runs.back(), runs[0]).mean, m.digits));
        join(cells[3], show_change(m, e));
        join(cells[4], verdict_names[v]);
      }
      table.push_back({s.name, s.trials[t].workload, s.trials[t].seen ? "seen" : "held out", cells[0], cells[1],
                       cells[2], cells[3], cells[4]});
    }
  }
  const auto total = [&](verdict v) { return count[0][v] + count[1][v]; };
  const std::size_t all = total(ahead) + total(alike) + total(behind);
  p.lead(fmt::format(
      "**`due-first` is not the best everywhere.** In {} comparisons, the headline metrics of {} workloads and loads, "
      "each with whichever of the other policies is best in it, it is ahead in {}, alike in {} (the 95 % interval of "
      "the change contains 0) and behind in {}. Of the {} held-out ones it is ahead in {}, alike in {} and behind in "
      "{}.",
      all, table.size(), total(ahead), total(alike), total(behind),
      count[0][ahead] + count[0][alike] + count[0][behind], count[0][ahead], count[0][alike], count[0][behind]));
  p.lead(fmt::format(
      "Of the {} that are alike, in {} the other has 99.5 % of all there can be, in {} the two differ by no more than "
      "{:g} %, and in {} the interval reaches further: these seeds do not decide.",
      total(alike), alike_as[0], alike_as[1], equal, alike_as[2]));
  p.lead(
      fmt::format("The best in each headline is not one policy. Against each of them alone, in all headlines of a "
                  "workload: in {} of "
                  "{} some policy is behind `due-first` in none and ahead of it in one{}{}.",
                  dominated.size(), table.size(), dominated.empty() ? "" : ": ", fmt::join(dominated, "; ")));
  if (!lost.empty()) p.lead(fmt::format("Behind: {}.", fmt::join(lost, "; ")));
  p.heading("Summary");
  p.table({"setting", "workload", "", "headline", "the best of the others", "due-first", "change", ""}, table);
}

void show_setting(page& p, const setting& s, const found_type& found) {
  p.heading(s.ablated.empty() ? "New workloads: " + s.name : s.name + "'s setting");
  p.text(s.text + fmt::format(" In brackets: the change from `{}`.", s.trials[0].contestants[s.theirs].name));
  std::vector<std::string> header{"workload", "policy"};
  for (const metric& m : s.metrics) header.push_back(m.name);
  std::vector<std::vector<std::string>> table;
  for (std::size_t t = 0; t != s.trials.size(); ++t) {
    const auto& runs = found[t];
    for (std::size_t c = 0; c != runs.size(); ++c) {
      const bool ours = c + 1 == runs.size();
      const bool staged = ours && std::all_of(runs[c].begin(), runs[c].end(), [](auto& r) { return r.staged; });
      std::vector<std::string> row{
          c == 0 ? fmt::format("{} ({})", s.trials[t].workload, s.trials[t].seen ? "seen" : "held out") : "",
          s.trials[t].contestants[c].name + (staged ? ", in stages" : "")};
      for (const metric& m : s.metrics) {
        row.push_back(show(value(m, runs[c], runs[0]), m.digits));
        const estimate e = ours ? change(m, runs[c], runs[s.theirs], runs[0]) : sim::estimate_mean({});
        if (!std::isnan(e.mean)) row.back() += fmt::format(" ({})", show_change(m, e));
      }
      table.push_back(std::move(row));
    }
  }
  p.table(header, table);
}

void run(const options& o) {
  page p{o, "A composition of our own in the four papers' settings, and with sessions and tenants"};
  const std::vector<setting> settings{pascals(o), parss(o), phasors(o), cascades(o), sessions(o), tenants(o)};
  std::vector<found_type> found;
  for (const setting& s : settings) found.push_back(run_all(o, s.trials));
  p.text(
      "`due-first` is in no paper. It is made of the library's parts: `order::earliest_due`, in which readers who are "
      "about to run dry go first and all else by when it is due, which is reckoned anew while a request reasons, and "
      "by "
      "a clock that all but stops when many wait, and a request with a longer prompt than the mean counts as having "
      "come later, by 32 times the extra time that its prompt takes; "
      "placement by headroom, of the prompts to compute and of the memory, "
      "as "
      "far as expected lengths say, where there is plenty by what a request would add to all latencies, or where the "
      "least is to compute where prompts are cached, and "
      "a bound on what prompts add to a step; instead of these CascadeInfer's stages where the planner expects a gain "
      "of a tenth or more and a trial on the last requests finds one, or Phasor's pools where a trial "
      "finds a gain of a fiftieth. It is "
      "told nothing of the traffic beforehand: it learns lengths while it runs, and plans again. The same rules "
      "and parameters are used everywhere on this page: the defaults (pace 0.1 s a token, slice 250 tokens, margin 1 "
      "s, twice the first expectation at most, or more for tails heavier than the exponential's, watermark 1 %), "
      "prompts for what a decode step leaves of 50 ms, or of twice as much, four times and so on, if a trial gains 1.1 "
      "times "
      "by it, in stages if one gains 1.02 times by it, stages "
      "from a gain of 1.1, pools from one of 1.02. The claim that is examined: it is behind no published "
      "policy, in "
      "its best form, on any "
      "headline "
      "metric, with the same requests, cluster and cost model. Losses are shown as wins are.");
  p.text(fmt::format(
      "*Seen* workloads were looked at in the same setting, at this or another load and under other seeds, while the "
      "rules were chosen; *held-out* ones were not. Every number is a mean over {} seeds, from {} on, ± half of its 95 "
      "% interval; changes are taken seed by seed. Near saturation much depends on the seeds. What a policy knows of "
      "the traffic beforehand, lengths for predictions and for stages, it knows from as many requests of the same kind "
      "drawn under another seed; `due-first` knows nothing beforehand. *Fall behind*: in what part of the seeds the "
      "queue grows, as `replay` judges it.",
      o.seeds, first_seed));
  p.text(fmt::format(
      "**Scores.** In PARS's setting `pars` and `due-first` get the same: the logarithm of the true output "
      "length with normal noise, as much as gives a tau-b of {}, that of PARS's model on its page. "
      "`due-first` turns them into expected lengths, learned while it runs from the scores and lengths of "
      "the requests before, with a step for every 64; before any has ended only their order counts. In the "
      "other settings nobody has scores: `due-first` expects the mean of the lengths of every request, or of those "
      "in the same class of prompts, where the longer have outputs three times as long.",
      tau_of_pars));
  summary(p, settings, found);
  for (std::size_t i = 0; i != settings.size(); ++i) show_setting(p, settings[i], found[i]);
  conserved(p, settings.front(), found.front());
  // What a part does is told from the same requests with and without: fewer seeds do.
  options few = o;
  few.seeds = std::min<std::size_t>(o.seeds, 3);
  frontier(p, o, settings.front());
  show_sweeps(p, o, settings, found);
  told(p, o, std::span{settings}.subspan(2, 2), std::span{found}.subspan(2, 2));
  ablation(p, few, settings);
  p.finish();
}

[[maybe_unused]] const bool added = add({"due_first", "our own composition in the four papers' settings", run});

}  // namespace

}  // namespace reproduce::due_first_page
