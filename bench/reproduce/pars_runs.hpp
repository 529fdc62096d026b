// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What the parts of PARS's evaluation share: prompts, rankings, and runs of a server.

#include "pars_setting.hpp"

#include <tessera/compose/pars.hpp>
#include <tessera/rank/features.hpp>
#include <tessera/rank/train.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/policies/due_first.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/report/progress.hpp>

#include <fmt/ranges.h>
#include <boost/math/distributions/normal.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reproduce::pars_runs {

using namespace reproduce::pars_setting;
namespace rank = tessera::rank;
using tessera::duration;
using rows_type = std::vector<std::uint32_t>;

// -- prompts --------------------------------------------------------------------------------------------------------

struct prompt {
  std::string text;
  std::int64_t prompt_tokens = 1;
  std::int64_t output_tokens = 1;
};

inline constexpr std::string_view prompts_file = "gpteacher_gpt4_prompts.jsonl";
inline constexpr std::string_view answerers_file = "lrm_token_economy.csv";

/// Prompts with lengths that follow from their words, with chance: for runs without data.
inline std::vector<prompt> made_up_prompts(std::size_t n) {
  constexpr std::array<std::string_view, 11> words{"the",   "cat",   "sat",   "under", "our", "old",
                                                   "table", "today", "while", "rain",  "fell"};
  sim::random_engine rng{7};
  std::vector<prompt> prompts;
  for (std::size_t i = 0; i != n; ++i) {
    const auto essay = static_cast<double>(sim::uniform_below(rng, 3));
    const bool code = sim::uniform_below(rng, 2) == 0;
    prompt p;
    p.text = essay == 2 ? "Write an essay:" : essay == 1 ? "Explain in a sentence:" : "Give one word:";
    for (int k = 0; k < 6; ++k) p.text.append(" ").append(words[sim::uniform_below(rng, words.size())]);
    if (code) p.text += ". With code.";
    p.prompt_tokens = 10 + (code ? 3 : 0);
    const double mean = 4 + 90 * essay + (code ? 60 : 0);
    p.output_tokens = 1 + static_cast<std::int64_t>(mean * std::exp(0.5 * sim::normal(rng)));
    prompts.push_back(std::move(p));
  }
  return prompts;
}

inline std::vector<prompt> read_prompts(const std::filesystem::path& file) {
  const std::string text = sim::read_file(file.string());
  std::vector<prompt> prompts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    try {
      const auto line = nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                              text.begin() + static_cast<std::ptrdiff_t>(end));
      prompts.push_back({line.at("prompt"), line.at("prompt_tokens"), line.at("output_tokens")});
    } catch (const nlohmann::json::exception& wrong) {
      throw sim::input_error{file.string(),
                             {prompts.size() + 1, 1},
                             "a JSON object with \"prompt\", \"prompt_tokens\" and \"output_tokens\"",
                             wrong.what()};
    }
    begin = end + 1;
  }
  return prompts;
}

// -- predictors -----------------------------------------------------------------------------------------------------

/// What is trained on: the prompts' features and lengths.
inline rank::dataset features_of(const std::vector<prompt>& prompts) {
  const rank::hashed_features f;
  rank::dataset data{f};
  for (const prompt& p : prompts) data.add(f, p.text, static_cast<float>(p.output_tokens));
  return data;
}

struct method {
  std::string name;
  rank::objective goal = rank::objective::pairwise;
  double delta = 0.2;
};

inline const method pairwise{"pairwise (PARS)"};
inline const method listwise{"listwise", rank::objective::listwise, 0};
inline const method pointwise{"pointwise", rank::objective::pointwise, 0};

inline rank::linear_training train(const rank::dataset& data, std::span<const std::uint32_t> rows, const method& m,
                                   std::uint64_t seed) {
  rank::train_options o;
  o.goal = m.goal;
  o.delta = m.delta;
  o.seed = seed;
  return rank::train_linear(data, rows, o);
}

inline constexpr std::size_t folds = 5;

