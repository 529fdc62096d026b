// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Other rates, lengths and clusters, and what it is worth to be told what is promised.
#include "due_first_runs.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace reproduce::due_first_runs {

std::vector<sweep> sweeps() {
  const auto step = [](double s) { return std::pair{fmt::format("{:g}", s), sim::due_first_config{.step_s = s}}; };
  const auto full = [](std::string name, double gain) {
    return std::pair{std::move(name), sim::due_first_config{.least_full_gain = gain}};
  };
  const auto prompts = [](double n) { return std::pair{fmt::format("{:g}", n), sim::due_first_config{.prompts = n}}; };
  const auto weight = [](double w) { return std::pair{fmt::format("{:g}", w), sim::due_first_config{.programs = w}}; };
  return {
      // Old programs against young ones: tokens of expected output that a token is worth which the program has been
      // given.
      {"programs",
       {weight(0.003), weight(0.01), weight(0.03), weight(0.1)},
       {{"sessions", "agentic, 1/s, h100-96gb-qwen-32b"}}},
      // Decodes against prompts: seconds that a step with prompts may take where they are bounded.
      {"step_s",
       {step(0.025), step(0.1), {"not bounded", {.bounded_steps = false}}},
       {{"sessions", "multi-turn, 22/s, h100-96gb-qwen-32b"},
        {"CascadeInfer", "ShareGPT on Qwen-2.5-14B, 0.75"},
        {"Phasor", "summaries, 10/s"},
        {"Phasor", "azure-conv, 40/s"}}},
      // Time to first token against time per token, in stages.
      {"least_full_gain",
       {full("1.25", 1.25), full("1.5", 1.5), full("never", 1e9)},
       {{"CascadeInfer", "long-tailed, 120/s"}, {"CascadeInfer", "long-tailed, 200/s"}}},
      // Large stages against small ones.
      {"least_fine_gain",
       {{"never", {.least_fine_gain = 1e9}}},
       {{"CascadeInfer", "long-tailed, 40/s, 1200 s"},
        {"CascadeInfer", "ShareGPT, 0.85"},
        {"CascadeInfer", "reasoning-chat, 150/s"}}},
      // Time to first token against time per token, by bounded prompts in stages.
      {"least_bounded_gain",
       {{"never", {.least_bounded_gain = 1e9}}},
       {{"CascadeInfer", "ShareGPT, 0.5"},
        {"CascadeInfer", "ShareGPT, 0.85"},
        {"CascadeInfer", "ShareGPT on Qwen-2.5-14B, 0.75"},
        {"CascadeInfer", "long-tailed, 200/s"}},
       "end to end mean, s"},
      // How much faster prompts and decodes on different instances have to be in trials.
      {"least_pool_gain",
       {{"1", {.least_pool_gain = 1}}, {"1.05", {.least_pool_gain = 1.05}}, {"never", {.least_pool_gain = 1e9}}},
       {{"Phasor", "production mix, 20/s"},
        {"Phasor", "production mix, 30/s"},
        {"Phasor", "dialogue, 10/s"},
        {"Phasor", "azure-conv, 40/s"}},
       "P99 TTFT, s"},
      // Longer steps where prompts wait.
      {"least_step_gain",
       {{"never", {.least_step_gain = 1e9}}},
       {{"PARS", "r1-servegen, load 1.1"}, {"PARS", "sharegpt, load 1.1"}}},
      // Short prompts before long ones: how many times the extra time of its prompt a request is held.
      {"prompts",
       {prompts(0), prompts(16), prompts(64)},
       {{"PARS", "r1-servegen, load 0.95"},
        {"PARS", "r1-servegen, load 1.1"},
        {"PARS", "sharegpt, load 1.1"},
        {"Phasor", "production mix, 30/s"},
        {"Phasor", "azure-conv, 40/s"},
        {"CascadeInfer", "ShareGPT on Qwen-2.5-14B, 0.75"}},
       "P99 TTFT, s"},
  };
}

