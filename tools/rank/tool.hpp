// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../picture.hpp"
#include "../tool.hpp"
#include "input.hpp"

#include <tessera/rank/model_file.hpp>
#include <tessera/rank/scorer.hpp>
#include <tessera/rank/train_mlp.hpp>
#include <tessera/sim/input/json_text.hpp>
#include <tessera/sim/report/plots.hpp>
#include <tessera/sim/report/progress.hpp>
#include <tessera/sim/report/replicates.hpp>

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

/// @file
/// The work of `rank`: training, evaluation, scoring.

namespace rank_tool {

struct arguments {
  std::string data;
  std::string model;
  std::string embeddings;
  std::size_t dimension = 0;
  std::uint32_t encoder = 1;
  bool only_embeddings = false;
  unsigned bits = rank::hashed_features::default_bits;
  std::string loss = "pairwise";
  double delta = 0.2;
  double margin = 1.0;
  std::size_t hidden = 0;
  std::uint64_t seed = 1;
  std::size_t folds = 0;
  std::string json;
  std::string output = "-";
  std::string plot;
  std::string plot_format = "svg";
  std::string trace;
};

using hashed = rank::hashed_features;
using dense = rank::dense_features;
using joined = rank::joined_features<hashed, dense>;

/// The extractor of the arguments; `bits` for the hashed part.
inline std::variant<hashed, dense, joined> features_for(const arguments& a, unsigned bits) {
  if (a.embeddings.empty() != (a.dimension == 0)) {
    throw sim::usage_error{"--embeddings FILE and --dimension N go together"};
  }
  if (a.only_embeddings && a.embeddings.empty()) throw sim::usage_error{"--only-embeddings needs --embeddings"};
  if (a.embeddings.empty()) return hashed{bits};
  if (a.dimension > 65536) throw sim::usage_error{"--dimension must be 1 to 65536"};
  if (a.only_embeddings) return dense{a.dimension, a.encoder};
  return joined{hashed{bits}, dense{a.dimension, a.encoder}};
}

/// Calls `use(input)` with the extractor's input for example `i`.
template <class F, class Use>
decltype(auto) with_input(const F&, const std::vector<example>& examples, const embeddings& rows, std::size_t i,
                          Use&& use) {
  if constexpr (std::is_same_v<F, hashed>) {
    return use(std::string_view{examples[i].prompt});
  } else {
    const std::vector<float> row = rows.row(i);
    if constexpr (std::is_same_v<F, dense>) {
      return use(std::span<const float>{row});
    } else {
      return use(joined::input_type{examples[i].prompt, row});
    }
  }
}

/// The examples' features, and the memory behind them.
template <class F>
rank::dataset load(const F& f, const arguments& a, const std::vector<example>& examples) {
  rank::dataset data{f};
  std::unique_ptr<embeddings> rows = a.embeddings.empty()
                                         ? std::make_unique<embeddings>()
                                         : std::make_unique<embeddings>(a.embeddings, a.dimension, examples.size());
  for (std::size_t i = 0; i != examples.size(); ++i) {
    with_input(f, examples, *rows, i, [&](auto input) { data.add(f, input, examples[i].length); });
  }
  return data;
}

/// A trained or loaded model of either kind, with its parameters.
struct any_model {
  std::vector<float> storage;
  std::variant<rank::linear_model, rank::mlp_model> view;
};

inline rank::train_options options(const arguments& a) {
  rank::train_options o;
  o.goal = a.loss == "pointwise"  ? rank::objective::pointwise
           : a.loss == "listwise" ? rank::objective::listwise
                                  : rank::objective::pairwise;
  o.delta = a.delta;
  o.margin = a.margin;
  o.seed = a.seed;
  return o;
}

struct trained {
  any_model model;
  std::vector<rank::curve_point> curve;
  double validation_tau = 0;
  double penalty = 0;      ///< For a linear model.
  std::size_t epochs = 0;  ///< With a hidden layer.
};

/// Trains according to the arguments, with a bar on a terminal.
inline trained train_model(const arguments& a, const rank::dataset& data, std::span<const std::uint32_t> rows,
                           const std::string& label) {
  trained out;
  rank::train_options o = options(a);
  double done = 0;
  if (a.hidden == 0) {
    // A step of the search stands for a whole run.
    const double total = static_cast<double>(o.penalties.size() * o.steps + o.final_steps);
    sim::progress_bar bar{label, total};
    o.progress = [&](const rank::curve_point& p) { bar.update(done += p.refit ? 1.0 : static_cast<double>(o.steps)); };
    rank::linear_training t = rank::train_linear(data, rows, o);
    out.model.storage = std::move(t.weights);
    const std::size_t dimension = out.model.storage.size();
    out.model.view = rank::linear_model{std::span<const float>{out.model.storage}.first(dimension), t.bias};
    out.curve = std::move(t.curve);
    out.validation_tau = t.validation_tau;
    out.penalty = t.penalty;
  } else {
    rank::mlp_options m;
    m.base = o;
    m.hidden = a.hidden;
    sim::progress_bar bar{label, static_cast<double>(2 * m.epochs)};
    m.base.progress = [&](const rank::curve_point&) { bar.update(done += 1); };
    rank::mlp_training t = rank::train_mlp(data, rows, m);
    out.model.storage = std::move(t.weights);
    out.model.view = rank::mlp_model{out.model.storage, t.dimension, t.hidden};
    out.curve = std::move(t.curve);
    out.validation_tau = t.validation_tau;
    out.epochs = t.epochs;
  }
  return out;
}

inline std::vector<float> scores_of(const any_model& m, const rank::dataset& data,
                                    std::span<const std::uint32_t> rows) {
  return std::visit([&](const auto& view) { return rank::score_rows(view, data, rows); }, m.view);
}

/// Finite weights may still add up to a value that cannot be compared. @throws sim::input_error
inline void require_number(const arguments& a, float score) {
  if (!std::isfinite(score))
    throw sim::input_error{a.model, {}, "a model with scores that are numbers", fmt::format("a score of {}", score)};
}

/// Reads a model file, and finds the features that it was trained on among those that the arguments allow.
struct loaded {
  any_model model;
  std::variant<hashed, dense, joined> features;
};
inline loaded load_model(const arguments& a) {
  const std::string text = sim::read_file(a.model);
  const auto file = std::as_bytes(std::span{text});
  rank::model_info info;
  const auto refuse = [&](rank::model_status s) {
    throw sim::input_error{
        a.model, {}, "a model for these features", fmt::format("a file that cannot be used: {}", to_string(s))};
  };
  if (const auto s = rank::inspect_model(file, info); !ok(s)) refuse(s);
  for (unsigned bits = 8; bits <= 24; ++bits) {
    loaded out{{}, features_for(a, bits)};
    const auto [print, dimension] = std::visit(
        [](const auto& f) {
          return std::pair{f.fingerprint(), f.dimension()};
        },
        out.features);
    if (print != info.fingerprint || dimension != info.dimension) continue;
    out.model.storage.resize(info.parameters);
    rank::model_status s;
    if (info.kind == rank::model_kind::linear) {
      rank::linear_model m;
      s = rank::load_model(file, print, out.model.storage, m);
      out.model.view = m;
    } else {
      rank::mlp_model m;
      s = rank::load_model(file, print, out.model.storage, m);
      out.model.view = m;
    }
    if (!ok(s)) refuse(s);
    return out;
  }
  refuse(rank::model_status::wrong_features);
  return {};
}

inline void write_model(const any_model& m, std::uint64_t fingerprint, sim::output_file& file) {
  std::visit(
      [&](const auto& view) {
        std::string bytes(rank::encoded_bytes(view), '\0');
        const auto s = rank::encode_model(view, fingerprint, std::as_writable_bytes(std::span{bytes}));
        if (!ok(s)) throw sim::output_error{fmt::format("cannot write the model: {}", to_string(s))};
        file.write(bytes);
        file.commit();
      },
      m.view);
}

/// The output for human readers: standard output, unless it has output for programs.
inline std::FILE* people_of(const arguments& a) noexcept { return a.json == "-" || a.model == "-" ? stderr : stdout; }

/// The learning curve as a picture and as a script with its data.
inline void plot_curve(const arguments& a, const std::vector<rank::curve_point>& curve, tool::picture& image) {
  std::string search = "$search << EOD\n";
  std::string refit = "$refit << EOD\n";
  for (const auto& p : curve) {
    if (p.refit) {
      refit += fmt::format("{} {}\n", p.iteration, p.loss);
    } else if (std::isfinite(p.validation_tau)) {
      search += fmt::format("{} {} {}\n", a.hidden == 0 ? p.penalty : static_cast<double>(p.iteration), p.loss,
                            p.validation_tau);
    }
  }
  image.draw(
      fmt::format(
          "{}EOD\n{}EOD\nset multiplot layout 2,1\nset grid\n"
          "set y2tics\nset ytics nomirror\nset ylabel 'tau-b, validation'\nset y2label 'loss, training'\n{}"
          "plot $search using 1:3 with linespoints title 'tau-b', $search using 1:2 axes x1y2 with linespoints title "
          "'loss'\n"
          "unset logscale\nset xrange [*:*] noreverse\nunset y2tics\nunset y2label\nset ylabel 'loss'\nset xlabel "
          "'{}'\n"
          "plot $refit using 1:2 with lines title 'loss on all examples'\nunset multiplot\n",
          search, refit,
          a.hidden == 0 ? "set logscale x\nset xrange [*:*] reverse\nset xlabel 'penalty x examples'\n"
                        : "set xlabel 'epoch'\n",
          a.hidden == 0 ? "iteration" : "epoch"),
      720);
  fmt::print(people_of(a), "{}\n", image.image().string());
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline void train(const arguments& a) {
  std::optional<tool::picture> image;
  if (!a.plot.empty()) {
    sim::require_gnuplot();
    image.emplace(a.plot, "learning_curve", a.plot_format == "svg" ? sim::plot_format::svg : sim::plot_format::png);
  }
  tool::require_apart({{"--data", a.data}, {"--embeddings", a.embeddings}},
                      {{"--model", a.model},
                       {"--json", a.json},
                       {"--plot", image ? image->image().string() : std::string{}},
                       {"--plot, for its script,", image ? image->script().string() : std::string{}}});
  // CLI11's ranges let NaN pass.
  if (!std::isfinite(a.delta) || !std::isfinite(a.margin)) {
    throw sim::usage_error{"--delta is a number from 0 to 0.99, --margin one from 1e-06 to 1e+06"};
  }
  const std::vector<example> examples = read_examples(a.data, true);
  sim::output_file file{a.model};
  std::unique_ptr<sim::output_file> json;
  if (!a.json.empty()) json = std::make_unique<sim::output_file>(a.json);
  std::visit(
      [&](const auto& f) {
        const auto start = std::chrono::steady_clock::now();
        const rank::dataset data = load(f, a, examples);
        const auto rows = data.all_rows();
        const trained t = train_model(a, data, rows, "train");
        const double seconds = seconds_since(start);
        if (std::isnan(t.validation_tau)) {
          throw sim::usage_error{
              fmt::format("{}: no order can be learned of these {} prompts: they are too few, or alike in "
                          "their lengths or in all that is known of them",
                          a.data, examples.size())};
        }
        write_model(t.model, f.fingerprint(), file);
        fmt::print(people_of(a), "{} prompts, {} loss, {}: validation tau-b {:.4f}, {:.2f} s\n", examples.size(),
                   a.loss,
                   a.hidden == 0 ? fmt::format("linear, penalty {:g} / examples", t.penalty)
                                 : fmt::format("{} hidden units, {} epochs", a.hidden, t.epochs),
                   t.validation_tau, seconds);
        if (json) {
          nlohmann::ordered_json j;
          j["prompts"] = examples.size();
          j["loss"] = a.loss;
          j["hidden"] = a.hidden;
          if (a.hidden == 0) j["penalty"] = t.penalty;
          if (a.hidden != 0) j["epochs"] = t.epochs;
          j["validation_tau_b"] = number(t.validation_tau);
          j["seconds"] = seconds;
          auto& curve = j["curve"] = nlohmann::ordered_json::array();
          for (const auto& p : t.curve) {
            curve.push_back({{"iteration", p.iteration},
                             {"penalty", p.penalty},
                             {"loss", number(p.loss)},
                             {"validation_tau_b", number(p.validation_tau)},
                             {"refit", p.refit}});
          }
          json->write(sim::json_page(j));
          json->commit();
        }
        if (image) plot_curve(a, t.curve, *image);
      },
      features_for(a, a.bits));
}

inline constexpr std::size_t buckets = 5;

/// The fifth of the values that each one is in; equal values are in one fifth, that of their middle rank.
inline std::vector<std::size_t> fifths(const std::vector<float>& values) {
  std::vector<float> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::size_t> out;
  for (const float v : values) {
    const auto range = std::equal_range(sorted.begin(), sorted.end(), v);
    const auto middle = static_cast<std::size_t>((range.first - sorted.begin()) + (range.second - sorted.begin())) / 2;
    out.push_back(std::min(buckets - 1, middle * buckets / values.size()));
  }
  return out;
}

inline void report(const arguments& a, const std::vector<float>& scores, const std::vector<float>& lengths, double tau,
                   double half_width, const std::vector<double>& folds,
                   const std::vector<std::vector<float>>& fold_scores,
                   const std::vector<std::vector<float>>& fold_lengths) {
  std::array<std::array<std::size_t, buckets>, buckets> confusion{};
  std::array<float, buckets> top{};
  const auto true_fifth = fifths(lengths);
  for (std::size_t i = 0; i != lengths.size(); ++i) top[true_fifth[i]] = std::max(top[true_fifth[i]], lengths[i]);
  if (fold_scores.empty()) {
    const auto predicted = fifths(scores);
    for (std::size_t i = 0; i != lengths.size(); ++i) ++confusion[true_fifth[i]][predicted[i]];
  } else {  // scores of two models do not compare
    for (std::size_t k = 0; k != fold_scores.size(); ++k) {
      const auto predicted = fifths(fold_scores[k]);
      const auto real = fifths(fold_lengths[k]);
      for (std::size_t i = 0; i != predicted.size(); ++i) ++confusion[real[i]][predicted[i]];
    }
  }
  std::FILE* const people = people_of(a);
  fmt::print(people, "{} prompts: tau-b {:.4f}, 95 % interval {:.4f} to {:.4f}{}\n", lengths.size(), tau,
             tau - half_width, tau + half_width, folds.empty() ? "" : fmt::format(" (over {} folds)", folds.size()));
  for (std::size_t k = 0; k != folds.size(); ++k) fmt::print(people, "  fold {}: {:.4f}\n", k + 1, folds[k]);
  fmt::print(people, "\ntrue length (fifth, up to) against predicted fifth, in % of the row\n");
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t r = 0; r != buckets; ++r) {
    const std::size_t sum = std::accumulate(confusion[r].begin(), confusion[r].end(), std::size_t{0});
    fmt::print(people, "  {} {:>8.0f} |", r + 1, top[r]);
    for (const std::size_t c : confusion[r]) {
      fmt::print(people, " {:5.1f}", sum == 0 ? 0.0 : 100.0 * static_cast<double>(c) / static_cast<double>(sum));
    }
    fmt::print(people, "\n");
    rows.push_back({{"up_to", top[r]}, {"predicted", confusion[r]}});
  }
  if (a.json.empty()) return;
  nlohmann::ordered_json j;
  j["prompts"] = lengths.size();
  j["tau_b"] = number(tau);
  j["interval_95"] = {number(tau - half_width), number(tau + half_width)};
  if (!folds.empty()) j["folds"] = folds;
  j["confusion"] = rows;
  sim::output_file file{a.json};
  file.write(sim::json_page(j));
  file.commit();
}

/// Evaluates a model on prompts other than those of its training; or, with folds, the training itself.
inline void eval(const arguments& a) {
  tool::require_apart({{"--data", a.data}, {"--embeddings", a.embeddings}, {"--model", a.model}}, {{"--json", a.json}});
  const std::vector<example> examples = read_examples(a.data, true);
  if (a.folds == 0) {
    if (a.model.empty()) throw sim::usage_error{"eval needs --model FILE, or --folds N to train and test in turn"};
    const loaded m = load_model(a);
    std::visit(
        [&](const auto& f) {
          const rank::dataset data = load(f, a, examples);
          const std::vector<float> lengths{data.lengths().begin(), data.lengths().end()};
          const std::vector<float> scores = scores_of(m.model, data, data.all_rows());
          for (const float s : scores) require_number(a, s);
          const auto r = rank::kendall_tau_b(scores, lengths);
          report(a, scores, lengths, r.tau, 1.96 * r.standard_error, {}, {}, {});
        },
        m.features);
    return;
  }
  if (!a.model.empty()) throw sim::usage_error{"--model and --folds exclude each other"};
  if (a.folds < 2 || a.folds > examples.size() / 10) {
    throw sim::usage_error{"--folds must be at least 2, and leave 10 prompts a fold"};
  }
  std::visit(
      [&](const auto& f) {
        const rank::dataset data = load(f, a, examples);
        const auto all = data.all_rows();
        std::vector<double> taus;
        std::vector<std::vector<float>> scores;
        std::vector<std::vector<float>> lengths;
        for (std::size_t k = 0; k != a.folds; ++k) {
          const rank::row_split split = rank::split_fold(all, a.folds, k, a.seed);
          const trained t = train_model(a, data, split.train, fmt::format("fold {} of {}", k + 1, a.folds));
          scores.push_back(scores_of(t.model, data, split.held_out));
          lengths.emplace_back();
          for (const auto r : split.held_out) lengths.back().push_back(data.length(r));
          taus.push_back(rank::kendall_tau_b(scores.back(), lengths.back()).tau);
        }
        const sim::estimate e = sim::estimate_mean(taus);
        report(a, {}, {data.lengths().begin(), data.lengths().end()}, e.mean, e.half_width, taus, scores, lengths);
      },
      features_for(a, a.bits));
}

/// Writes every line with its score and, if asked for, a row of a trace for each.
inline void score(const arguments& a) {
  tool::require_apart({{"--data", a.data}, {"--embeddings", a.embeddings}, {"--model", a.model}},
                      {{"--output", a.output}, {"--trace", a.trace}});
  const loaded m = load_model(a);
  std::vector<example> examples = read_examples(a.data, false);
  trace_writer trace;
  if (!a.trace.empty()) trace = trace_writer{examples, a.data};
  std::unique_ptr<sim::output_file> file;
  std::unique_ptr<sim::output_file> rows_file;
  if (a.output != "-") file = std::make_unique<sim::output_file>(a.output);
  if (!a.trace.empty()) rows_file = std::make_unique<sim::output_file>(a.trace);
  std::visit(
      [&](const auto& f, const auto& model) {
        const rank::prompt_scorer scorer{f, model};
        const auto rows = a.embeddings.empty()
                              ? std::make_unique<embeddings>()
                              : std::make_unique<embeddings>(a.embeddings, a.dimension, examples.size());
        for (std::size_t i = 0; i != examples.size(); ++i) {
          const float s = with_input(f, examples, *rows, i, [&](auto input) { return scorer(input); });
          require_number(a, s);
          examples[i].object["score"] = number(static_cast<double>(s));
          if (rows_file) rows_file->write(trace.row(i, s));
          const std::string line = examples[i].object.dump() + "\n";
          if (file) {
            file->write(line);
          } else {
            fmt::print("{}", line);
          }
        }
      },
      m.features, m.model.view);
  if (file) file->commit();
  if (rows_file) rows_file->commit();
}

}  // namespace rank_tool