/// tau-b on each fold of a model that was trained on the others. The folds are the same for every method.
inline std::vector<std::vector<double>> cross_validate(const options& o, const rank::dataset& data,
                                                       const std::vector<method>& methods) {
  std::vector<std::vector<double>> taus(methods.size(), std::vector<double>(folds));
  const rows_type all = data.all_rows();
  sim::run_parallel(methods.size() * folds, o.threads, [&](std::size_t i) {
    const rank::row_split split = rank::split_fold(all, folds, i % folds, 1);
    const auto model = train(data, split.train, methods[i / folds], 1);
    taus[i / folds][i % folds] = rank::evaluate(model.model(), data, split.held_out).tau;
  });
  return taus;
}

/// The mean of the folds' differences. Folds share most of what they were trained on, so their spread alone would
/// promise too much. The variance is that of the corrected resampled t-test (Nadeau and Bengio 2003), 1/k + 1/(k - 1)
/// in place of 1/k.
inline estimate difference(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> d;
  for (std::size_t i = 0; i != a.size(); ++i) d.push_back(a[i] - b[i]);
  estimate e = sim::estimate_mean(d);
  const auto k = static_cast<double>(d.size());
  e.half_width *= std::sqrt((1 / k + 1 / (k - 1)) * k);
  return e;
}

// -- the server -----------------------------------------------------------------------------------------------------

/// What one run is judged by. Latency per token is end-to-end latency / output tokens.
struct outcome {
  double mean = 0;
  double p90 = 0;
  double ttft_p99 = 0;      ///< What the tail pays.
  double longest_wait = 0;  ///< Arrival to first step.
  double boosted = 0;       ///< Share of the requests that had waited the threshold when they started.
  double makespan = 0;
  sim::load_verdict load;
};

/// No request may be overtaken once it is boosted: neither by one that is not, nor by a younger one. Where the batch
/// alone decides how many run, a wait is at most the threshold and one residence, unless a full batch was boosted
/// before. Both follow from the order; here they are read off the records, in every run.
inline void check_waits(const std::vector<sim::request_record>& records, double threshold, bool batch_binds) {
  using age = std::pair<double, std::uint64_t>;
  constexpr double rounding = 1e-6;  // the scheduler's clock has ticks
  const auto age_of = [](const sim::request_record& r) { return age{r.arrival, r.id}; };
  std::vector<const sim::request_record*> by_start;
  std::map<age, const sim::request_record*> waiting;
  double residence = 0;
  for (const auto& r : records) {
    by_start.push_back(&r);
    waiting.emplace(age_of(r), &r);
    residence = std::max(residence, r.finish - r.first_scheduled);
  }
  std::stable_sort(by_start.begin(), by_start.end(),
                   [](auto* a, auto* b) { return a->first_scheduled < b->first_scheduled; });
  for (std::size_t i = 0; i != by_start.size();) {
    const double now = by_start[i]->first_scheduled;
    std::size_t end = i;
    for (; end != by_start.size() && by_start[end]->first_scheduled == now; ++end)
      waiting.erase(age_of(*by_start[end]));
    if (!waiting.empty()) {
      const sim::request_record& oldest = *waiting.begin()->second;
      const double boosted_for = now - oldest.arrival - threshold;
      for (std::size_t k = i; k != end && boosted_for > rounding; ++k) {
        if (age_of(oldest) < age_of(*by_start[k])) {
          throw std::runtime_error{fmt::format("request {} was overtaken by {} at {} s, {} s after its boost",
                                               oldest.id, by_start[k]->id, now, boosted_for)};
        }
      }
    }
    i = end;
  }
  if (!batch_binds) return;
  for (const auto& r : records) {
    const double boost = r.arrival + threshold;
    if (r.first_scheduled <= boost + residence + rounding) continue;
    const auto ahead = std::count_if(records.begin(), records.end(), [&](const auto& other) {
      return age_of(other) < age_of(r) && other.first_scheduled >= boost;
    });
    if (static_cast<std::size_t>(ahead) < max_batch) {
      throw std::runtime_error{fmt::format("request {} waited {} s: more than the threshold and one residence, {} s",
                                           r.id, r.first_scheduled - r.arrival, threshold + residence)};
    }
  }
}

