// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What the parts of due-first's evaluation share: settings, runs, and how policies compare.

#include "cascade_setting.hpp"
#include "pars_setting.hpp"
#include "pascal_setting.hpp"
#include "phasor_setting.hpp"

#include <tessera/sim/policies/due_first.hpp>
#include <tessera/sim/policies/placements.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reproduce::due_first_runs {

using cascade_setting::contestant;

/// Other requests than those of the papers' evaluations.
inline constexpr std::uint64_t first_seed = 201;
/// From a run's seed to that of its history.
inline constexpr std::uint64_t history_seeds = 1000;
/// tau-b of PARS's model on real prompts (docs/results/pars).
inline constexpr double tau_of_pars = 0.54;

// -- what is run and measured ---------------------------------------------------------------------------------------

/// What is kept of a run.
struct sample {
  sim::summary numbers;
  double throughput = 0;    ///< Output tokens per second while requests arrive.
  bool staged = false;      ///< Whether instances were in stages.
  double good = 0;          ///< Part of the requests that are within `promise`.
  double token_s = 0;       ///< Seconds from a request's arrival to a token of it, mean over all tokens.
  double longest_ttft = 0;  ///< The longest of all requests.
};

using samples = std::vector<sample>;  ///< One per seed.

/// What runs are judged by.
struct metric {
  std::string name;
  std::function<double(const sample&, const sample& fcfs)> get;  ///< The second is the first contestant's run.
  bool headline = false;
  bool more_is_better = false;
  bool in_points = false;  ///< Per cent of something already: changes are differences.
  double most = 0;         ///< More cannot be; 0: no such value is known.
};

/// Whether the queue grows: over the seeds, in what part of them.
inline metric fall_behind() {
  return {.name = "fall behind, %",
          .get = [](const sample& a,
                    const sample&) { return a.numbers.load.state == sim::load_state::overload ? 100.0 : 0.0; },
          .in_points = true};
}

/// Answers that miss their SLO.
inline metric slo_missed() {
  return {.name = "SLO missed, %",
          .get = [](const sample& a, const sample&) { return 100 * a.numbers.slo_violation_rate; },
          .in_points = true};
}

/// One workload at one load.
struct trial {
  std::string workload;
  bool seen = false;  ///< Looked at while the rules were chosen.
  std::function<rows_type(std::uint64_t seed)> rows;
  std::function<cluster_options(const rows_type&)> cluster;
  std::vector<contestant> contestants;  ///< `due-first` is the last.
};

/// A paper's evaluation.
struct setting {
  std::string name;
  std::string ablated;     ///< The trial of the ablation.
  std::size_t theirs = 0;  ///< The paper's own policy among the contestants.
  bool has_scores = false;
  std::vector<metric> metrics;
  std::vector<trial> trials;
};

inline constexpr auto quiet = [](std::size_t) {};

inline contestant ours(std::string name, const sim::due_first_config& config = {}) {
  return {std::move(name), [config](const cluster_options& c, const rows_type& /*history*/, const rows_type& rows) {
            return sim::run_due_first(c, rows, {}, config, quiet);
          }};
}

inline std::vector<contestant> named(std::string_view names) {
  std::vector<contestant> out;
  for (sim::policy& p : sim::select_policies(compared_with(), names)) {
    std::string name = p.name;
    out.push_back({std::move(name), runs(std::move(p))});
  }
  return out;
}

/// A policy that leaves its placement open, with one that is named.
inline contestant with_placement(std::string_view policy, std::string_view placement) {
  return {fmt::format("{}, {}", policy, placement),
          [run = runs(published(policy)), at = sim::find_placement(placement)](
              cluster_options c, const rows_type& history, const rows_type& rows) {
            c.placement = at;
            return run(c, history, rows);
          }};
}

/// A policy that is told what no server knows: shown, and no rival.
inline bool is_oracle(std::string_view name) { return name == "sjf" || name.starts_with("kvflow"); }

/// With `due-first` as the last.
inline std::vector<contestant> and_ours(std::vector<contestant> others) {
  others.push_back(ours("due-first"));
  return others;
}

/// What goodput means here: seconds to the first token, and for each that follows.
inline constexpr struct {
  double ttft = 2, tpot = 0.1;
} promise;

/// Seconds from arrival to each token, summed over the tokens: linear between the moments that are known, so that an
/// interruption counts where it ends.
inline double seconds_to_tokens(const sim::request_record& r) {
  const auto reasoning = static_cast<double>(r.reasoning_tokens);
  const std::array<std::pair<double, double>, 4> known{{{1, r.first_token},
                                                        {reasoning, r.phase_change},
                                                        {reasoning + 1, r.first_answer},
                                                        {static_cast<double>(r.output_tokens()), r.finish}}};
  double sum = r.first_token - r.arrival;
  double tokens = 1, at = r.first_token;
  for (const auto& [n, when] : known) {
    if (!(n > tokens)) continue;
    sum += (n - tokens) * ((at + when) / 2 - r.arrival);
    tokens = n;
    at = when;
  }
  return sum;
}

inline sample keep(run_result&& r) {
  if (r.numbers.completed != r.numbers.requests) throw std::runtime_error{"a request did not complete"};
  sample s{.numbers = {},
           .throughput = cascade_setting::measure(r).throughput,
           .staged = r.measures.contains("stage_output_cv")};
  double good = 0, tokens = 0;
  for (const sim::request_record& x : r.requests) {
    good += x.ttft() <= promise.ttft && !(x.tpot() > promise.tpot) ? 1 : 0;
    tokens += static_cast<double>(x.output_tokens());
    s.token_s += seconds_to_tokens(x);
    s.longest_ttft = std::max(s.longest_ttft, x.ttft());
  }
  s.token_s /= tokens;
  s.good = good / static_cast<double>(r.requests.size());
  s.numbers = std::move(r.numbers);
  return s;
}

