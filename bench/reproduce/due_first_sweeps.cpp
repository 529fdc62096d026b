// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Other rates, lengths and clusters, and what it is worth to be told what is promised.
#include "due_first_page.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace reproduce::due_first_page {

std::vector<sweep> sweeps() {
  const auto step = [](double s) { return std::pair{fmt::format("{:g}", s), sim::due_first_config{.step_s = s}}; };
  const auto full = [](std::string name, double gain) {
    return std::pair{std::move(name), sim::due_first_config{.least_full_gain = gain}};
  };
  const auto prompts = [](double n) { return std::pair{fmt::format("{:g}", n), sim::due_first_config{.prompts = n}}; };
  const auto weight = [](double w) { return std::pair{fmt::format("{:g}", w), sim::due_first_config{.programs = w}}; };
  return {
      {"Old programs against young ones",
       "`programs`, how many tokens of expected output a token is worth that a request's program has been given "
       "(`rank::program_length`), where agents are far more than eight instances carry. The default is 0.",
       "programs",
       {weight(0.003), weight(0.01), weight(0.03), weight(0.1)},
       {{"sessions", "agentic, 1/s, h100-96gb-qwen-32b"}}},
      {"Decodes against prompts",
       "`step_s`, the seconds that a step with prompts may take where they are bounded. The default is 0.05.",
       "step_s",
       {step(0.025), step(0.1), {"not bounded", {.bounded_steps = false}}},
       {{"sessions", "multi-turn, 22/s, h100-96gb-qwen-32b"},
        {"CascadeInfer", "ShareGPT on Qwen-2.5-14B, 0.75"},
        {"Phasor", "summaries, 10/s"},
        {"Phasor", "azure-conv, 40/s"}}},
      {"Time to first token against time per token, in stages",
       "`least_full_gain`, how many times faster CascadeInfer's own plan, which takes all instances for full, has to "
       "be "
       "in a trial to be taken instead of the one by which nobody waits long for a first token. The default is 1.1.",
       "least_full_gain",
       {full("1.25", 1.25), full("1.5", 1.5), full("never", 1e9)},
       {{"CascadeInfer", "long-tailed, 120/s"}, {"CascadeInfer", "long-tailed, 200/s"}}},
      {"Large stages against small ones",
       "`least_fine_gain`, how many times faster stages of any size have to be in a trial than those that have a "
       "quarter of the instances at least. The default is 1.02.",
       "least_fine_gain",
       {{"never", {.least_fine_gain = 1e9}}},
       {{"CascadeInfer", "long-tailed, 40/s, 1200 s"},
        {"CascadeInfer", "ShareGPT, 0.85"},
        {"CascadeInfer", "reasoning-chat, 150/s"}}},
      {"Time to first token against time per token, by bounded prompts in stages",
       "`least_bounded_gain`, how many times faster stages have to be in a trial with prompts bounded as they are "
       "without stages. The default is 1.02; never is how it was until 2026-11-26.",
       "least_bounded_gain",
       {{"never", {.least_bounded_gain = 1e9}}},
       {{"CascadeInfer", "ShareGPT, 0.5"},
        {"CascadeInfer", "ShareGPT, 0.85"},
        {"CascadeInfer", "ShareGPT on Qwen-2.5-14B, 0.75"},
        {"CascadeInfer", "long-tailed, 200/s"}},
       "end to end mean, s"},
      {"Pools for a fiftieth, or not",
       "`least_pool_gain`, how many times faster prompts and decodes on different instances have to be in trials. The "
       "default is 1.02.",
       "least_pool_gain",
       {{"1", {.least_pool_gain = 1}}, {"1.05", {.least_pool_gain = 1.05}}, {"never", {.least_pool_gain = 1e9}}},
       {{"Phasor", "production mix, 20/s"},
        {"Phasor", "production mix, 30/s"},
        {"Phasor", "dialogue, 10/s"},
        {"Phasor", "azure-conv, 40/s"}},
       "P99 TTFT, s"},
      {"Longer steps where prompts wait",
       "`least_step_gain`, how many times faster steps of twice the length have to be in a trial. The default is 1.1; "
       "never is how it was until 2026-11-26.",
       "least_step_gain",
       {{"never", {.least_step_gain = 1e9}}},
       {{"PARS", "r1-servegen, load 1.1"}, {"PARS", "sharegpt, load 1.1"}}},
      {"Short prompts before long ones",
       "`prompts`, for how many times what its prompt takes beyond the mean of all a request is held. The default is "
       "32; 0: not at all.",
       "prompts",
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

void show_sweeps(page& p, const options& o, const std::vector<setting>& settings,
                 const std::vector<found_type>& found) {
  p.heading("Where it is behind: what one parameter buys");
  p.text(
      "Each table has one parameter at its default and at other values, beside the best of the others in each "
      "metric. Changes are from the default.");
  for (const sweep& w : sweeps()) {
    p.text(fmt::format("**{}.** {}", w.heading, w.text));
    std::vector<std::vector<std::string>> table;
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
      std::array<std::string, 3> cells;  // metrics, the best of the others, the default
      std::vector<std::string> changed(others.size());
      for (const metric& m : s.metrics) {
        if (!m.headline && m.name != w.also) continue;
        const std::size_t rival = best_rival(m, s.trials[t], runs);
        join(cells[0], m.name);
        join(cells[1],
             fmt::format("{} {}", s.trials[t].contestants[rival].name, show(value(m, runs[rival], runs[0]), m.digits)));
        join(cells[2], show(value(m, runs.back(), runs[0]), m.digits));
        for (std::size_t c = 0; c != others.size(); ++c) {
          join(changed[c], fmt::format("{:.{}f} ({})", value(m, others[c], runs[0]).mean, m.digits,
                                       show_change(m, change(m, others[c], runs.back(), runs[0]))));
        }
      }
      table.push_back({fmt::format("{}, {}", s.name, workload), "the best of the others", cells[0], cells[1]});
      table.push_back({"", "the default", "", cells[2]});
      for (std::size_t c = 0; c != others.size(); ++c) table.push_back({"", w.values[c].first, "", changed[c]});
    }
    p.table({"workload", std::string{w.parameter}, "metric", ""}, table);
  }
}

void told(page& p, const options& o, std::span<const setting> settings, std::span<const found_type> found) {
  const contestant with_history{"told", [](const cluster_options& c, const rows_type& history, const rows_type& rows) {
                                  return sim::run_due_first(c, rows, history, {}, quiet);
                                }};
  std::vector<std::vector<std::string>> table;
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
      std::array<std::string, 5> cells;
      for (const metric& m : s.metrics) {
        if (!m.headline) continue;
        const samples& rival = runs[best_rival(m, s.trials[k], runs)];
        join(cells[0], m.name);
        join(cells[1], show_change(m, change(m, runs.back(), rival, runs[0])));
        join(cells[2], fmt::format("{:.{}f}", value(m, ours, runs[0]).mean, m.digits));
        join(cells[3], show_change(m, change(m, ours, rival, runs[0])));
        join(cells[4], verdict_names[verdict_for(m, ours)]);
      }
      table.push_back({s.name, t.workload, cells[0], cells[1], cells[2], cells[3], cells[4]});
    }
  }
  if (table.empty()) return;
  p.heading("What it costs to know nothing beforehand");
  p.text(
      "CascadeInfer's stages are planned from a history, and the best split of the pools is found on the very traffic; "
      "`due-first` begins with nothing, and in 40 s it plans five or six times, first from the few short requests that "
      "have ended. These are its losses in the two settings, and the same runs when it is given the history that "
      "`cascade` is given: changes are from the best of the others, as in the summary.");
  p.table({"setting", "workload", "headline", "told nothing", "given a history", "change", ""}, table);
}

}  // namespace reproduce::due_first_page