/// Whether any full batch of these requests fits into the memory to its end.
inline bool fits_any_batch(const sim::profile& p, const std::vector<sim::trace_row>& rows) {
  std::vector<std::int64_t> need;
  for (const sim::trace_row& r : rows) {
    need.push_back(tessera::blocks_for(tessera::tokens{r.prompt_tokens + r.output_tokens}, block_size).count());
  }
  std::sort(need.rbegin(), need.rend());
  need.resize(std::min(need.size(), max_batch));
  const auto all = static_cast<double>(p.kv_blocks(block_size).count());
  double sum = 0.02 * all;  // more than the watermark
  for (const std::int64_t n : need) sum += static_cast<double>(n);
  return sum <= all;
}

inline constexpr double never_boosted = std::numeric_limits<double>::infinity();
/// The part of the arrivals' time that is left out at its beginning, while the server fills, and as much at its end.
/// There requests see a server that empties. In a burst nothing is left out.
inline constexpr double left_out = 0.125;

inline outcome run(const sim::policy& policy, const sim::profile& p, const std::vector<sim::trace_row>& rows,
                   double threshold = never_boosted) {
  sim::cluster_options o = server_for(p, rows);
  o.warmup_s = o.drain_s = left_out * (rows.back().arrival_s - rows.front().arrival_s);
  const sim::run_result result = policy.run(o, rows, [](std::size_t) {});
  const sim::summary& n = result.numbers;
  if (n.completed != rows.size()) throw std::runtime_error{"a request did not complete"};
  outcome out{
      .mean = n.normalized_latency.mean, .p90 = n.normalized_latency.p90, .ttft_p99 = n.ttft.p99, .load = n.load};
  for (const auto& r : result.requests) {
    const double wait = r.first_scheduled - r.arrival;
    out.longest_wait = std::max(out.longest_wait, wait);
    out.boosted += wait >= threshold ? 1.0 / static_cast<double>(rows.size()) : 0.0;
    out.makespan = std::max(out.makespan, r.finish);
  }
  if (std::isfinite(threshold)) check_waits(result.requests, threshold, fits_any_batch(p, rows));
  return out;
}

/// The library's policy of that name.
inline constexpr double default_threshold = 120;
inline sim::policy by_score(double threshold = never_boosted) {
  const duration wait = std::isfinite(threshold) ? duration{threshold} : duration::forever();
  return sim::make_policy<tessera::pars<sim::request>>("pars", "", {.threshold = wait});
}

// -- one seed: the requests that are served, and their scores --------------------------------------------------------

/// Lengths of an answerer. With a table, the prompts keep their order by length and get the lengths that the answerer
/// has at the same rank. The order and every tau-b stay; the spread is the answerer's.
struct answerer {
  std::string name;
  std::function<double(double)> lengths{};  ///< By quantile; empty: the prompts' own.
};

inline answerer spread_of(std::string name, const sim::quantile_table& lengths) {
  return {std::move(name), [&lengths](double q) { return lengths.at(q); }};
}

enum scored_by : std::size_t { first_come, by_pointwise, by_listwise, by_pairwise, by_truth, scored_count };
struct experiment {
  std::vector<sim::trace_row> rows;                       ///< Held-out prompts; arrivals and scores are set later.
  std::array<std::vector<float>, scored_count> scores{};  ///< One per row; empty for `first_come`.
  double tau = 0;                                         ///< The tau-b of `by_pairwise`.
  /// Requests that were served before, with the scores of `by_pairwise`: other held-out prompts. What `due-first` knows
  /// of lengths.
  std::vector<sim::trace_row> history;
};

/// Prompts that are in no training, besides the served ones.
inline constexpr std::size_t history_prompts = 1000;

