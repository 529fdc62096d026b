// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library's own composition, `due-first`, in the settings of the four papers, against each paper's policy on that
// paper's headline metric.
#include "settings.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using namespace reproduce;
using cascade_setting::contestant;

/// Other requests than those of the papers' pages.
constexpr std::uint64_t first_seed = 201;
/// From a run's seed to that of its history.
constexpr std::uint64_t history_seeds = 1000;
/// tau-b of PARS's model on real prompts (see its page).
constexpr double tau_of_pars = 0.54;

// -- what is run and measured ---------------------------------------------------------------------------------------

/// What is kept of a run.
struct sample {
  sim::summary numbers;
  double throughput = 0;  ///< Output tokens per second while requests arrive.
  bool staged = false;    ///< Whether instances were in stages.
};
using samples = std::vector<sample>;  ///< One per seed.

/// What runs are judged by.
struct metric {
  std::string name;
  int digits = 2;
  std::function<double(const sample&, const sample& fcfs)> get;  ///< The second is the first contestant's run.
  bool headline = false;
  bool more_is_better = false;
  bool in_points = false;  ///< Per cent of something already: changes are differences.
};

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
  std::string text;
  std::string ablated;     ///< The trial of the ablation.
  std::size_t theirs = 0;  ///< The paper's own policy among the contestants.
  bool has_scores = false;
  std::vector<metric> metrics;
  std::vector<trial> trials;
};

constexpr auto quiet = [](std::size_t) {};

contestant ours(std::string name, const sim::due_first_config& config = {}) {
  return {std::move(name), [config](const cluster_options& c, const rows_type& /*history*/, const rows_type& rows) {
            return sim::run_due_first(c, rows, {}, config, quiet);
          }};
}
std::vector<contestant> named(std::string_view names) {
  std::vector<contestant> out;
  for (sim::policy& p : sim::select_policies(sim::published_policies(), names)) {
    std::string name = p.name;
    out.push_back({std::move(name), runs(std::move(p))});
  }
  return out;
}
/// With `due-first` as the last.
std::vector<contestant> and_ours(std::vector<contestant> others) {
  others.push_back(ours("due-first"));
  return others;
}

sample keep(run_result&& r) {
  if (r.numbers.completed != r.numbers.requests) throw std::runtime_error{"a request did not complete"};
  return {.numbers = std::move(r.numbers),
          .throughput = cascade_setting::measure(r).throughput,
          .staged = r.measures.contains("stage_output_cv")};
}

using found_type = std::vector<std::vector<samples>>;  ///< `[trial][contestant]`

