// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PARS's evaluation: how well rankings of prompts are learnt (tables II and IV of the paper), and what they are worth
// in a server (sections IV-D and IV-E).
#include "settings.hpp"

#include <tessera/rank/features.hpp>
#include <tessera/rank/scorer.hpp>
#include <tessera/rank/train.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/report/progress.hpp>

#include <fmt/ranges.h>
#include <boost/math/distributions/normal.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace reproduce;
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

constexpr std::string_view prompts_file = "gpteacher_gpt4_prompts.jsonl";
constexpr std::string_view answerers_file = "lrm_token_economy.csv";

/// Prompts whose lengths follow from their words, with chance: for runs without data.
std::vector<prompt> made_up_prompts(std::size_t n) {
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

std::vector<prompt> read_prompts(const std::filesystem::path& file) {
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
rank::dataset features_of(const std::vector<prompt>& prompts) {
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
const method pairwise{"pairwise (PARS)"};
const method listwise{"listwise", rank::objective::listwise, 0};
const method pointwise{"pointwise", rank::objective::pointwise, 0};

rank::linear_training train(const rank::dataset& data, std::span<const std::uint32_t> rows, const method& m,
                            std::uint64_t seed) {
  rank::train_options o;
  o.goal = m.goal;
  o.delta = m.delta;
  o.seed = seed;
  return rank::train_linear(data, rows, o);
}

constexpr std::size_t folds = 5;

/// tau-b on each fold of a model that was trained on the others. The folds are the same for every method.
std::vector<std::vector<double>> cross_validate(const options& o, const rank::dataset& data,
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

std::string show(const estimate& e, int digits = 3) {
  return fmt::format("{:.{}f} ± {:.{}f}", e.mean, digits, e.half_width, digits);
}

/// The mean of the folds' differences. Folds share most of what they were trained on, so that their spread alone would
/// promise too much: the variance is that of the corrected resampled t-test (Nadeau and Bengio 2003), 1/k + 1/(k - 1)
/// in place of 1/k.
estimate difference(const std::vector<double>& a, const std::vector<double>& b) {
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

/// No request may be overtaken once it is boosted: neither by one that is not, nor by a younger one. And where the
/// batch alone decides how many run, none may wait longer than the threshold and one residence, unless as many as the
/// batch holds were boosted before it. Both follow from the order; here they are read off the records, in every run.
void check_waits(const std::vector<sim::request_record>& records, double threshold, bool batch_binds) {
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
bool fits_any_batch(const sim::profile& p, const std::vector<sim::trace_row>& rows) {
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

constexpr double never_boosted = std::numeric_limits<double>::infinity();
/// Of the time in which requests arrive: what is left out at its beginning and at its end, while the server fills and
/// where requests see one that empties. In a burst nothing is.
constexpr double left_out = 0.125;

outcome run(const sim::policy& policy, const sim::profile& p, const std::vector<sim::trace_row>& rows,
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
constexpr double default_threshold = 120;
sim::policy by_score(double threshold = never_boosted) {
  const duration wait = std::isfinite(threshold) ? duration{threshold} : duration::forever();
  return sim::make_policy<tessera::pars<sim::request>>("pars", "", {.threshold = wait});
}

// -- one seed: who is served, and with what scores ------------------------------------------------------------------

/// Lengths of an answerer. With a table, the prompts keep their order by length and get the lengths that answerer has
/// at the same rank: the order, and every tau-b, stays; the spread is the other's.
struct answerer {
  std::string name;
  std::function<double(double)> lengths{};  ///< By quantile; empty: the prompts' own.
};
answerer spread_of(std::string name, const sim::quantile_table& lengths) {
  return {std::move(name), [&lengths](double q) { return lengths.at(q); }};
}

enum scored_by : std::size_t { first_come, by_pointwise, by_listwise, by_pairwise, by_truth, scored_count };
struct experiment {
  std::vector<sim::trace_row> rows;                       ///< Held-out prompts; arrivals and scores are set later.
  std::array<std::vector<float>, scored_count> scores{};  ///< One per row; of `first_come` empty.
  double tau = 0;                                         ///< Of `by_pairwise`.
  /// Requests that were served before, with the scores of `by_pairwise`: other held-out prompts. What `due-first` knows
  /// of lengths.
  std::vector<sim::trace_row> history;
};

/// Prompts that are in no training, beside those that are served.
constexpr std::size_t history_prompts = 1000;

/// The held-out parts of a split drawn by `seed` and models trained on the rest.
experiment split_and_train(const std::vector<prompt>& prompts, const rank::dataset& data, std::size_t held_out,
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
void change_lengths(std::vector<sim::trace_row>& rows, const std::function<double(double)>& lengths) {
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
experiment with_lengths(experiment e, const answerer& a) {
  if (!a.lengths) return e;
  change_lengths(e.rows, a.lengths);
  change_lengths(e.history, a.lengths);
  for (std::size_t i = 0; i != e.rows.size(); ++i) e.scores[by_truth][i] = static_cast<float>(e.rows[i].output_tokens);
  return e;
}

/// All at once.
std::vector<sim::trace_row> burst(const experiment& e, const std::vector<float>& scores) {
  std::vector<sim::trace_row> rows = e.rows;
  for (std::size_t i = 0; i != rows.size(); ++i) {
    rows[i].arrival_s = 0;
    if (!scores.empty()) rows[i].score = scores[i];
  }
  return rows;
}

/// `n` requests drawn from the held-out ones, Poisson arrivals. The same requests for every policy and rate.
std::vector<sim::trace_row> stream(const experiment& e, const std::vector<float>& scores, std::size_t n, double rate,
                                   std::uint64_t seed) {
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

/// Who is compared; the first is FCFS and the last the oracle. The three trained models are told apart where nobody is
/// boosted, so that it is their order which counts.
std::vector<contestant> contestants() {
  const auto always = [](sim::policy p) { return [p](const std::vector<sim::trace_row>&) { return p; }; };
  const auto named = [&](std::string_view name) { return always(published(name)); };
  return {
      {"FCFS", first_come, named("fcfs")},
      {"FCFS, steps bounded (`sarathi`)", first_come, named("sarathi")},
      {"pointwise SJF, never boosted", by_pointwise, named("pars-unboosted")},
      {"listwise SJF, never boosted", by_listwise, named("pars-unboosted")},
      {"PARS, boosted after 120 s", by_pairwise, named("pars"), default_threshold},
      {"PARS, never boosted", by_pairwise, named("pars-unboosted")},
      {"PARS, smooth ageing", by_pairwise, named("pars-smooth")},
      {"PARS, smooth ageing, steps bounded", by_pairwise, always(sim::with_bounded_steps(published("pars-smooth")))},
      {"`due-first`", by_pairwise,
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
constexpr std::size_t pointwise_sjf = 2;
constexpr std::size_t listwise_sjf = 3;
constexpr std::size_t boosted_pars = 4;
constexpr std::size_t unboosted_pars = 5;
constexpr std::size_t smooth_pars = 6;
constexpr std::size_t ours = 8;

outcome run(const contestant& c, const sim::profile& p, const std::vector<sim::trace_row>& history,
            const std::vector<sim::trace_row>& rows) {
  return run(c.make(history), p, rows, c.threshold);
}

/// Scores with the tau-b `tau` to the truth.
std::vector<float> noised(const std::vector<float>& truth, double tau, std::uint64_t seed) {
  return tau >= 1 ? truth : with_noise(truth, noise_for(truth, tau, seed), seed);
}

// -- the page -------------------------------------------------------------------------------------------------------

struct context {
  const options& o;
  page& out;
  sim::profile profile = testbed();
  std::vector<prompt> prompts;
  rank::dataset data;
  std::vector<experiment> seeds;  ///< One per seed.
  std::size_t held_out = 0;
};

void predictors(context& c) {
  c.out.heading("How well the order is learnt: table II in kind");
  std::vector<method> methods{pairwise, listwise, pointwise};
  const std::vector<double> deltas =
      c.o.quick ? std::vector<double>{0, 0.25} : std::vector<double>{0, 0.1, 0.25, 0.3, 0.4, 0.5, 0.6};
  for (const double d : deltas) methods.push_back({fmt::format("delta {:g}", d), rank::objective::pairwise, d});
  const auto taus = cross_validate(c.o, c.data, methods);
  std::vector<std::vector<std::string>> table;
  for (std::size_t m = 0; m != 3; ++m) {
    table.push_back({methods[m].name, show(sim::estimate_mean(taus[m])),
                     fmt::format("{:.3f} to {:.3f}", *std::min_element(taus[m].begin(), taus[m].end()),
                                 *std::max_element(taus[m].begin(), taus[m].end())),
                     m == 0 ? "" : show(difference(taus[0], taus[m]))});
  }
  c.out.table({"training", "tau-b, five folds", "folds", "PARS's lead"}, table);
  c.out.text(
      "Each fold is scored by a model that has not seen it; the strength of the penalty is chosen on a part of the "
      "other four. ± is the half-width of a 95 % interval over the folds; for leads, of paired differences, widened "
      "for "
      "the overlap of the training sets (Nadeau and Bengio 2003). The paper, with BERT trained on 40,000 prompts:");
  c.out.table({"paper, table II", "listwise", "pointwise", "PARS"}, {{"Alpaca, GPT-4", "0.69", "0.70", "0.96"},
                                                                     {"Alpaca, Llama", "0.67", "0.64", "0.75"},
                                                                     {"Alpaca, R1", "0.50", "0.30", "0.61"},
                                                                     {"LMSYS-Chat-1M, GPT-4", "0.63", "0.33", "0.72"},
                                                                     {"LMSYS-Chat-1M, Llama", "0.54", "0.37", "0.65"},
                                                                     {"LMSYS-Chat-1M, R1", "0.35", "0.09", "0.50"}});

  c.out.heading("The filter: table IV in kind");
  const std::vector<double>& unfiltered = taus[3];
  std::vector<std::pair<double, std::size_t>> sweep{{0.2, 0}};
  for (std::size_t d = 0; d != deltas.size(); ++d) sweep.emplace_back(deltas[d], 3 + d);
  std::sort(sweep.begin(), sweep.end());
  table.clear();
  series curve{"tau-b", {}, {}};
  for (const auto& [delta, m] : sweep) {
    table.push_back({fmt::format("{:g}{}", delta,
                                 delta == 0     ? " (all pairs of unequal length)"
                                 : delta == 0.2 ? " (the default)"
                                                : ""),
                     show(sim::estimate_mean(taus[m]), 4), m == 3 ? "" : show(difference(taus[m], unfiltered), 4)});
    curve.x.push_back(delta);
    curve.y.push_back(sim::estimate_mean(taus[m]).mean);
  }
  c.out.table({"delta", "tau-b", "gain over no filter"}, table);
  c.out.text(
      "The paper's filter gains 0.03 to 0.04 in every row of its table IV (0.93 to 0.96, 0.71 to 0.75, 0.57 to "
      "0.61, 0.68 to 0.72, 0.62 to 0.65, 0.46 to 0.50). The sweep is a report: the default of 0.2 is the paper's and "
      "was not chosen here.");
}

void costs(context& c) {
  c.out.heading("What it costs");
  const auto seconds = [](auto&& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const rank::row_split split = rank::split_fold(c.data.all_rows(), 11, 0, 1);  // about 7,000 of 7,683
  rank::linear_training model;
  const double training = seconds([&] { model = train(c.data, split.train, pairwise, 1); });
  std::string words;
  for (std::size_t i = 0, n = 0; n < 100; ++i) {
    for (const char ch : c.prompts[i % c.prompts.size()].text + " ") {
      if (n >= 100) break;
      n += ch == ' ' ? 1 : 0;
      words += ch;
    }
  }
  const rank::prompt_scorer scorer{rank::hashed_features{}, model.model()};
  std::vector<double> times;
  volatile float sink = 0;
  for (int repeat = 0; repeat != 101; ++repeat) {
    times.push_back(seconds([&] {
                      for (int i = 0; i != 20; ++i) sink = scorer(words);
                    }) /
                    20);
  }
  static_cast<void>(sink);
  std::sort(times.begin(), times.end());
  c.out.text(
      fmt::format("Training on {} prompts took {:.1f} s on one core, the search for the penalty included. Scoring a "
                  "prompt of 100 words takes {:.1f} us (median of 101 runs), without allocation.",
                  split.train.size(), training, 1e6 * times[times.size() / 2]));
}

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
runs_type run_contestants(const context& c, const std::vector<contestant>& who, Rows&& rows, History&& history) {
  runs_type runs(who.size(), std::vector<outcome>(c.seeds.size()));
  sim::run_parallel(who.size() * c.seeds.size(), c.o.threads, [&](std::size_t i) {
    const std::size_t k = i % who.size();
    const std::size_t s = i / who.size();
    runs[k][s] = run(who[k], c.profile, history(s), rows(k, s));
  });
  return runs;
}

runs_type burst_runs(const context& c, const std::vector<contestant>& who, const answerer& a) {
  std::vector<experiment> seeds;
  for (const experiment& e : c.seeds) seeds.push_back(with_lengths(e, a));
  return run_contestants(
      c, who, [&](std::size_t k, std::size_t s) { return burst(seeds[s], seeds[s].scores[who[k].scored]); },
      [&](std::size_t s) { return seeds[s].history; });
}

/// Means of paired ratios over the seeds.
estimate ratio_of(const std::vector<outcome>& a, const std::vector<outcome>& b, double outcome::*what) {
  std::vector<double> samples;
  for (std::size_t s = 0; s != a.size(); ++s) samples.push_back(a[s].*what / b[s].*what);
  return sim::estimate_mean(samples);
}
std::string ratio(const std::vector<outcome>& a, const std::vector<outcome>& b, double outcome::*what) {
  return show(ratio_of(a, b, what), 2);
}

std::string verdict(const std::vector<outcome>& runs) {
  std::vector<sim::load_verdict> loads;
  for (const outcome& r : runs) loads.push_back(r.load);
  return verdict_of(loads);
}

/// What all contestants have done with the same requests.
void table_of(page& out, const std::vector<contestant>& who, const runs_type& runs, bool burst) {
  const std::vector<outcome>& fcfs = runs.front();
  const std::vector<outcome>& oracle = runs.back();
  std::vector<std::vector<std::string>> table;
  for (std::size_t k = 0; k != who.size(); ++k) {
    const auto cell = [&](double outcome::*what, double unit, int digits) {
      return show(over_seeds(runs[k], [&](const outcome& r) { return unit * (r.*what); }), digits);
    };
    table.push_back(
        {who[k].name, cell(&outcome::mean, 1000, 1), cell(&outcome::p90, 1000, 1), ratio(fcfs, runs[k], &outcome::mean),
         ratio(fcfs, runs[k], &outcome::p90), ratio(runs[k], oracle, &outcome::mean), cell(&outcome::ttft_p99, 1, 1),
         cell(&outcome::longest_wait, 1, 0), std::isfinite(who[k].threshold) ? cell(&outcome::boosted, 100, 1) : "",
         burst ? "" : verdict(runs[k])});
    if (burst) table.back().pop_back();
  }
  std::vector<std::string> header{"policy",          "mean, ms/token",  "P90, ms/token",
                                  "FCFS / it, mean", "FCFS / it, P90",  "it / oracle, mean",
                                  "TTFT P99, s",     "longest wait, s", "boosted, %"};
  if (!burst) header.emplace_back("load");
  out.table(header, table);
}

/// Who does how well in bursts, by answerer.
std::vector<runs_type> bursts(context& c, const std::vector<answerer>& answerers) {
  c.out.heading(fmt::format("A burst of {} requests", c.held_out));
  const std::vector<contestant> who = contestants();
  std::vector<runs_type> all;
  for (const answerer& a : answerers) {
    all.push_back(burst_runs(c, who, a));
    c.out.text(fmt::format("**{}**", a.name));
    table_of(c.out, who, all.back(), true);
  }
  c.out.text(
      "The paper reports, for PARS against FCFS in its bursts of 2,000: more than 2x on the reasoning model and up to "
      "7.7x on Llama in the mean, more than 2x and up to 8x in the P90, and PARS next to the oracle. \"FCFS / it\" of "
      "the oracle is the most that ordering by length gains on these requests: where lengths are alike it is little.");
  return all;
}

/// A mean of lengths times the mean of their inverses.
double spread(const std::vector<sim::trace_row>& rows) {
  double sum = 0;
  double inverse = 0;
  for (const sim::trace_row& r : rows) {
    sum += static_cast<double>(r.output_tokens);
    inverse += 1 / static_cast<double>(r.output_tokens);
  }
  const auto n = static_cast<double>(rows.size());
  return sum / n * inverse / n;
}

/// Log-normal lengths about a median of 60 tokens, at most 2,048.
answerer lognormal(double sigma) {
  return {fmt::format("log-normal, deviation {:.2f}", sigma), [sigma](double q) {
            const double z = boost::math::quantile(boost::math::normal{}, q);
            return std::min(60 * std::exp(sigma * z), 2048.0);
          }};
}
/// The deviation that gives these requests that product. Bisection.
answerer with_spread(const std::vector<sim::trace_row>& rows, double product) {
  double low = 0.1;
  double high = 5;
  for (int i = 0; i != 30; ++i) {
    const double middle = 0.5 * (low + high);
    std::vector<sim::trace_row> changed = rows;
    change_lengths(changed, lognormal(middle).lengths);
    (spread(changed) < product ? low : high) = middle;
  }
  return lognormal(0.5 * (low + high));
}

/// The tau-b of the paper's predictor on Alpaca with Llama's lengths (table II): where the 7.7 is from.
constexpr double paper_tau = 0.75;

/// What a spread gives: the gain over FCFS in the mean and in the P90, of scores as good as the paper's and of the
/// oracle.
struct gained {
  double product = 0;
  estimate mean, p90, oracle_mean, oracle_p90;
};

/// Where a gain of 7.7 comes from.
std::vector<gained> spreads(context& c) {
  c.out.heading("Where 7.7 times comes from");
  c.out.text(fmt::format(
      "Under FCFS long and short wait alike, so that the mean latency per token is about the mean wait times the mean "
      "of 1/L, and the mean wait goes with the mean of L. An order by length spares the short ones, which make the "
      "mean "
      "of 1/L, the wait. So the gain should grow with mean(L) x mean(1/L), whatever the model. Tested: the burst "
      "again, "
      "the lengths log-normal with a median of 60 tokens (at most 2,048) and a deviation that gives the product named, "
      "scores of the tau-b of the paper's predictor for Llama on Alpaca, {:g}, made as in the next section; nobody is "
      "boosted.",
      paper_tau));
  std::vector<std::vector<std::string>> table;
  const std::vector<contestant> all = contestants();
  std::vector<gained> found;
  for (const double product : {1.5, 2.0, 4.0, 8.0, 12.0, 16.0}) {
    const std::vector<contestant> who{all.front(), all[unboosted_pars], all[unboosted_pars], all.back()};
    std::vector<experiment> seeds;
    for (const experiment& e : c.seeds) seeds.push_back(with_lengths(e, with_spread(e.rows, product)));
    std::vector<std::vector<float>> noisy(seeds.size());
    for (std::size_t s = 0; s != seeds.size(); ++s) noisy[s] = noised(seeds[s].scores[by_truth], paper_tau, s + 1);
    const runs_type runs = run_contestants(
        c, who,
        [&](std::size_t k, std::size_t s) {
          return burst(seeds[s], k == 1 ? noisy[s] : seeds[s].scores[who[k].scored]);
        },
        [&](std::size_t s) { return seeds[s].history; });
    std::vector<double> products;
    for (const experiment& e : seeds) products.push_back(spread(e.rows));
    const auto gain = [&](std::size_t k, double outcome::*what) { return ratio_of(runs.front(), runs[k], what); };
    found.push_back({sim::estimate_mean(products).mean, gain(1, &outcome::mean), gain(1, &outcome::p90),
                     gain(3, &outcome::mean), gain(3, &outcome::p90)});
    table.push_back({show(sim::estimate_mean(products), 1)});
    for (std::size_t k = 1; k != who.size(); ++k) {
      for (double outcome::*what : {&outcome::mean, &outcome::p90})
        table.back().push_back(ratio(runs.front(), runs[k], what));
    }
  }
  c.out.table({"mean(L) x mean(1/L)", fmt::format("FCFS / tau-b {:g}, mean", paper_tau), "P90",
               "FCFS / PARS's model here, mean", "P90", "FCFS / oracle, mean", "P90"},
              table);
  return found;
}

void tau_curve(context& c, const std::vector<answerer>& answerers) {
  c.out.heading("How good a ranking has to be");
  c.out.text(
      "The burst again, scored by oracles that were made worse: the logarithm of the true length with normal noise, "
      "as much as gives the tau-b named. Nobody is boosted. Latencies relative to the true order; FCFS is a tau-b of "
      "0.");
  const std::vector<double> levels =
      c.o.quick ? std::vector<double>{0, 0.5, 1}
                : std::vector<double>{0, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8, 0.9, 0.95, 1};
  plot p{"Latency in a burst against the quality of the ranking", "tau-b", "latency per token / oracle's", {}};
  std::vector<std::vector<std::string>> table;
  for (const double tau : levels) table.push_back({fmt::format("{:g}", tau)});
  std::vector<std::string> header{"tau-b"};
  std::string found;
  for (const answerer& a : answerers) {
    std::vector<std::vector<outcome>> runs(levels.size(), std::vector<outcome>(c.seeds.size()));
    sim::run_parallel(levels.size() * c.seeds.size(), c.o.threads, [&](std::size_t i) {
      const std::size_t s = i % c.seeds.size();
      const experiment e = with_lengths(c.seeds[s], a);
      runs[i / c.seeds.size()][s] =
          run(by_score(), c.profile, burst(e, noised(e.scores[by_truth], levels[i / c.seeds.size()], s + 1)));
    });
    for (const auto& [word, what] : {std::pair{"mean", &outcome::mean}, std::pair{"P90", &outcome::p90}}) {
      series curve{fmt::format("{}, {}", a.name, word), {}, {}};
      double enough = std::numeric_limits<double>::quiet_NaN();
      for (std::size_t l = 0; l != levels.size(); ++l) {
        std::vector<double> samples;
        for (std::size_t s = 0; s != c.seeds.size(); ++s) samples.push_back(runs[l][s].*what / runs.back()[s].*what);
        const estimate e = sim::estimate_mean(samples);
        table[l].push_back(show(e, 2));
        curve.x.push_back(levels[l]);
        curve.y.push_back(e.mean);
        if (std::isnan(enough) && e.mean <= 1.25) enough = levels[l];
      }
      header.push_back(curve.name);
      found += fmt::format("{}{}: {:g}", found.empty() ? "" : "; ", curve.name, enough);
      p.curves.push_back(std::move(curve));
    }
  }
  std::vector<double> ours;
  for (const experiment& e : c.seeds) ours.push_back(e.tau);
  table.push_back({fmt::format("PARS's model: {:.2f}", sim::estimate_mean(ours).mean)});
  const std::vector<contestant> who = contestants();
  for (const answerer& a : answerers) {
    const runs_type runs = burst_runs(c, {who[unboosted_pars], who.back()}, a);
    for (double outcome::*what : {&outcome::mean, &outcome::p90}) table.back().push_back(ratio(runs[0], runs[1], what));
  }
  c.out.table(header, table);
  c.out.figure("tau", "Latency per token in the burst against tau-b of the scores, relative to the true order", p);
  c.out.text(fmt::format("The first of these levels that comes within 25 % of the oracle: {}.", found));
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
const std::vector<double> loads{0.8, 0.95, 1.0, 1.1};

/// All contestants on Poisson arrivals at these loads. `rows(scored, rate, s)`: the requests of seed s with what they
/// are ordered by; `history(s)`: what `due-first` has seen before. @return per load, per contestant, per seed.
template <class Rows, class History>
std::vector<runs_type> at_loads(context& c, const std::vector<contestant>& who, const std::string& name,
                                const std::string& file, Rows&& rows, History&& history) {
  const std::vector<double> capacity =
      capacities(c, [&](double rate, std::size_t s) { return rows(first_come, rate, s); });
  std::vector<runs_type> all;
  for (const double load : loads) {
    all.push_back(run_contestants(
        c, who, [&](std::size_t k, std::size_t s) { return rows(who[k].scored, load * capacity[s], s); }, history));
  }
  c.out.text(
      fmt::format("**{}**, {} requests a run; load 1 is what the server completes of these requests when they "
                  "come much too fast, {} per second.",
                  name, rows(first_come, 1, 0).size(), show(sim::estimate_mean(capacity), 2)));
  for (std::size_t l = 0; l != loads.size(); ++l) {
    c.out.text(fmt::format("{}, load {:g} ({:.2f} requests per second)", name, loads[l],
                           loads[l] * sim::estimate_mean(capacity).mean));
    table_of(c.out, who, all[l], false);
  }
  for (const auto& [word, what] : {std::pair{"mean", &outcome::mean}, std::pair{"P90", &outcome::p90}}) {
    plot p{fmt::format("{} latency per token, {}", word, name), "load", "ms per token", {}, style::lines, false, true};
    for (std::size_t k = 0; k != who.size(); ++k) {
      p.curves.push_back({who[k].name, {}, {}});
      for (std::size_t l = 0; l != loads.size(); ++l) {
        p.curves[k].x.push_back(loads[l]);
        p.curves[k].y.push_back(over_seeds(all[l][k], [&](const outcome& r) { return 1000 * (r.*what); }).mean);
      }
    }
    c.out.figure(fmt::format("rate_{}_{}", word == std::string_view{"mean"} ? "mean" : "p90", file), p.title, p);
  }
  return all;
}

/// The held-out prompts with the lengths of `answerers`.
std::vector<std::vector<runs_type>> rates(context& c, const std::vector<answerer>& answerers) {
  c.out.heading("Latency against arrival rate");
  c.out.text(fmt::format(
      "An eighth of the time is left out at either end. \"Load\" says of how many runs the number that waits has a "
      "trend (see [replay](../../replay.md)), and by what part of the arrivals it grows; a run that is overloaded says "
      "how long it was, not what a service sees."));
  std::vector<std::vector<runs_type>> all;
  std::size_t number = 0;
  for (const answerer& a : answerers) {
    const std::size_t n = c.o.quick ? 300 : a.lengths ? 4'000 : 20'000;
    std::vector<experiment> seeds;
    for (const experiment& e : c.seeds) seeds.push_back(with_lengths(e, a));
    all.push_back(at_loads(
        c, contestants(), a.name, fmt::format("{}", ++number),
        [&](scored_by scored, double rate, std::size_t s) {
          return stream(seeds[s], seeds[s].scores[scored], n, rate, s + 1);
        },
        [&](std::size_t s) { return seeds[s].history; }));
  }
  return all;
}

/// Requests of a reasoning model as they came, prompts included, with made scores.
std::vector<runs_type> own_prompts(context& c) {
  c.out.heading("A reasoning model's own requests");
  const sim::workload& w = sim::find_workload("r1-servegen");
  const std::size_t n = c.o.quick ? 300 : 4'000;
  std::vector<double> taus;
  for (const experiment& e : c.seeds) taus.push_back(e.tau);
  const double tau = sim::estimate_mean(taus).mean;
  c.out.text(fmt::format(
      "`{}`: prompts and lengths drawn as ServeGen publishes them, the prompts being long too. Nobody has their texts, "
      "so that the scores are made: the logarithm of the true length with as much normal noise as gives the tau-b of "
      "PARS's model here, {:.2f}. The other two models are left out: there is nothing to train.",
      w.name, tau));
  const auto lengths_of = [](const std::vector<sim::trace_row>& rows) {
    std::vector<float> lengths;
    for (const sim::trace_row& r : rows) lengths.push_back(static_cast<float>(r.output_tokens));
    return lengths;
  };
  const double noise = noise_for(lengths_of(answers_of(w, n, 1, 1)), tau, 1);
  const auto made = [&](scored_by scored, double rate, std::uint64_t seed) {
    std::vector<sim::trace_row> rows = answers_of(w, n, rate, seed);
    const std::vector<float> truth = lengths_of(rows);
    const std::vector<float> scores = scored == by_truth ? truth : with_noise(truth, noise, seed);
    for (std::size_t i = 0; i != rows.size(); ++i) rows[i].score = scores[i];
    return rows;
  };
  std::vector<contestant> who = contestants();
  who.erase(who.begin() + pointwise_sjf, who.begin() + listwise_sjf + 1);
  return at_loads(
      c, who, std::string{w.name}, "3",
      [&](scored_by scored, double rate, std::size_t s) { return made(scored, rate, 201 + s); },
      [&](std::size_t s) { return made(by_pairwise, 1, 1201 + s); });
}

/// The gain over FCFS above the capacity, of longer and longer runs.
struct at_length {
  std::size_t requests = 0;
  estimate boosted, unboosted, smooth;
};

std::vector<at_length> run_lengths(context& c, const answerer& a) {
  c.out.heading("How long a run above the capacity is");
  constexpr double load = 1.1;
  c.out.text(
      fmt::format("At {:g} of the capacity the wait under FCFS grows for as long as the run lasts, and so does what an "
                  "order by length gains: a ratio to FCFS is one of a run of that length. {}, the held-out requests "
                  "drawn again and again.",
                  load, a.name));
  std::vector<experiment> seeds;
  for (const experiment& e : c.seeds) seeds.push_back(with_lengths(e, a));
  const auto lengths = c.o.quick ? std::vector<std::size_t>{300} : std::vector<std::size_t>{2'000, 8'000, 32'000};
  const std::vector<double> capacity =
      capacities(c, [&](double rate, std::size_t s) { return stream(seeds[s], {}, lengths.front(), rate, s + 1); });
  const std::vector<contestant> all = contestants();
  const std::vector<contestant> who{all.front(), all[boosted_pars], all[unboosted_pars], all[smooth_pars], all.back()};
  std::vector<std::vector<std::string>> table;
  std::vector<at_length> found;
  for (const std::size_t n : lengths) {
    const runs_type runs = run_contestants(
        c, who,
        [&](std::size_t k, std::size_t s) {
          return stream(seeds[s], seeds[s].scores[who[k].scored], n, load * capacity[s], s + 1);
        },
        [&](std::size_t s) { return seeds[s].history; });
    const auto gain = [&](std::size_t k) { return ratio_of(runs.front(), runs[k], &outcome::mean); };
    found.push_back({n, gain(1), gain(2), gain(3)});
    for (std::size_t k = 0; k != who.size(); ++k) {
      const auto cell = [&](double outcome::*what, double unit, int digits) {
        return show(over_seeds(runs[k], [&](const outcome& r) { return unit * (r.*what); }), digits);
      };
      table.push_back({k == 0 ? fmt::format("{} requests", n) : "", who[k].name, cell(&outcome::mean, 1000, 1),
                       k == 0 ? "-" : show(gain(k), 2), cell(&outcome::ttft_p99, 1, 0),
                       cell(&outcome::longest_wait, 1, 0), verdict(runs[k])});
    }
  }
  c.out.table({"", "policy", "mean, ms/token", "FCFS / it, mean", "TTFT P99, s", "longest wait, s", "load"}, table);
  return found;
}

void starvation(context& c, const answerer& a) {
  c.out.heading("The starvation threshold");
  const std::vector<double> thresholds =
      c.o.quick ? std::vector<double>{120, never_boosted} : std::vector<double>{30, 60, 120, 240, 480, never_boosted};
  const std::size_t n = c.o.quick ? 300 : 4'000;
  const std::vector<double> capacity = capacities(
      c, [&](double rate, std::size_t s) { return stream(with_lengths(c.seeds[s], a), {}, n, rate, s + 1); });
  const std::vector<double> patiences = c.o.quick ? std::vector<double>{600} : std::vector<double>{120, 300, 600, 1200};
  c.out.text(
      "Besides the paper's threshold, ageing that is smooth: nobody is ever boosted, and the score is arrival + "
      "patience "
      "x q, q in [0, 1] being the place of the predicted length among recent ones. Who comes later by `patience` never "
      "overtakes. It is the same scheduler with another score, as cheap as before, and it cannot tip over into FCFS.");
  for (const double load : {0.95, 1.1}) {
    const std::size_t smooth = thresholds.size() + 1;
    std::vector<std::vector<outcome>> runs(smooth + patiences.size(), std::vector<outcome>(c.seeds.size()));
    sim::run_parallel(runs.size() * c.seeds.size(), c.o.threads, [&](std::size_t i) {
      const std::size_t s = i % c.seeds.size();
      const std::size_t t = i / c.seeds.size();
      const experiment e = with_lengths(c.seeds[s], a);
      auto rows = stream(e, e.scores[by_pairwise], n, load * capacity[s], s + 1);
      if (t < thresholds.size()) {
        runs[t][s] = run(by_score(thresholds[t]), c.profile, rows, thresholds[t]);
      } else if (t == thresholds.size()) {
        runs[t][s] = run(published("fcfs"), c.profile, rows);
      } else {
        std::vector<float> sorted = e.scores[by_pairwise];
        std::sort(sorted.begin(), sorted.end());
        for (sim::trace_row& r : rows) {
          const auto below = std::lower_bound(sorted.begin(), sorted.end(), r.score) - sorted.begin();
          const double place = static_cast<double>(below) / static_cast<double>(sorted.size());
          r.score = static_cast<float>(r.arrival_s + patiences[t - smooth] * place);
        }
        runs[t][s] = run(by_score(), c.profile, rows);
      }
    });
    std::vector<std::vector<std::string>> table;
    for (std::size_t t = 0; t != runs.size(); ++t) {
      const auto cell = [&](double outcome::*what, double unit, int digits) {
        return show(over_seeds(runs[t], [&](const outcome& r) { return unit * (r.*what); }), digits);
      };
      table.push_back({t >= smooth                 ? fmt::format("smooth, patience {:g} s", patiences[t - smooth])
                       : t == thresholds.size()    ? "FCFS"
                       : std::isinf(thresholds[t]) ? "never"
                                                   : fmt::format("{:g} s", thresholds[t]),
                       cell(&outcome::mean, 1000, 1), cell(&outcome::p90, 1000, 1), cell(&outcome::ttft_p99, 1, 1),
                       cell(&outcome::longest_wait, 1, 0), cell(&outcome::boosted, 100, 1)});
    }
    c.out.text(fmt::format("**{}**, load {:g} ({:.2f} requests per second), {} requests", a.name, load,
                           load * sim::estimate_mean(capacity).mean, n));
    c.out.table({"threshold", "mean, ms/token", "P90, ms/token", "TTFT P99, s", "longest wait, s", "boosted, %"},
                table);
  }
  c.out.text(
      "In every run with a finite threshold on this page it is checked, from the records, that nobody is overtaken "
      "after his "
      "boost, neither by one that is not boosted nor by a younger one; and, where the batch is what binds, that no "
      "wait exceeds the threshold plus the longest residence unless a whole batch of older requests was boosted "
      "too. When more is boosted than runs at once, as in a long burst, no order can keep the threshold: the longest "
      "wait is then about that of FCFS.");
}

// -- other answerers ------------------------------------------------------------------------------------------------

/// Real lengths of many models on the same few prompts, several runs each.
struct answered {
  std::vector<std::string> models;
  std::vector<std::string> prompts;
  std::vector<std::int64_t> prompt_tokens;                   ///< [prompt]
  std::vector<std::vector<std::vector<std::int64_t>>> runs;  ///< [model][prompt][run]
};

answered read_answerers(const std::filesystem::path& file) {
  // The trace reader checks the counts; the two columns it ignores are read here.
  const sim::trace counts = sim::read_trace(file.string());
  if (counts.left_out.count() != 0) {
    throw sim::input_error{file.string(), {1, 1}, "rows with a prompt and an output", "some without"};
  }
  const std::string text = sim::read_file(file.string());
  std::map<std::string, std::map<std::string, std::vector<std::size_t>>> rows;  // model, prompt
  const auto fields = [&](std::string_view line) {
    std::vector<std::string> out(1);
    for (const char ch : line) {
      if (ch == ',') {
        out.emplace_back();
      } else {
        out.back() += ch;
      }
    }
    return out;
  };
  std::size_t begin = text.find('\n') + 1;
  const auto header = fields(std::string_view{text}.substr(0, begin - 1));
  const auto column = [&](std::string_view name) {
    const auto at = std::find(header.begin(), header.end(), name);
    if (at == header.end()) throw sim::input_error{file.string(), {1, 1}, fmt::format("a column {}", name), "none"};
    return static_cast<std::size_t>(at - header.begin());
  };
  const std::size_t model = column("model");
  const std::size_t id = column("prompt_id");
  for (std::size_t i = 0; i != counts.rows.size(); ++i) {
    const std::size_t end = text.find('\n', begin);
    const auto row = fields(std::string_view{text}.substr(begin, end - begin));
    if (row.size() != header.size()) throw sim::input_error{file.string(), {i + 2, 1}, "plain fields", "other commas"};
    rows[row[model]][row[id]].push_back(i);
    begin = end + 1;
  }
  answered a;
  for (const auto& [name, unused] : rows.begin()->second) {
    const auto everywhere = [&, &p = name](const auto& m) {
      return m.second.contains(p) && m.second.at(p).size() >= 2;
    };
    if (std::all_of(rows.begin(), rows.end(), everywhere)) a.prompts.push_back(name);
  }
  for (const auto& p : a.prompts)
    a.prompt_tokens.push_back(counts.rows[rows.begin()->second.at(p).front()].prompt_tokens);
  for (const auto& [name, of] : rows) {
    a.models.push_back(name);
    a.runs.emplace_back();
    for (const auto& p : a.prompts) {
      a.runs.back().emplace_back();
      for (const std::size_t i : of.at(p)) a.runs.back().back().push_back(counts.rows[i].output_tokens);
    }
  }
  return a;
}

double mean_of(const std::vector<std::int64_t>& v, std::size_t without = static_cast<std::size_t>(-1)) {
  double sum = 0;
  double n = 0;
  for (std::size_t i = 0; i != v.size(); ++i) {
    if (i == without) continue;
    sum += static_cast<double>(v[i]);
    n += 1;
  }
  return sum / n;
}

void other_answerers(context& c) {
  c.out.heading("Across models");
  if (c.o.data.empty()) {
    c.out.text("Left out: it needs the lengths of several models on the same prompts (`--data`).");
    return;
  }
  const answered a = read_answerers(c.o.data / answerers_file);
  const std::size_t models = a.models.size();
  const std::size_t n = a.prompts.size();
  c.out.text(fmt::format(
      "The paper trains on GPT-4's lengths and schedules Llama's and R1's requests. No data at hand has the text of "
      "many "
      "prompts and the lengths of two answerers, so that experiment cannot be repeated here. What can be measured is "
      "what it rests on, with real lengths: {} reasoning models answered the same {} prompts several times "
      "({}). How far does the order of one model's lengths hold for another's?",
      models, n, answerers_file));
  std::vector<double> own;
  std::vector<double> cross;
  const auto means = [&](std::size_t m) {
    std::vector<float> v;
    for (std::size_t p = 0; p != n; ++p) v.push_back(static_cast<float>(mean_of(a.runs[m][p])));
    return v;
  };
  for (std::size_t m = 0; m != models; ++m) {
    // One run against the mean of the others, for each run.
    for (std::size_t r = 0; r != 2; ++r) {
      std::vector<float> one;
      std::vector<float> rest;
      for (std::size_t p = 0; p != n; ++p) {
        one.push_back(static_cast<float>(a.runs[m][p][r]));
        rest.push_back(static_cast<float>(mean_of(a.runs[m][p], r)));
      }
      own.push_back(rank::kendall_tau_b(rest, one).tau);
    }
    for (std::size_t other = 0; other != models; ++other) {
      if (other == m) continue;
      std::vector<float> one;
      for (std::size_t p = 0; p != n; ++p) one.push_back(static_cast<float>(a.runs[m][p][0]));
      cross.push_back(rank::kendall_tau_b(means(other), one).tau);
    }
  }
  const auto spread = [](std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return fmt::format("{:.2f} ({:.2f} to {:.2f})", sim::percentile(v, 0.5), sim::percentile(v, 0.1),
                       sim::percentile(v, 0.9));
  };
  c.out.table({"order of one run against", "tau-b: median (P10 to P90)"},
              {{"the same model's other runs", spread(own)}, {"another model's mean lengths", spread(cross)}});

  // Bursts: every request is a real run of the model that serves.
  constexpr std::size_t kinds = 4;
  std::array<std::vector<double>, kinds> mean;
  std::array<std::vector<double>, kinds> p90;
  for (auto* v : {&mean, &p90}) {
    for (auto& x : *v) x.resize(models);
  }
  const std::size_t requests = c.o.quick ? 200 : 2000;
  sim::run_parallel(models, c.o.threads, [&](std::size_t m) {
    std::array<std::vector<sim::trace_row>, kinds> rows;
    sim::random_engine rng{m + 1, 3};
    std::size_t teacher = sim::uniform_below(rng, models - 1);
    teacher += teacher >= m ? 1 : 0;
    for (std::size_t i = 0; i != requests; ++i) {
      const auto p = static_cast<std::size_t>(sim::uniform_below(rng, n));
      const auto r = static_cast<std::size_t>(sim::uniform_below(rng, a.runs[m][p].size()));
      const std::int64_t tokens = a.runs[m][p][r];
      const std::array<double, kinds> score{0, mean_of(a.runs[teacher][p]), mean_of(a.runs[m][p], r),
                                            static_cast<double>(tokens)};
      for (std::size_t k = 0; k != kinds; ++k) {
        rows[k].push_back({.arrival_s = 0,
                           .prompt_tokens = a.prompt_tokens[p],
                           .output_tokens = tokens,
                           .answer_tokens = tokens,
                           .score = static_cast<float>(score[k])});
      }
    }
    for (std::size_t k = 0; k != kinds; ++k) {
      const outcome o = run(k == 0 ? published("fcfs") : by_score(), c.profile, rows[k]);
      mean[k][m] = o.mean;
      p90[k][m] = o.p90;
    }
  });
  const std::array<std::string_view, kinds> names{"FCFS", "order of another model (drawn once per model)",
                                                  "order of the model's own other runs", "oracle SJF"};
  std::vector<std::vector<std::string>> table;
  for (std::size_t k = 0; k != kinds; ++k) {
    std::vector<double> gain;
    std::vector<double> gain90;
    for (std::size_t m = 0; m != models; ++m) {
      gain.push_back(mean[0][m] / mean[k][m]);
      gain90.push_back(p90[0][m] / p90[k][m]);
    }
    table.push_back({std::string{names[k]}, spread(gain), spread(gain90)});
  }
  c.out.table({fmt::format("burst of {}, each model in turn", requests), "FCFS / it, mean", "FCFS / it, P90"}, table);
  c.out.text(
      "Median (P10 to P90) over the models that serve. These orders know the prompt, from other runs; a predictor "
      "that reads its text can at best come close to them. Some of the prompts are puzzles that are made to be "
      "misread, and there are few of them: read the sizes with care.");
}

/// What of the paper's evaluation these runs repeat, and what not.
void conclude(context& c, const std::vector<runs_type>& burst, const std::vector<gained>& gains,
              const std::vector<std::vector<runs_type>>& by_rate, const std::vector<runs_type>& own,
              const std::vector<at_length>& longer) {
  // Of `bursts`, `rates` and `own_prompts`; the last leaves out two.
  const runs_type& burst_own = burst[0];
  const runs_type& burst_r1 = burst[2];
  constexpr std::size_t left_out_there = 2;
  const auto over_fcfs = [](const runs_type& r, std::size_t k, double outcome::*what = &outcome::mean) {
    return show(ratio_of(r.front(), r[k], what), 2);
  };
  const auto of_oracle = [](const runs_type& r, std::size_t k) {
    return show(ratio_of(r[k], r.back(), &outcome::mean), 2);
  };
  const auto mean = [](const runs_type& r, std::size_t k, double outcome::*what, double unit) {
    return unit * over_seeds(r[k], [&](const outcome& o) { return o.*what; }).mean;
  };
  const std::size_t oracle = burst_own.size() - 1;
  constexpr std::size_t at_095 = 1;
  c.out.lead(fmt::format(
      "**What holds.** Latency per token, FCFS's over the policy's, means of {} seeds.\n\n"
      "- *More than 2x in a burst on a reasoning model*: repeated. With R1's spread PARS gains {} in the mean and {} "
      "in "
      "the P90 if nobody is boosted, of {} and {} that perfect scores gain; with the paper's boost after 120 s {} and "
      "{}. With GPT-4's own short answers {}, of {}.\n"
      "- *Up to 7.7x on Llama*: a matter of the lengths; see [below](#where-77-times-comes-from). With scores as good "
      "as "
      "the paper's (tau-b {:g}) the mean gain is {} where mean(L) x mean(1/L) is 8, and {} where it is 16; the P90's "
      "{} "
      "and {}. Of the prompts here the product is {:.1f}: no ranking gains that much on them.\n"
      "- *Lower latency at every arrival rate*: not where answers are short and alike and the load is carried, for "
      "then "
      "hardly anybody waits: at load 0.95 {} with GPT-4's lengths. Where lengths are spread requests queue earlier: at "
      "0.95 {} with R1's spread and {} on r1-servegen, never boosted.\n"
      "- *PARS ahead of listwise and pointwise*: not repeated with these features. The leads in tau-b are in the next "
      "table; mean latencies differ by a few per cent at most.\n"
      "- *PARS next to the oracle*: in a burst {} times its latency with GPT-4's lengths, {} with R1's spread; at load "
      "1.1 {} and {}.",
      c.seeds.size(), over_fcfs(burst_r1, unboosted_pars), over_fcfs(burst_r1, unboosted_pars, &outcome::p90),
      over_fcfs(burst_r1, oracle), over_fcfs(burst_r1, oracle, &outcome::p90), over_fcfs(burst_r1, boosted_pars),
      over_fcfs(burst_r1, boosted_pars, &outcome::p90), over_fcfs(burst_own, unboosted_pars),
      over_fcfs(burst_own, oracle), paper_tau, show(gains[3].mean, 2), show(gains.back().mean, 2),
      show(gains[3].p90, 2), show(gains.back().p90, 2), spread(c.seeds.front().rows),
      over_fcfs(by_rate[0][at_095], unboosted_pars), over_fcfs(by_rate[1][at_095], unboosted_pars),
      over_fcfs(own[at_095], unboosted_pars - left_out_there), of_oracle(burst_own, unboosted_pars),
      of_oracle(burst_r1, unboosted_pars), of_oracle(by_rate[0].back(), unboosted_pars),
      of_oracle(by_rate[1].back(), unboosted_pars)));
  c.out.lead(
      "**What the boost does, and what the tail pays.** At load 1.1: mean latency per token, P99 of TTFT, longest "
      "wait.");
  const auto cell = [&](const runs_type& r, std::size_t k) {
    return fmt::format("{:.0f} ms, {:.0f} s, {:.0f} s", mean(r, k, &outcome::mean, 1000),
                       mean(r, k, &outcome::ttft_p99, 1), mean(r, k, &outcome::longest_wait, 1));
  };
  std::string table = "| policy | GPT-4's lengths | R1's spread | r1-servegen |\n|---|---|---|---|";
  const std::vector<contestant> who = contestants();
  for (const std::size_t k : {std::size_t{0}, boosted_pars, unboosted_pars, smooth_pars, ours, oracle}) {
    table += fmt::format("\n| {} | {} | {} | {} |", who[k].name, cell(by_rate[0].back(), k), cell(by_rate[1].back(), k),
                         cell(own.back(), k < pointwise_sjf ? k : k - left_out_there));
  }
  c.out.lead(table);
  c.out.lead(fmt::format(
      "Where more arrives than the server carries, whoever has waited 120 s goes in order of arrival, at 1.1 {:.0f} % "
      "of "
      "the requests with R1's spread and {:.0f} % of r1-servegen's: the boost leaves {} of a gain of {}, and {} of {}. "
      "It is the threshold, not the order by length, that fails under overload. What "
      "the gain costs without it is borne by few: the P99 of TTFT is not above FCFS's where lengths are spread, but "
      "the "
      "longest wait is several times as long, until the load lets up. With GPT-4's lengths it is paid in the P99 too. "
      "Smooth ageing bounds the wait and gives up a part of the gain.",
      mean(by_rate[1].back(), boosted_pars, &outcome::boosted, 100),
      mean(own.back(), boosted_pars - left_out_there, &outcome::boosted, 100),
      over_fcfs(by_rate[1].back(), boosted_pars), over_fcfs(by_rate[1].back(), unboosted_pars),
      over_fcfs(own.back(), boosted_pars - left_out_there), over_fcfs(own.back(), unboosted_pars - left_out_there)));
  const auto each = [&](estimate at_length::*what) {
    std::string text;
    for (const at_length& l : longer) text += fmt::format("{}{}", text.empty() ? "" : ", ", show(l.*what, 2));
    return text;
  };
  std::string lengths;
  for (const at_length& l : longer) lengths += fmt::format("{}{}", lengths.empty() ? "" : ", ", l.requests);
  c.out.lead(fmt::format(
      "**Above the capacity a gain is one of a run's length.** At 1.1 with R1's spread, in runs of {} requests, FCFS "
      "has "
      "{} times the mean latency per token of PARS that never boosts, {} of PARS with the boost, and {} with smooth "
      "ageing. What is said of 1.1 above is said of runs as long as those.",
      lengths, each(&at_length::unboosted), each(&at_length::boosted), each(&at_length::smooth)));
}

void run_all(const options& o) {
  page out{o, "PARS: shortest job first by a learned ranking"};
  const bool real = !o.data.empty();
  context c{.o = o,
            .out = out,
            .prompts = real ? read_prompts(o.data / prompts_file) : made_up_prompts(o.quick ? 400 : 6000),
            .data = rank::dataset{rank::hashed_features{}},
            .seeds = {}};
  if (o.quick && c.prompts.size() > 400) c.prompts.resize(400);
  c.data = features_of(c.prompts);
  c.held_out = o.quick ? 100 : 2000;
  const std::size_t before = o.quick ? 64 : history_prompts;
  out.text(
      "Yiheng Tao et al., *Prompt-Aware Scheduling for Low-Latency LLM Serving*. Written by `reproduce pars`; numbers "
      "are "
      "means over the seeds, ± the half-width of their 95 % interval.");
  out.text(
      real ? fmt::format("Prompts: {} real ones with the lengths of GPT-4's answers ({}, MIT licence).",
                         c.prompts.size(), prompts_file)
           : fmt::format(
                 "**Prompts: {} made-up ones**, whose lengths follow from their words with log-normal chance. Without "
                 "`--data` nothing here says anything about real prompts.",
                 c.prompts.size()));
  predictors(c);
  costs(c);

  c.seeds.resize(o.seeds);
  sim::run_parallel(o.seeds, o.threads,
                    [&](std::size_t s) { c.seeds[s] = split_and_train(c.prompts, c.data, c.held_out, before, s + 1); });
  out.heading("The server");
  std::vector<double> taus;
  for (const experiment& e : c.seeds) taus.push_back(e.tau);
  out.text(fmt::format(
      "One instance of {} ({} KV blocks of 16 tokens, 256 requests a batch as vLLM's default), which is the paper's "
      "engine "
      "in kind; the paper has two such GPUs. Each of {} seeds draws {} prompts to serve and trains the three models on "
      "the "
      "others but {} that `due-first` has seen served: no request was seen in training (tau-b of PARS's scores here: "
      "{}). All that order by length are one scheduler, `tessera::pars`, with different scores: with the paper's boost "
      "after 120 s, without any, and with smooth ageing, where the place of a score among all is worth up to {:g} s of "
      "waiting (`pars-smooth`). `due-first` is our own composition; it has a bound on steps, which others are given "
      "too.",
      c.profile.name, c.profile.kv_blocks(block_size).count(), o.seeds, c.held_out, before,
      show(sim::estimate_mean(taus)), sim::longest_overtaking.seconds()));
  const answerer gpt4{real ? "GPT-4's lengths" : "made-up lengths"};
  const answerer sharegpt = spread_of("ShareGPT's spread", sim::detail::sharegpt_output);
  const answerer r1 = spread_of("R1's spread", sim::detail::servegen_output);
  const auto describe = [](const experiment& e) {
    std::vector<double> x;
    for (const auto& r : e.rows) x.push_back(static_cast<double>(r.output_tokens));
    const auto d = sim::describe(x);
    return fmt::format("mean {:.0f}, median {:.0f}, P90 {:.0f}, mean x mean of the inverse {:.1f}", d.mean, d.p50,
                       d.p90, spread(e.rows));
  };
  std::string lengths;
  for (const answerer& a : {gpt4, sharegpt, r1})
    lengths += fmt::format("- {}: {}\n", a.name, describe(with_lengths(c.seeds.front(), a)));
  out.text(
      "The prompts' own answers are short and alike. How much any order can gain depends on the spread of the lengths, "
      "so "
      "the same requests are also run with the lengths of other services: the order, and so the quality of every "
      "ranking, stays, and the request at quantile q gets the length at quantile q of the other service (ShareGPT "
      "conversations; DeepSeek-R1 traffic, reasoning included, as ServeGen publishes it). That is a transform, and no "
      "measurement of those models on these prompts.");
  out.text(lengths);
  const std::vector<answerer> all{gpt4, sharegpt, r1};
  const auto burst = bursts(c, all);
  const auto gains = spreads(c);
  tau_curve(c, {gpt4, r1});
  const auto by_rate = rates(c, {gpt4, r1});
  const auto own = own_prompts(c);
  conclude(c, burst, gains, by_rate, own, run_lengths(c, r1));
  starvation(c, r1);
  other_answerers(c);
  out.finish();
}

const bool added = add({"pars", "PARS: tau-b of rankings, and latency by rate and in bursts", run_all});

}  // namespace