/// The held-out parts of a split drawn by `seed` and models trained on the rest.
inline experiment split_and_train(const std::vector<prompt>& prompts, const rank::dataset& data, std::size_t held_out,
                                  std::size_t before, std::uint64_t seed) {
  const rows_type order = rank::shuffled(data.all_rows(), 1000 + seed);
  const auto at = [&](std::size_t n) { return order.begin() + static_cast<std::ptrdiff_t>(n); };
  const rows_type test(order.begin(), at(held_out));
  const rows_type earlier(at(held_out), at(held_out + before));
  const rows_type rest(at(held_out + before), order.end());
  const auto row_of = [&](std::uint32_t r) {
    return sim::trace_row{.prompt_tokens = prompts[r].prompt_tokens,
                          .output_tokens = prompts[r].output_tokens,
                          .answer_tokens = prompts[r].output_tokens};
  };
  experiment e;
  for (const std::uint32_t r : test) {
    e.rows.push_back(row_of(r));
    e.scores[by_truth].push_back(static_cast<float>(prompts[r].output_tokens));
  }
  e.scores[by_pointwise] = rank::score_rows(train(data, rest, pointwise, seed).model(), data, test);
  e.scores[by_listwise] = rank::score_rows(train(data, rest, listwise, seed).model(), data, test);
  const auto model = train(data, rest, pairwise, seed);
  e.scores[by_pairwise] = rank::score_rows(model.model(), data, test);
  e.tau = rank::kendall_tau_b(e.scores[by_pairwise], e.scores[by_truth]).tau;
  const std::vector<float> scores = rank::score_rows(model.model(), data, earlier);
  for (std::size_t i = 0; i != earlier.size(); ++i) {
    e.history.push_back(row_of(earlier[i]));
    e.history.back().score = scores[i];
  }
  return e;
}

/// Gives every row the length that `lengths` has at the rank of its own.
inline void change_lengths(std::vector<sim::trace_row>& rows, const std::function<double(double)>& lengths) {
  std::vector<std::int64_t> sorted;
  for (const sim::trace_row& r : rows) sorted.push_back(r.output_tokens);
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(sorted.size());
  for (sim::trace_row& r : rows) {
    const auto range = std::equal_range(sorted.begin(), sorted.end(), r.output_tokens);
    const double middle = 0.5 * static_cast<double>((range.first - sorted.begin()) + (range.second - sorted.begin()));
    r.output_tokens = r.answer_tokens = std::max<std::int64_t>(1, std::llround(lengths(middle / n)));
  }
}

/// The same requests with another answerer's lengths.
inline experiment with_lengths(experiment e, const answerer& a) {
  if (!a.lengths) return e;
  change_lengths(e.rows, a.lengths);
  change_lengths(e.history, a.lengths);
  for (std::size_t i = 0; i != e.rows.size(); ++i) e.scores[by_truth][i] = static_cast<float>(e.rows[i].output_tokens);
  return e;
}

/// All at once.
inline std::vector<sim::trace_row> burst(const experiment& e, const std::vector<float>& scores) {
  std::vector<sim::trace_row> rows = e.rows;
  for (std::size_t i = 0; i != rows.size(); ++i) {
    rows[i].arrival_s = 0;
    if (!scores.empty()) rows[i].score = scores[i];
  }
  return rows;
}

/// `n` requests drawn from the held-out ones, Poisson arrivals. The same requests for every policy and rate.
inline std::vector<sim::trace_row> stream(const experiment& e, const std::vector<float>& scores, std::size_t n,
                                          double rate, std::uint64_t seed) {
  sim::arrival_generator arrivals{{}, rate, seed};
  sim::random_engine rng{seed, 5};
  std::vector<sim::trace_row> rows;
  for (std::size_t k = 0; k != n; ++k) {
    const auto i = static_cast<std::size_t>(sim::uniform_below(rng, e.rows.size()));
    rows.push_back(e.rows[i]);
    rows.back().arrival_s = arrivals.next();
    if (!scores.empty()) rows.back().score = scores[i];
  }
  return rows;
}

/// One system of the comparison: a policy, made for a server that has seen `history`, and what it orders by.
struct contestant {
  std::string name;
  scored_by scored;
  std::function<sim::policy(const std::vector<sim::trace_row>& history)> make;
  double threshold = never_boosted;
};