/// All contestants under every seed; every trial has as many.
found_type run_all(const options& o, const std::vector<trial>& trials) {
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

std::vector<float> lengths_of(const rows_type& rows) {
  std::vector<float> lengths;
  for (const trace_row& r : rows) lengths.push_back(static_cast<float>(r.output_tokens));
  return lengths;
}

rows_type scored(rows_type rows, double noise, std::uint64_t seed) {
  const std::vector<float> scores = pars_setting::with_noise(lengths_of(rows), noise, seed);
  for (std::size_t i = 0; i != rows.size(); ++i) rows[i].score = scores[i];
  return rows;
}

// -- the settings ---------------------------------------------------------------------------------------------------

double ms(double s) { return 1e3 * s; }

setting pascals(const options& o) {
  using namespace pascal_setting;
  const auto against = [](auto& a, auto& b) { return compare_tails(tails_of(a.numbers), tails_of(b.numbers)); };
  const auto best = [=](auto& a, auto& b) { return 100 * (1 + against(a, b).best); };
  const auto worst = [=](auto& a, auto& b) { return 100 * (1 + against(a, b).worst); };
  setting s{
      .name = "PASCAL",
      .text = fmt::format(
          "Eight `{}`, requests at so much of the rate at which FCFS saturates, found as on PASCAL's page. The "
          "headline: "
          "tail TTFT in the 256-token bin of reasoning length where it is best against FCFS, and in the one where it "
          "is worst, in per cent of FCFS's tail in that bin (paper: 28 at best, 106 at worst). Here bins are compared "
          "seed by seed and the extremes averaged, on PASCAL's page bins are averaged first, which makes them less "
          "extreme.",
          profile_name),
      .ablated = "arena-chat, 0.99",
      .theirs = 1,
      .metrics =
          {
              {"best bin, % of FCFS", 1, best, true, false, true},
              {"worst bin, % of FCFS", 1, worst, true, false, true},
              {"TTFT mean, s", 2, [](auto& a, auto&) { return a.numbers.ttft.mean; }},
              {"TTFT P99, s", 2, [](auto& a, auto&) { return a.numbers.ttft.p99; }},
              {"SLO missed, %", 2, [](auto& a, auto&) { return 100 * a.numbers.slo_violation_rate; }},
              {"blocking P99, s", 2, [](auto& a, auto&) { return a.numbers.blocking_p99; }},
              {"tokens/s", 0, [](auto& a, auto&) { return a.numbers.window_tokens_per_s; }, false, true},
          },
      .trials = {}};
  for (const auto& [name, seen] :
       {std::pair{"arena-chat", true}, std::pair{"r1-servegen", true}, std::pair{"reasoning-heavy", true},
        std::pair{"alpaca-chat", true}, std::pair{"reasoning-chat", false}}) {
    const sim::workload& w = sim::find_workload(name);
    const double saturated = saturation_rate(w, o.quick ? 300 : 24'000, o.quick ? 1 : 2, o.threads);
    const std::size_t n = o.quick ? 300 : w.name == "r1-servegen" || w.name == "reasoning-heavy" ? 4'000 : 8'000;
    for (const double load : {0.93, 0.99, 1.05, 1.1}) {
      const double rate = load * saturated;
      s.trials.push_back({.workload = fmt::format("{}, {:g}", name, load),
                          .seen = seen,
                          .rows = [&w, rate, n](std::uint64_t seed) { return sim::generate(w, n, rate, seed); },
                          .cluster = [](const rows_type& rows) { return cluster_for(rows); },
                          .contestants = and_ours(named("fcfs,pascal,sarathi,pascal-paced"))});
    }
  }
  return s;
}

setting parss(const options& o) {
  using namespace pars_setting;
  const auto mean = [](auto& a, auto&) { return ms(a.numbers.normalized_latency.mean); };
  const auto p90 = [](auto& a, auto&) { return ms(a.numbers.normalized_latency.p90); };
  setting s{.name = "PARS",
            .text = {},
            .ablated = "r1-servegen, burst",
            .theirs = 1,
            .has_scores = true,
            .metrics = {{"mean, ms/token", 1, mean, true},
                        {"P90, ms/token", 1, p90, true},
                        {"FCFS / it, mean", 2, [=](auto& a, auto& b) { return mean(b, b) / mean(a, a); }, false, true},
                        {"FCFS / it, P90", 2, [=](auto& a, auto& b) { return p90(b, b) / p90(a, a); }, false, true},
                        {"end to end mean, s", 1, [](auto& a, auto&) { return a.numbers.e2e.mean; }},
                        {"SLO missed, %", 2, [](auto& a, auto&) { return 100 * a.numbers.slo_violation_rate; }}},
            .trials = {}};
  const std::size_t burst = o.quick ? 200 : 2'000;
  const std::size_t n = o.quick ? 300 : 4'000;
  std::string found;
  for (const auto& [name, seen] : {std::pair{"r1-servegen", true}, std::pair{"sharegpt", true},
                                   std::pair{"azure-conv", false}, std::pair{"reasoning-chat", false}}) {
    const sim::workload& w = sim::find_workload(name);
    const double noise = noise_for(lengths_of(answers_of(w, 4'000, 1, 1)), tau_of_pars, 1);
    // Load 1 is what FCFS completes of a seed's requests when they come much too fast.
    std::vector<double> capacity(o.seeds);
    std::vector<double> tau(o.seeds);
    sim::run_parallel(o.seeds, o.threads, [&](std::size_t k) {
      const rows_type rows = scored(answers_of(w, n, 1e4, first_seed + k), noise, first_seed + k);
      double end = 0;
      for (const auto& r : named("fcfs").front().run(server_for(testbed(), rows), {}, rows).requests) {
        end = std::max(end, r.finish);
      }
      capacity[k] = static_cast<double>(n) / end;
      std::vector<float> scores;
      for (const trace_row& r : rows) scores.push_back(r.score);
      tau[k] = tessera::rank::kendall_tau_b(scores, lengths_of(rows)).tau;
    });
    const estimate reached = sim::estimate_mean(tau);
    found += fmt::format("{}{}: deviation {:.2f}, tau-b {:.3f} ± {:.3f}, {:.2f} requests/s", found.empty() ? "" : "; ",
                         name, noise, reached.mean, reached.half_width, sim::estimate_mean(capacity).mean);
    const auto add = [&](const std::string& load, std::function<rows_type(std::uint64_t)> rows) {
      s.trials.push_back({.workload = fmt::format("{}, {}", name, load),
                          .seen = seen,
                          .rows = std::move(rows),
                          .cluster = [p = testbed()](const rows_type& r) { return server_for(p, r); },
                          .contestants = and_ours(named("fcfs,pars,pars-unboosted,pars-smooth,sarathi,sjf"))});
    };
    add("burst", [&w, burst, noise](std::uint64_t seed) {
      rows_type rows = scored(answers_of(w, burst, 1, seed), noise, seed);
      for (trace_row& r : rows) r.arrival_s = 0;
      return rows;
    });
    for (const double load : {0.95, 1.1}) {
      add(fmt::format("load {:g}", load), [&w, n, noise, load, capacity](std::uint64_t seed) {
        return scored(answers_of(w, n, load * capacity[(seed - first_seed) % capacity.size()], seed), noise, seed);
      });
    }
  }
  s.text = fmt::format(
      "One {}; all output is answer. A burst of {} requests at time 0, and {} with Poisson arrivals; load 1 is what "
      "FCFS completes of them when they come much too fast. The headline: end-to-end latency per output token. `sjf` "
      "has the true lengths. The SLO is that of an answer which has begun, as on PASCAL's page. Noise of the scores, "
      "tau-b reached, and load 1: {}.",
      testbed().name, burst, n, found);
  return s;
}

setting phasors(const options& o) {
  using namespace phasor_setting;
  constexpr double seconds = 500;
  setting s{
      .name = "Phasor",
      .text = fmt::format(
          "Eight {}, gamma arrivals with a coefficient of variation of {}, for {:g} s; all as on Phasor's page, and "
          "`phasor` with the published settings and the promised TTFT of each kind of task. Every system with pools "
          "is there with the pools that have the lowest P99 on other requests of the same kind, all ways to divide "
          "the workers tried; `phasor` also with the published 3/3/2. The headline: P99 of the end-to-end latency. Its "
          "second one, concurrency within the promises, is on Phasor's page, with `due-first` in the table.",
          testbed().name, burst_cv, seconds),
      .ablated = "production mix, 30/s",
      .theirs = 1,
      .metrics = {{"P99 end to end, s", 1, [](auto& a, auto&) { return a.numbers.e2e.p99; }, true},
                  {"P99 TTFT, s", 2, [](auto& a, auto&) { return a.numbers.ttft.p99; }},
                  {"TPOT mean, ms", 1, [](auto& a, auto&) { return ms(a.numbers.tpot.mean); }},
                  {"tokens/s", 0, [](auto& a, auto&) { return a.numbers.throughput_tokens_per_s; }, false, true},
                  {"fall behind, %", 0,
                   [](auto& a, auto&) { return a.numbers.load.state == sim::load_state::overload ? 100 : 0; }}},
      .trials = {}};
  // A workload's lengths, if one is named, in place of the archetype's.
  for (const auto& [kind, rate, seen, lengths] :
       {std::tuple{"mix", 20, true, ""}, std::tuple{"mix", 30, true, ""}, std::tuple{"mix", 40, true, ""},
        std::tuple{"S-L", 10, true, ""}, std::tuple{"L-S", 10, true, ""}, std::tuple{"L-L", 10, true, ""},
        std::tuple{"M-M", 5, true, ""}, std::tuple{"M-M", 10, true, ""}, std::tuple{"S-S", 40, false, ""},
        std::tuple{"mix", 15, false, "sharegpt"}, std::tuple{"mix", 40, false, "azure-conv"}}) {
    const archetype& a = find(kind);
    const std::string_view drawn = lengths;
    const std::size_t n = o.quick ? 200 : static_cast<std::size_t>(seconds * rate);
    trial t{.workload = fmt::format("{}, {}/s", drawn.empty() ? a.task : drawn, rate),
            .seen = seen,
            .rows =
                [&a, rate = rate, n, drawn](std::uint64_t seed) {
                  rows_type rows = steady(a, rate, n, seed);
                  if (drawn.empty()) return rows;
                  const rows_type from = pars_setting::answers_of(sim::find_workload(drawn), rows.size(), 1, seed);
                  for (std::size_t i = 0; i != rows.size(); ++i) {
                    rows[i].prompt_tokens = from[i].prompt_tokens;
                    rows[i].output_tokens = rows[i].answer_tokens = from[i].output_tokens;
                  }
                  return rows;
                },
            .cluster = [](const rows_type& rows) { return cluster_of(testbed(), rows.size()); },
            .contestants = {}};
    const auto with_best_pools = [&](const std::string& system, bool mixed, auto&& make) {
      rows_type other = t.rows(planning_seed);
      other.resize(other.size() / 2);
      const sim::pool_sizes sizes = best_pools(
          o, sim::pool_divisions(workers, mixed && !o.quick),
          [&](const sim::pool_sizes& p) { return -make(p).run(t.cluster(other), a, other).numbers.e2e.p99; });
      return phasor_setting::contestant{fmt::format("{} {}", system, phasor_setting::show(sizes)), make(sizes).run};
    };
    const std::vector<phasor_setting::contestant> others{
        with_best_pools("distserve", false, [](const sim::pool_sizes& p) { return distserve(p); }),
        phasor("phasor", {}),
        with_best_pools("phasor", true,
                        [](const sim::pool_sizes& p) { return phasor("phasor", {.mixed_pool = p.mixed != 0}, p); }),
        with_best_pools("splitwise", true, [](const sim::pool_sizes& p) { return splitwise(p); }),
        phasor_setting::named("sarathi")};
    for (const auto& system : others) {
      t.contestants.push_back({system.name, [&a, run = system.run](const cluster_options& c, const rows_type&,
                                                                   const rows_type& rows) { return run(c, a, rows); }});
    }
    t.contestants.push_back(ours("due-first"));
    s.trials.push_back(std::move(t));
  }
  return s;
}

setting cascades(const options& o) {
  using namespace cascade_setting;
  setting s{
      .name = "CascadeInfer",
      .text = fmt::format(
          "{} H20, {:g} s of Poisson arrivals, all as on CascadeInfer's page; where 1,200 s are named, the first 400 "
          "are not measured. ShareGPT's and azure-conv's rates "
          "are the part of the time that the prompts alone would keep all instances busy. "
          "The headlines: mean TTFT, mean TPOT and output tokens per second while requests arrive.",
          gpus, 40.0),
      .ablated = "long-tailed, 120/s",
      .theirs = 3,
      .metrics = {{"TTFT mean, s", 3, [](auto& a, auto&) { return a.numbers.ttft.mean; }, true},
                  {"TPOT mean, ms", 1, [](auto& a, auto&) { return ms(a.numbers.tpot.mean); }, true},
                  {"tokens/s", 0, [](auto& a, auto&) { return a.throughput; }, true, true},
                  {"TTFT P99, s", 2, [](auto& a, auto&) { return a.numbers.ttft.p99; }},
                  {"fall behind, %", 0,
                   [](auto& a, auto&) { return a.numbers.load.state == sim::load_state::overload ? 100 : 0; }}},
      .trials = {}};
  const auto add = [&](const source& from, const sim::model_spec& model, double part, double rate, bool seen,
                       double seconds = 40) {
    const sim::profile p = on_h20(model);
    const std::string load = (part > 0 ? fmt::format("{:g}", part) : fmt::format("{:g}/s", rate)) +
                             (seconds > 40 ? fmt::format(", {:g} s", seconds) : "");
    const double warmup = seconds > 40 && !o.quick ? seconds / 3 : 0;
    if (part > 0) rate = rate_for(from, p, gpus, part);
    const std::size_t n = o.quick ? 120 : static_cast<std::size_t>(rate * seconds);
    s.trials.push_back(
        {.workload = fmt::format("{}{}, {}", from.name, model.name == llama_3b().name ? "" : " on " + model.name, load),
         .seen = seen,
         .rows = [from, rate, n](std::uint64_t seed) { return draw(from, rate, n, seed); },
         .cluster =
             [p, warmup](const rows_type& rows) {
               cluster_options c = cluster_of(p, rows.size());
               c.warmup_s = warmup;
               return c;
             },
         .contestants = {}});
    std::vector<contestant> others = named("in-turn,llumnix,sarathi");
    others.push_back(cascade("cascade"));
    others.push_back(cascade("cascade-steady", sim::layout::steady));
    s.trials.back().contestants = and_ours(std::move(others));
  };
  const source azure{.name = "azure-conv", .built_in = &sim::find_workload("azure-conv")};
  const source reasoning{.name = "reasoning-chat", .built_in = &sim::find_workload("reasoning-chat")};
  add(long_chat(), llama_3b(), 0, 60, true);
  add(long_chat(), llama_3b(), 0, 120, true);
  add(long_chat(), llama_3b(), 0, 200, false);
  add(long_chat(), llama_3b(), 0, 40, false, 1200);
  add(long_chat(), llama_3b(), 0, 60, false, 1200);
  add(chat(o), llama_3b(), 0.5, 0, true);
  add(chat(o), llama_3b(), 0.85, 0, true);
  add(azure, llama_3b(), 0.75, 0, true);
  add(reasoning, llama_3b(), 0, 150, false);
  add(chat(o), qwen_14b(), 0.75, 0, false);
  return s;
}

// -- the page -------------------------------------------------------------------------------------------------------

std::string show(const estimate& e, int digits) {
  return std::isnan(e.mean) ? "-" : fmt::format("{:.{}f} ± {:.{}f}", e.mean, digits, e.half_width, digits);
}
std::string show_change(const metric& m, const estimate& e) {
  const std::string_view unit = m.in_points ? "points" : "%";
  return std::isnan(e.mean) ? "-" : fmt::format("{:+.1f} ± {:.1f} {}", e.mean, e.half_width, unit);
}
template <class F>
estimate over_seeds(const samples& runs, F&& f) {
  std::vector<double> values;
  for (std::size_t s = 0; s != runs.size(); ++s) values.push_back(f(s));
  std::erase_if(values, [](double x) { return !std::isfinite(x); });
  return sim::estimate_mean(values);
}

estimate value(const metric& m, const samples& runs, const samples& fcfs) {
  return over_seeds(runs, [&](std::size_t s) { return m.get(runs[s], fcfs[s]); });
}

/// The mean over the seeds of ours / theirs - 1 in per cent, by seed: both have the same requests.
estimate change(const metric& m, const samples& ours, const samples& theirs, const samples& fcfs) {
  return over_seeds(ours, [&](std::size_t s) {
    const double a = m.get(ours[s], fcfs[s]), b = m.get(theirs[s], fcfs[s]);
    return m.in_points ? a - b : 100 * (a / b - 1);
  });
}

enum verdict : std::size_t { ahead, alike, behind, verdicts };
constexpr std::array<std::string_view, verdicts> verdict_names{"ahead", "alike", "behind"};

verdict verdict_of(const metric& m, const estimate& change) {
  if (!(std::abs(change.mean) > change.half_width)) return alike;
  return (change.mean > 0) == m.more_is_better ? ahead : behind;
}

/// Adds `part` to a cell that holds one for each headline.
void join(std::string& cell, std::string_view part) {
  if (!cell.empty()) cell += " / ";
  cell += part;
}

/// The best of the others in a metric, but for who knows the lengths.
std::size_t best_rival(const metric& m, const trial& t, const std::vector<samples>& runs) {
  std::size_t best = 0;
  for (std::size_t c = 1; c + 1 != runs.size(); ++c) {
    if (t.contestants[c].name == "sjf") continue;
    const double x = value(m, runs[c], runs[0]).mean, y = value(m, runs[best], runs[0]).mean;
    if (m.more_is_better ? x > y : x < y) best = c;
  }
  return best;
}

void summary(page& p, const std::vector<setting>& settings, const std::vector<found_type>& found) {
  std::vector<std::vector<std::string>> table;
  std::array<std::array<std::size_t, verdicts>, 2> count{};  // held out, seen
  std::vector<std::string> lost;
  for (std::size_t i = 0; i != settings.size(); ++i) {
    const setting& s = settings[i];
    for (std::size_t t = 0; t != s.trials.size(); ++t) {
      const auto& runs = found[i][t];
      std::array<std::string, 5> cells;  // metric, the best of the others, ours, change, word
      for (const metric& m : s.metrics) {
        if (!m.headline) continue;
        const std::size_t rival = best_rival(m, s.trials[t], runs);
        const estimate e = change(m, runs.back(), runs[rival], runs[0]);
        const verdict v = verdict_of(m, e);
        ++count[s.trials[t].seen ? 1 : 0][v];
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
  if (!lost.empty()) p.lead(fmt::format("Behind: {}.", fmt::join(lost, "; ")));
  p.heading("Summary");
  p.table({"setting", "workload", "", "headline", "the best of the others", "due-first", "change", ""}, table);
}

void show_setting(page& p, const setting& s, const found_type& found) {
  p.heading(s.name + "'s setting");
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

/// `due-first` without each of its parts, with scores where it has none, and the paper's policy with bounded steps.
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
    const auto at = std::find_if(s.trials.begin(), s.trials.end(), [&](auto& t) { return t.workload == s.ablated; });
    if (at == s.trials.end()) throw std::logic_error{"no such trial"};
    trial t = *at;
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
      "bounded, and pools are not tried. Last, the "
      "paper's policy, as it is and with the same bound on its steps, which any policy could have.");
  p.table({"", "", "headline", "", "change"}, table);
}

void run(const options& o) {
  page p{o, "A composition of our own in the four papers' settings"};
  const std::vector<setting> settings{pascals(o), parss(o), phasors(o), cascades(o)};
  std::vector<found_type> found;
  for (const setting& s : settings) found.push_back(run_all(o, s.trials));
  p.text(
      "`due-first` is in no paper. It is made of the library's parts: `order::earliest_due`, in which readers who are "
      "about to run dry go first and all else by when it is due, which is reckoned anew while a request reasons, and "
      "by "
      "a clock that goes slower the more wait; placement by headroom, of the prompts to compute and of the memory, and "
      "a bound on what prompts add to a step; instead of these CascadeInfer's stages where the planner expects a gain "
      "of a quarter or more, or Phasor's pools where a trial on the last requests finds a gain of a fiftieth. It is "
      "told nothing of the traffic beforehand: it learns lengths while it runs, and plans again. The same rules "
      "and parameters are used everywhere on this page: the defaults (pace 0.1 s a token, slice 250 tokens, margin 1 "
      "s, twice the first expectation at most, watermark 1 %), prompts for what a decode step leaves of 50 ms, stages "
      "from a gain of 1.25, pools from one of 1.02. The claim that is examined: it is behind no published policy, in "
      "its best form, on any "
      "headline "
      "metric, with the same requests, cluster and cost model. Losses are shown as wins are.");
  p.text(fmt::format(
      "*Seen* workloads were looked at in the same setting, at this or another load and under other seeds, while the "
      "rules were chosen; *held-out* ones were not. Every number is a mean over {} seeds, from {} on, ± half of its 95 "
      "% interval; changes are taken seed by seed. Near saturation much depends on the seeds. What a policy knows of "
      "the traffic beforehand, lengths for predictions and for stages, it knows from as many requests of the same kind "
      "drawn under another seed; `due-first` knows nothing beforehand.",
      o.seeds, first_seed));
  p.text(
      fmt::format("**Scores.** In PARS's setting `pars` and `due-first` get the same: the logarithm of the true output "
                  "length with normal noise, as much as gives a tau-b of {}, that of PARS's model on its page. "
                  "`due-first` turns them into expected lengths, learned while it runs from the scores and lengths of "
                  "the requests before, with a step for every 64; before any has ended only their order counts. In the "
                  "other settings nobody has scores: `due-first` expects the mean of the lengths of every request.",
                  tau_of_pars));
  summary(p, settings, found);
  for (std::size_t i = 0; i != settings.size(); ++i) show_setting(p, settings[i], found[i]);
  ablation(p, o, settings);
  p.finish();
}

[[maybe_unused]] const bool added = add({"due_first", "our own composition in the four papers' settings", run});

}  // namespace
