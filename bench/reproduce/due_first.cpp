// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library's own composition, `due-first`, in the settings of the four papers, against each paper's policy on that
// paper's headline metric.
#include "settings.hpp"

#include <tessera/sim/planning/step_bounds.hpp>

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
  double throughput = 0;    ///< Output tokens per second while requests arrive.
  bool staged = false;      ///< Whether instances were in stages.
  double good = 0;          ///< Part of the requests that are within `promise`.
  double token_s = 0;       ///< Seconds from a request's arrival to a token of it, mean over all tokens.
  double longest_ttft = 0;  ///< Of all requests.
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
  double most = 0;         ///< More cannot be; 0: no such value is known.
};

/// Whether the queue grows: over the seeds, in what part of them.
metric fall_behind() {
  return {.name = "fall behind, %",
          .digits = 0,
          .get = [](const sample& a,
                    const sample&) { return a.numbers.load.state == sim::load_state::overload ? 100.0 : 0.0; },
          .in_points = true};
}
/// Answers whose SLO is missed.
metric slo_missed() {
  return {.name = "SLO missed, %",
          .digits = 2,
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
/// A policy that leaves its placement open, with one that is named.
contestant with_placement(std::string_view policy, std::string_view placement) {
  return {fmt::format("{}, {}", policy, placement),
          [run = runs(published(policy)), at = sim::find_placement(placement)](
              cluster_options c, const rows_type& history, const rows_type& rows) {
            c.placement = at;
            return run(c, history, rows);
          }};
}
/// Who is told what no server knows: shown, and no rival.
bool is_oracle(std::string_view name) { return name == "sjf" || name.starts_with("kvflow"); }

/// With `due-first` as the last.
std::vector<contestant> and_ours(std::vector<contestant> others) {
  others.push_back(ours("due-first"));
  return others;
}

/// What goodput on this page means: seconds to the first token, and for each that follows.
constexpr struct {
  double ttft = 2, tpot = 0.1;
} promise;

/// Seconds from arrival to each token, summed over the tokens: linear between the moments that are known, so that an
/// interruption counts where it ends.
double seconds_to_tokens(const sim::request_record& r) {
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

sample keep(run_result&& r) {
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

std::string of_seeds(const options& o) { return fmt::format("Means over the first {} seeds.", o.seeds); }

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
              slo_missed(),
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
                        slo_missed()},
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
          "second one, concurrency within the promises, is on Phasor's page; `due-first` has a column in its table, by "
          "older rules, and what holds since stands above it.",
          testbed().name, burst_cv, seconds),
      .ablated = "production mix, 30/s",
      .theirs = 1,
      .metrics = {{"P99 end to end, s", 1, [](auto& a, auto&) { return a.numbers.e2e.p99; }, true},
                  {"P99 TTFT, s", 2, [](auto& a, auto&) { return a.numbers.ttft.p99; }},
                  {"TPOT mean, ms", 1, [](auto& a, auto&) { return ms(a.numbers.tpot.mean); }},
                  {"tokens/s", 0, [](auto& a, auto&) { return a.numbers.throughput_tokens_per_s; }, false, true},
                  fall_behind()},
      .trials = {}};
  // A workload's lengths, if one is named, in place of the archetype's.
  for (const auto& [kind, rate, seen, lengths] :
       {std::tuple{"mix", 20, true, ""}, std::tuple{"mix", 30, true, ""}, std::tuple{"mix", 40, true, ""},
        std::tuple{"S-L", 10, true, ""}, std::tuple{"L-S", 10, true, ""}, std::tuple{"L-L", 10, true, ""},
        std::tuple{"M-M", 5, true, ""}, std::tuple{"M-M", 10, true, ""}, std::tuple{"S-S", 40, true, ""},
        std::tuple{"S-L", 5, false, ""}, std::tuple{"mix", 15, false, "sharegpt"},
        std::tuple{"mix", 40, true, "azure-conv"}}) {
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
          "are the part of the time that the prompts alone would keep all instances busy. In stages: in all seeds "
          "there were stages in the end. "
          "The headlines: mean TTFT, mean TPOT and output tokens per second while requests arrive.",
          gpus, 40.0),
      .ablated = "long-tailed, 120/s",
      .theirs = 3,
      .metrics = {{"TTFT mean, s", 3, [](auto& a, auto&) { return a.numbers.ttft.mean; }, true},
                  {"TPOT mean, ms", 1, [](auto& a, auto&) { return ms(a.numbers.tpot.mean); }, true},
                  {"tokens/s", 0, [](auto& a, auto&) { return a.throughput; }, true, true},
                  {"TTFT P99, s", 2, [](auto& a, auto&) { return a.numbers.ttft.p99; }},
                  {"end to end mean, s", 2, [](auto& a, auto&) { return a.numbers.e2e.mean; }},
                  fall_behind()},
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
  add(long_chat(), llama_3b(), 0, 200, true);
  add(long_chat(), llama_3b(), 0, 40, true, 1200);
  add(long_chat(), llama_3b(), 0, 60, true, 1200);
  add(chat(o), llama_3b(), 0.5, 0, true);
  add(chat(o), llama_3b(), 0.85, 0, true);
  add(azure, llama_3b(), 0.75, 0, true);
  add(reasoning, llama_3b(), 0, 150, true);
  add(chat(o), qwen_14b(), 0.75, 0, true);
  add(azure, qwen_14b(), 0.6, 0, false);
  add(reasoning, llama_3b(), 0, 250, false);
  return s;
}