/// All systems: the first is FCFS and the last the oracle. The three trained models are told apart without a boost, so
/// that it is their order which counts.
inline std::vector<contestant> contestants() {
  const auto always = [](sim::policy p) { return [p](const std::vector<sim::trace_row>&) { return p; }; };
  const auto named = [&](std::string_view name) { return always(published(name)); };
  return {
      {"FCFS", first_come, named("fcfs")},
      {"FCFS, steps bounded (sarathi)", first_come, named("sarathi")},
      {"pointwise SJF, never boosted", by_pointwise, named("pars-unboosted")},
      {"listwise SJF, never boosted", by_listwise, named("pars-unboosted")},
      {"PARS, boosted after 120 s", by_pairwise, named("pars"), default_threshold},
      {"PARS, never boosted", by_pairwise, named("pars-unboosted")},
      {"PARS, smooth ageing", by_pairwise, named("pars-smooth")},
      {"PARS, smooth ageing, steps bounded", by_pairwise, always(sim::with_bounded_steps(published("pars-smooth")))},
      {"due-first", by_pairwise,
       [](const std::vector<sim::trace_row>& history) {
         sim::policy p = published("due-first");
         p.run = [history](const sim::cluster_options& o, std::span<const sim::trace_row> rows,
                           const sim::progress_callback& progress) {
           return sim::run_due_first(o, rows, history, {}, progress);
         };
         return p;
       }},
      {"oracle SJF, never boosted", by_truth, named("sjf")},
  };
}

inline constexpr std::size_t pointwise_sjf = 2;
inline constexpr std::size_t listwise_sjf = 3;
inline constexpr std::size_t boosted_pars = 4;
inline constexpr std::size_t unboosted_pars = 5;
inline constexpr std::size_t smooth_pars = 6;
inline constexpr std::size_t ours = 8;

inline outcome run(const contestant& c, const sim::profile& p, const std::vector<sim::trace_row>& history,
                   const std::vector<sim::trace_row>& rows) {
  return run(c.make(history), p, rows, c.threshold);
}

/// Scores with the tau-b `tau` to the truth.
inline std::vector<float> noised(const std::vector<float>& truth, double tau, std::uint64_t seed) {
  return tau >= 1 ? truth : with_noise(truth, noise_for(truth, tau, seed), seed);
}

// -- what is shown --------------------------------------------------------------------------------------------------

struct context {
  const options& o;
  results& out;
  sim::profile profile = testbed();
  std::vector<prompt> prompts;
  rank::dataset data;
  std::vector<experiment> seeds;  ///< One per seed.
  std::size_t held_out = 0;
  std::vector<row> runs{};  ///< The rows of runs.csv.
};

/// Per policy, the estimate over seeds of something.
template <class Get>
estimate over_seeds(const std::vector<outcome>& runs, Get&& get) {
  std::vector<double> samples;
  for (const outcome& r : runs) samples.push_back(get(r));
  return sim::estimate_mean(samples);
}

/// Per contestant, per seed.
using runs_type = std::vector<std::vector<outcome>>;

/// Every contestant on every seed. `rows(k, s)`: what contestant k gets under seed s; `history(s)`: what `due-first`
/// has seen before.
template <class Rows, class History>
runs_type run_contestants(const context& c, const std::vector<contestant>& systems, Rows&& rows, History&& history) {
  runs_type runs(systems.size(), std::vector<outcome>(c.seeds.size()));
  sim::run_parallel(systems.size() * c.seeds.size(), c.o.threads, [&](std::size_t i) {
    const std::size_t k = i % systems.size();
    const std::size_t s = i / systems.size();
    runs[k][s] = run(systems[k], c.profile, history(s), rows(k, s));
  });
  return runs;
}

inline runs_type burst_runs(const context& c, const std::vector<contestant>& systems, const answerer& a) {
  std::vector<experiment> seeds;
  for (const experiment& e : c.seeds) seeds.push_back(with_lengths(e, a));
  return run_contestants(
      c, systems, [&](std::size_t k, std::size_t s) { return burst(seeds[s], seeds[s].scores[systems[k].scored]); },
      [&](std::size_t s) { return seeds[s].history; });
}