// Each parameter at its default and at other values, beside the best of the others in each metric. Changes are from the
// default.
void show_sweeps(results& out, const options& o, const std::vector<setting>& settings,
                 const std::vector<found_type>& found) {
  std::vector<row> rows;
  for (const sweep& w : sweeps()) {
    for (const auto& [in, workload] : w.trials) {
      const auto i = static_cast<std::size_t>(
          std::find_if(settings.begin(), settings.end(), [&, name = in](const setting& x) { return x.name == name; }) -
          settings.begin());
      const setting& s = settings.at(i);
      const std::size_t t = trial_of(s, workload);
      const auto& runs = found[i][t];
      trial varied = s.trials[t];
      varied.contestants.clear();
      for (const auto& [name, config] : w.values) varied.contestants.push_back(ours(name, config));
      const auto others = run_all(o, {varied}).front();
      const auto add = [&](std::string_view what, const metric& m, cell mean, cell changed) {
        const cell unit = changed.value().empty() ? cell{} : cell{unit_of(m)};
        rows.push_back({w.parameter, s.name, workload, what, m.name, std::move(mean), std::move(changed), unit});
      };
      const auto each = [&](auto&& show) {
        for (const metric& m : s.metrics) {
          if (m.headline || m.name == w.also) show(m);
        }
      };
      each([&](const metric& m) {
        const std::size_t rival = best_rival(m, s.trials[t], runs);
        add(s.trials[t].contestants[rival].name, m, value(m, runs[rival], runs[0]), {});
      });
      each([&](const metric& m) { add("default", m, value(m, runs.back(), runs[0]), {}); });
      for (std::size_t c = 0; c != others.size(); ++c) {
        each([&](const metric& m) {
          add(w.values[c].first, m, value(m, others[c], runs[0]), change(m, others[c], runs.back(), runs[0]));
        });
      }
    }
  }
  out.table("parameters", {"parameter", "setting", "workload", "value", "metric", "mean±", "change±", "unit"}, rows);
}

// CascadeInfer's stages are planned from a history, and the best split of the pools is found on the very traffic;
// `due-first` begins with nothing. These are its losses in the two settings, and the same runs when it is given the
// history that `cascade` is given. Changes are from the best of the others, as in the summary.
void told(results& out, const options& o, std::span<const setting> settings, std::span<const found_type> found) {
  const contestant with_history{"told", [](const cluster_options& c, const rows_type& history, const rows_type& rows) {
                                  return sim::run_due_first(c, rows, history, {}, quiet);
                                }};
  std::vector<row> rows;
  for (std::size_t i = 0; i != settings.size(); ++i) {
    const setting& s = settings[i];
    for (std::size_t k = 0; k != s.trials.size(); ++k) {
      const auto& runs = found[i][k];
      const auto verdict_for = [&](const metric& m, const samples& ours) {
        return verdict_of(m, change(m, ours, runs[best_rival(m, s.trials[k], runs)], runs[0]));
      };
      const auto lost = [&](const metric& m) { return m.headline && verdict_for(m, runs.back()) == behind; };
      if (std::none_of(s.metrics.begin(), s.metrics.end(), lost)) continue;
      trial t = s.trials[k];
      t.contestants = {with_history};
      const samples ours = run_all(o, {t}).front().front();
      for (const metric& m : s.metrics) {
        if (!m.headline) continue;
        const samples& rival = runs[best_rival(m, s.trials[k], runs)];
        rows.push_back({s.name, t.workload, m.name, change(m, runs.back(), rival, runs[0]),
                        value(m, ours, runs[0]).mean, change(m, ours, rival, runs[0]), unit_of(m),
                        verdict_names[verdict_for(m, ours)]});
      }
    }
  }
  out.table("history",
            {"setting", "workload", "metric", "told_nothing_change±", "with_history_mean", "with_history_change±",
             "unit", "verdict"},
            rows);
}

}  // namespace reproduce::due_first_runs