constexpr std::string_view large_model = "h100-96gb-qwen-32b";
constexpr std::string_view small_model = "h200-llama-3.1-8b";
constexpr std::string_view old_machine = "v100-qwen2.5-7b";

setting sessions(const options& o) {
  setting s{
      .name = "sessions",
      .text = fmt::format(
          "Conversations and coding agents (docs/replay.md), with prefix caches, on eight instances; a turn comes when "
          "the one before has been answered and thought about. The headlines: how long a session waits for all its "
          "calls, mean and P99 over the sessions; TTFT of the calls, mean and P99; and goodput, the part of the calls "
          "that have their first token within {:g} s and one each {:g} s from then on. The others are what is "
          "published, with placements that know prefixes, and `fcfs` and `llumnix` as they are; whatever they know of "
          "times of thought they know "
          "from the workload itself; `due-first` is told, as `continuum` is, which of an agent's turns another one "
          "follows, and not when; of a person's nobody is. `kvflow` knows when each session goes on, which nobody "
          "does: it is shown, and no "
          "rival. Held out here is another machine, for there are no other sessions.",
          promise.ttft, promise.tpot),
      .ablated = "",
      .theirs = 3,
      .metrics = {{"sessions, mean s", 1, [](auto& a, auto&) { return a.numbers.session.mean; }, true},
                  {"sessions, P99 s", 1, [](auto& a, auto&) { return a.numbers.session.p99; }, true},
                  {"TTFT mean, s", 3, [](auto& a, auto&) { return a.numbers.ttft.mean; }, true},
                  {"TTFT P99, s", 2, [](auto& a, auto&) { return a.numbers.ttft.p99; }, true},
                  {"good, %", 1, [](auto& a, auto&) { return 100 * a.good; }, true, true, false, 100},
                  {"prefix hits, %", 1, [](auto& a, auto&) { return 100 * a.numbers.prefix_hit_rate; }, false, true},
                  {"TPOT P99, ms", 1, [](auto& a, auto&) { return ms(a.numbers.tpot.p99); }},
                  fall_behind()},
      .trials = {}};
  const auto add = [&](std::string_view workload, double rate, std::string_view machine, std::size_t blocks,
                       bool seen) {
    const sim::workload& w = sim::find_workload(workload);
    const std::size_t n = o.quick ? 200 : 3'000;
    s.trials.push_back(
        {.workload = fmt::format("{}, {:g}/s, {}{}", workload, rate, machine,
                                 blocks != 0 ? fmt::format(" of {} blocks", blocks) : ""),
         .seen = seen,
         .rows = [&w, rate, n](std::uint64_t seed) { return sim::generate(w, n, rate, seed); },
         .cluster = [machine, blocks](const rows_type& rows) { return servers(rows, machine, 8, blocks); },
         .contestants = {}});
    std::vector<contestant> others = named("fcfs");
    for (const auto& [policy, placement] :
         {std::pair{"fcfs", "lmetric"}, std::pair{"fcfs", "prefix-affinity"}, std::pair{"autellix", "lmetric"},
          std::pair{"autellix", "prefix-affinity"}, std::pair{"sarathi", "lmetric"}, std::pair{"continuum", "lmetric"},
          std::pair{"kvflow", "lmetric"}}) {
      others.push_back(with_placement(policy, placement));
    }
    for (contestant& c : named("llumnix")) others.push_back(std::move(c));
    s.trials.back().contestants = and_ours(std::move(others));
  };
  add("multi-turn", 12, large_model, 0, true);
  add("multi-turn", 22, large_model, 0, true);
  add("agentic", 8, small_model, 0, true);
  add("agentic", 8, small_model, 20'000, true);
  add("multi-turn", 50, small_model, 0, true);
  add("agentic", 1, large_model, 0, true);
  add("multi-turn", 15, old_machine, 0, false);
  add("agentic", 1, old_machine, 0, false);
  return s;
}

setting tenants(const options& o) {
  setting s{
      .name = "tenants",
      .text =
          "`noisy-neighbour`: four tenants, one of whom sends seven of ten requests, on two instances. The "
          "headlines: of what is due to each tenant the smallest part that one was given (docs/replay.md), "
          "TTFT P99 and the mean end-to-end latency. `due-first` lets start as `vtc` does, by `gate::fair_tenants`; "
          "among requests of a tenant it goes by its own order.",
      .ablated = "",
      .theirs = 1,
      .metrics = {{"worst share, %", 1, [](auto& a, auto&) { return 100 * a.numbers.worst_tenant; }, true, true, false,
                   100},
                  {"TTFT P99, s", 2, [](auto& a, auto&) { return a.numbers.ttft.p99; }, true},
                  {"end to end mean, s", 1, [](auto& a, auto&) { return a.numbers.e2e.mean; }, true},
                  {"tokens/s", 0, [](auto& a, auto&) { return a.numbers.window_tokens_per_s; }, false, true}},
      .trials = {}};
  const sim::workload& w = sim::find_workload("noisy-neighbour");
  for (const double rate : {6.0, 60.0}) {
    const std::size_t n = o.quick ? 200 : 3'000;
    s.trials.push_back({.workload = fmt::format("noisy-neighbour, {:g}/s", rate),
                        .seen = false,
                        .rows = [&w, rate, n](std::uint64_t seed) { return sim::generate(w, n, rate, seed); },
                        .cluster = [](const rows_type& rows) { return servers(rows, large_model, 2); },
                        .contestants = and_ours(named("fcfs,vtc,sarathi,llumnix"))});
  }
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
    if (is_oracle(t.contestants[c].name)) continue;
    const double x = value(m, runs[c], runs[0]).mean, y = value(m, runs[best], runs[0]).mean;
    if (m.more_is_better ? x > y : x < y) best = c;
  }
  return best;
}

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