/// Means of paired ratios over the seeds.
inline estimate ratio_of(const std::vector<outcome>& a, const std::vector<outcome>& b, double outcome::*what) {
  std::vector<double> samples;
  for (std::size_t s = 0; s != a.size(); ++s) samples.push_back(a[s].*what / b[s].*what);
  return sim::estimate_mean(samples);
}

inline std::vector<cell> load_cells(const std::vector<outcome>& runs) {
  std::vector<sim::load_verdict> loads;
  for (const outcome& r : runs) loads.push_back(r.load);
  return reproduce::load_cells(loads);
}

/// Adds what all contestants have done with the same requests. @param load is 0 for a burst.
inline void add_runs(context& c, const std::string& lengths, double load, double rate,
                     const std::vector<contestant>& systems, const runs_type& runs) {
  const std::vector<outcome>& fcfs = runs.front();
  const std::vector<outcome>& oracle = runs.back();
  for (std::size_t k = 0; k != systems.size(); ++k) {
    const auto mean = [&](double outcome::*what, double unit) {
      return over_seeds(runs[k], [&](const outcome& r) { return unit * (r.*what); });
    };
    const bool burst = load == 0;
    c.runs.push_back(joined<cell>(
        {burst ? "burst" : "Poisson", lengths, burst ? cell{} : cell{load}, burst ? cell{} : cell{rate},
         systems[k].name, mean(&outcome::mean, 1000), mean(&outcome::p90, 1000),
         ratio_of(fcfs, runs[k], &outcome::mean), ratio_of(fcfs, runs[k], &outcome::p90),
         ratio_of(runs[k], oracle, &outcome::mean), mean(&outcome::ttft_p99, 1), mean(&outcome::longest_wait, 1),
         std::isfinite(systems[k].threshold) ? cell{mean(&outcome::boosted, 100)} : cell{}},
        burst ? row(load_columns.size()) : load_cells(runs[k])));
  }
}

/// Per seed, the requests per second that the server completes when they come much too fast.
template <class Rows>
std::vector<double> capacities(const context& c, Rows&& rows_at) {
  std::vector<double> out(c.seeds.size());
  const sim::policy fcfs = published("fcfs");
  sim::run_parallel(out.size(), c.o.threads, [&](std::size_t s) {
    const std::vector<sim::trace_row> rows = rows_at(1e4, s);
    out[s] = static_cast<double>(rows.size()) / run(fcfs, c.profile, rows).makespan;
  });
  return out;
}

/// Loads, in parts of what the server completes.
inline const std::vector<double> loads{0.8, 0.95, 1.0, 1.1};

/// A mean of lengths times the mean of their inverses.
inline double spread(const std::vector<sim::trace_row>& rows) {
  double sum = 0;
  double inverse = 0;
  for (const sim::trace_row& r : rows) {
    sum += static_cast<double>(r.output_tokens);
    inverse += 1 / static_cast<double>(r.output_tokens);
  }
  const auto n = static_cast<double>(rows.size());
  return sum / n * inverse / n;
}

/// The tau-b of the paper's predictor on Alpaca with Llama's lengths (table II): where the 7.7 is from.
inline constexpr double paper_tau = 0.75;

// -- parts of the evaluation, each in a source of its own ------------------------------------------------------------

/// How well rankings are learned, and what the filter is worth. Tables II and IV in kind.
void predictors(context& c);
/// What training and scoring take, and how good the scores of the runs are.
void facts(context& c);
/// Bursts, by answerer.
void bursts(context& c, const std::vector<answerer>& answerers);
/// Where a gain of 7.7 comes from.
void spreads(context& c);
void tau_curve(context& c, const std::vector<answerer>& answerers);
/// The held-out prompts with the lengths of `answerers`.
void rates(context& c, const std::vector<answerer>& answerers);
/// Requests of a reasoning model as they came, prompts included, with made scores.
void own_prompts(context& c);
void run_lengths(context& c, const answerer& a);
void starvation(context& c, const answerer& a);
void other_answerers(context& c);

}  // namespace reproduce::pars_runs