using found_type = std::vector<std::vector<samples>>;  ///< `[trial][contestant]`

/// All contestants under every seed; every trial has as many.
inline found_type run_all(const options& o, const std::vector<trial>& trials) {
  const std::size_t n = trials.front().contestants.size();
  found_type out(trials.size(), std::vector<samples>(n, samples(o.seeds)));
  sim::run_parallel(trials.size() * n * o.seeds, o.threads, [&](std::size_t i) {
    const std::size_t s = i % o.seeds;
    const std::size_t c = i / o.seeds % n;
    const std::size_t t = i / o.seeds / n;
    const rows_type rows = trials[t].rows(first_seed + s);
    const rows_type history = trials[t].rows(first_seed + s + history_seeds);
    out[t][c][s] = keep(trials[t].contestants[c].run(trials[t].cluster(rows), history, rows));
  });
  return out;
}

inline std::vector<float> lengths_of(const rows_type& rows) {
  std::vector<float> lengths;
  for (const trace_row& r : rows) lengths.push_back(static_cast<float>(r.output_tokens));
  return lengths;
}

inline rows_type scored(rows_type rows, double noise, std::uint64_t seed) {
  const std::vector<float> scores = pars_setting::with_noise(lengths_of(rows), noise, seed);
  for (std::size_t i = 0; i != rows.size(); ++i) rows[i].score = scores[i];
  return rows;
}

inline double ms(double s) { return 1e3 * s; }

// -- how policies compare --------------------------------------------------------------------------------------------

inline std::string unit_of(const metric& m) { return m.in_points ? "points" : "%"; }

template <class F>
estimate over_seeds(const samples& runs, F&& f) {
  std::vector<double> values;
  for (std::size_t s = 0; s != runs.size(); ++s) values.push_back(f(s));
  std::erase_if(values, [](double x) { return !std::isfinite(x); });
  return sim::estimate_mean(values);
}

inline estimate value(const metric& m, const samples& runs, const samples& fcfs) {
  return over_seeds(runs, [&](std::size_t s) { return m.get(runs[s], fcfs[s]); });
}

/// The mean over the seeds of ours / theirs - 1 in per cent, by seed: both have the same requests.
inline estimate change(const metric& m, const samples& ours, const samples& theirs, const samples& fcfs) {
  return over_seeds(ours, [&](std::size_t s) {
    const double a = m.get(ours[s], fcfs[s]), b = m.get(theirs[s], fcfs[s]);
    return m.in_points ? a - b : 100 * (a / b - 1);
  });
}

enum verdict : std::size_t { ahead, alike, behind, verdicts };
inline constexpr std::array<std::string_view, verdicts> verdict_names{"ahead", "alike", "behind"};

inline verdict verdict_of(const metric& m, const estimate& change) {
  if (!(std::abs(change.mean) > change.half_width)) return alike;
  return (change.mean > 0) == m.more_is_better ? ahead : behind;
}

/// The best of the others in a metric, except those that know the lengths.
inline std::size_t best_rival(const metric& m, const trial& t, const std::vector<samples>& runs) {
  std::size_t best = 0;
  for (std::size_t c = 1; c + 1 != runs.size(); ++c) {
    if (is_oracle(t.contestants[c].name)) continue;
    const double x = value(m, runs[c], runs[0]).mean, y = value(m, runs[best], runs[0]).mean;
    if (m.more_is_better ? x > y : x < y) best = c;
  }
  return best;
}

/// Which trial of a setting has a workload, at its load.
inline std::size_t trial_of(const setting& s, std::string_view workload) {
  const auto at = std::find_if(s.trials.begin(), s.trials.end(), [&](auto& t) { return t.workload == workload; });
  if (at == s.trials.end()) throw std::logic_error{"no such trial"};
  return static_cast<std::size_t>(at - s.trials.begin());
}

/// One parameter of `due-first` and the values it is given beside its default.
struct sweep {
  std::string_view parameter;
  std::vector<std::pair<std::string, sim::due_first_config>> values;
  std::vector<std::pair<std::string_view, std::string_view>> trials;  ///< Setting and workload.
  std::string_view also = {};                                         ///< A metric to show beside the headlines.
};

// -- parts of the evaluation, each in a source of its own -------------------------------------------------------------

setting pascals(const options& o);
setting parss(const options& o);
setting phasors(const options& o);
setting cascades(const options& o);
setting sessions(const options& o);
setting tenants(const options& o);
/// `due-first` without each of its parts, with scores where it has none, and the paper's policy with bounded steps.
void ablation(results& out, const options& o, const std::vector<setting>& settings);
/// What no order can change, looked for in the runs of PASCAL's setting; `fcfs` is their first, `due-first` the last.
void conserved(results& out, const setting& s, const std::vector<std::vector<samples>>& found);
/// One parameter from arrival order to shortest first: how much waiting a token of expected output is worth.
void frontier(results& out, const options& o, const setting& s);
std::vector<sweep> sweeps();
/// What a parameter buys, and what it costs, where `due-first` is behind.
void show_sweeps(results& out, const options& o, const std::vector<setting>& settings,
                 const std::vector<found_type>& found);
/// Where it is behind in Phasor's and CascadeInfer's settings: the same when it is told as much of the traffic as the
/// others are.
void told(results& out, const options& o, std::span<const setting> settings, std::span<const found_type> found);

}  // namespace reproduce::due_first_runs