/// Which trial of a setting has a workload, at its load.
std::size_t trial_of(const setting& s, std::string_view workload) {
  const auto at = std::find_if(s.trials.begin(), s.trials.end(), [&](auto& t) { return t.workload == workload; });
  if (at == s.trials.end()) throw std::logic_error{"no such trial"};
  return static_cast<std::size_t>(at - s.trials.begin());
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

/// What no order can change, looked for in the runs of PASCAL's setting; `fcfs` is their first, `due-first` the last.
void conserved(page& p, const setting& s, const std::vector<std::vector<samples>>& found) {
  p.heading("What no order can do");
  p.text(
      "Where a queue forms, no order lowers the longest time of every bin at once; docs/policies.md has the statements "
      "and their proofs, tests/unit/conservation_test.cpp checks them on schedulers with one place, where they are "
      "exact. "
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

/// One parameter from arrival order to shortest first: how much waiting a token of expected output is worth.
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

/// One parameter of `due-first` and the values it is given beside its default.
struct sweep {
  std::string_view heading;
  std::string_view text;
  std::string_view parameter;
  std::vector<std::pair<std::string, sim::due_first_config>> values;
  std::vector<std::pair<std::string_view, std::string_view>> trials;  ///< Setting and workload.
  std::string_view also = {};                                         ///< A metric to show beside the headlines.
};

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

/// What a parameter buys, and what it costs, where `due-first` is behind.
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

/// Where it is behind in Phasor's and CascadeInfer's settings: the same when it is told as much of the traffic as the
/// others are.
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
