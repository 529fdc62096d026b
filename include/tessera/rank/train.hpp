// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/rank/design.hpp>
#include <tessera/rank/kendall.hpp>
#include <tessera/rank/linear.hpp>
#include <tessera/rank/losses.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <variant>
#include <vector>

/// @file
/// Training of linear models: a convex loss and an L2 penalty, minimised over all examples at once by L-BFGS. The
/// penalty is chosen on a validation split. Deterministic for a seed. For training: allocates.

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// The objective of training (PARS, section IV-A).
enum class objective : std::uint8_t {
  pairwise,   ///< Margin ranking loss over pairs that pass the delta filter. PARS's own, and the default.
  pointwise,  ///< L1 regression on the length; scores are then predicted tokens.
  listwise,   ///< ListMLE.
};

/// A step of the learning curve.
struct curve_point {
  std::size_t iteration = 0;  ///< Iterations so far with this penalty, or epochs.
  double penalty = 0;         ///< The penalty that was tried (linear), or 0.
  double loss = 0;            ///< Mean training loss.
  double validation_tau = 0;  ///< tau-b on the validation split; NaN when there is none.
  bool refit = false;         ///< The last run, on all examples.
};

/// Options of training.
struct train_options {
  objective goal = objective::pairwise;  ///< Pairwise (PARS), listwise or pointwise.
  double delta = 0.2;   ///< Pairs with a smaller relative difference of lengths are left out. 0: all pairs of unequal
                        ///< lengths.
  double margin = 1.0;  ///< How far apart the scores of a pair should be; pairwise only.
  std::uint64_t seed = 1;  ///< For the split into folds.
  std::size_t validation_folds =
      5;  ///< One fold of this many is held out to choose the penalty, then joins the training.
  /// L2 penalties to try, strongest first, each starting from the one before; the search stops early when tau-b has
  /// fallen twice in a row. As multiples of 1 / examples. One entry: no validation, no split.
  std::vector<double> penalties{16, 4, 2, 1, 0.5, 0.25, 0.125};
  std::size_t steps = 12;                              ///< L-BFGS iterations per penalty tried.
  std::size_t final_steps = 60;                        ///< L-BFGS iterations of the run on all examples.
  std::function<void(const curve_point&)> progress{};  ///< Called after every iteration.
};

/// A trained linear model and its history.
struct linear_training {
  std::vector<float> weights;  ///< [dimension]
  float bias = 0;              ///< Added to every score.
  double penalty = 0;          ///< The multiple of 1 / examples that was chosen.
  /// tau-b on the held-out fold; NaN when there was none.
  double validation_tau = std::numeric_limits<double>::quiet_NaN();
  std::vector<curve_point> curve;  ///< One point per iteration.

  /// A view: valid while this object is.
  [[nodiscard]] linear_model model() const noexcept { return linear_model{weights, bias}; }
};

namespace detail {

/// Any of the three losses.
class any_loss {
 public:
  /// `unit` converts scores for the pointwise loss.
  any_loss(const train_options& o, std::span<const float> lengths, length_unit unit) : loss_{make(o, lengths, unit)} {}

  double operator()(std::span<const float> scores, std::span<double> gradient) {
    return std::visit([&](auto& l) { return l(scores, gradient); }, loss_);
  }
  /// Whether a constant added to all scores changes the loss.
  [[nodiscard]] bool has_level() const noexcept { return std::holds_alternative<pointwise_loss>(loss_); }

 private:
  using variant = std::variant<pairwise_loss, pointwise_loss, listwise_loss>;
  static variant make(const train_options& o, std::span<const float> lengths, length_unit unit) {
    switch (o.goal) {
      case objective::pointwise: return variant{std::in_place_type<pointwise_loss>, lengths, unit};
      case objective::listwise: return variant{std::in_place_type<listwise_loss>, lengths};
      case objective::pairwise: break;
    }
    return variant{std::in_place_type<pairwise_loss>, lengths, o.delta, o.margin};
  }
  variant loss_;
};

/// Conversion of a trained score to a model's: only the pointwise loss uses tokens.
[[nodiscard]] inline length_unit unit_for(const train_options& o, std::span<const float> lengths) {
  return o.goal == objective::pointwise ? length_unit::of(lengths) : length_unit{};
}

[[nodiscard]] inline double dot(std::span<const float> a, std::span<const float> b) noexcept {
  double s0 = 0;
  double s1 = 0;
  std::size_t i = 0;
  for (; i + 1 < a.size(); i += 2) {
    s0 += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    s1 += static_cast<double>(a[i + 1]) * static_cast<double>(b[i + 1]);
  }
  if (i < a.size()) s0 += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return s0 + s1;
}

/// loss(X w + w_bias) + penalty / 2 * |w|^2; the last entry of `w` is the bias, which is not penalised.
class linear_problem {
 public:
  linear_problem(const design_matrix& x, any_loss& loss)
      : x_{x}, loss_{loss}, scores_(x.rows()), score_gradient_(x.rows()) {}

  double penalty = 0;
  double last_loss = 0;

  [[nodiscard]] std::size_t size() const noexcept { return x_.columns() + 1; }

  double operator()(std::span<const float> w, std::span<float> gradient) {
    const std::size_t columns = x_.columns();
    x_.multiply(w.first(columns), scores_);
    if (loss_.has_level()) {
      for (float& s : scores_) s += w[columns];
    }
    last_loss = loss_(scores_, score_gradient_);
    for (std::size_t c = 0; c != columns; ++c) gradient[c] = static_cast<float>(penalty) * w[c];
    x_.add_transposed(score_gradient_, gradient.first(columns));
    double level = 0;
    if (loss_.has_level()) {
      for (const double g : score_gradient_) level += g;
    }
    gradient[columns] = static_cast<float>(level);
    return last_loss + 0.5 * penalty * dot(w.first(columns), w.first(columns));
  }

 private:
  const design_matrix& x_;
  any_loss& loss_;
  std::vector<float> scores_;
  std::vector<double> score_gradient_;
};

/// Limited-memory BFGS with a weak Wolfe line search by bisection, which also copes with the hinge's corners.
class lbfgs {
 public:
  explicit lbfgs(std::size_t size) : gradient_(size), direction_(size), next_(size), next_gradient_(size) {}

  /// Improves `w` by at most `steps` iterations. `f(w, gradient)` is the objective; `after(iteration)` is called after
  /// each.
  template <class F, class After>
  void minimise(F& f, std::vector<float>& w, std::size_t steps, After&& after) {
    history_.clear();
    double value = f(w, gradient_);
    for (std::size_t it = 0; it != steps; ++it) {
      const double slope = -set_direction();
      if (!(slope < 0)) return;
      double step = history_.empty() ? 1.0 / std::max(1e-12, std::sqrt(dot(gradient_, gradient_))) : 1.0;
      double low = 0;
      double high = 0;  // 0: still unknown
      double next_value = 0;
      bool found = false;
      for (int trial = 0; trial != 20; ++trial) {
        for (std::size_t i = 0; i != w.size(); ++i) next_[i] = w[i] + static_cast<float>(step) * direction_[i];
        next_value = f(next_, next_gradient_);
        if (!(next_value <= value + 1e-4 * step * slope)) {
          high = step;
        } else if (dot(next_gradient_, direction_) < 0.9 * slope) {
          found = true;  // good enough as a fallback
          low = step;
        } else {
          found = true;
          break;
        }
        if (high == 0) {
          step *= 2;
        } else if (found && trial >= 8) {
          break;
        } else {
          step = 0.5 * (low + high);
        }
      }
      if (!(next_value <= value)) {
        if (low == 0) return;  // no descent left: the minimum, up to the precision of floats
        for (std::size_t i = 0; i != w.size(); ++i) next_[i] = w[i] + static_cast<float>(low) * direction_[i];
        next_value = f(next_, next_gradient_);
      }
      remember(w);
      const double gain = value - next_value;
      value = next_value;
      w.swap(next_);
      gradient_.swap(next_gradient_);
      after(it);
      if (gain <= 1e-7 * std::abs(value)) return;
    }
  }

 private:
  static constexpr std::size_t memory = 8;
  struct pair {
    std::vector<float> s, y;
    double rho = 0;
    double alpha = 0;
  };

  /// direction = -H gradient. @return gradient . H gradient.
  double set_direction() {
    direction_ = gradient_;
    for (std::size_t k = history_.size(); k-- != 0;) {
      pair& p = history_[k];
      p.alpha = p.rho * dot(p.s, direction_);
      add(-p.alpha, p.y);
    }
    if (!history_.empty()) {
      const pair& p = history_.back();
      const auto gamma = static_cast<float>(1.0 / (p.rho * dot(p.y, p.y)));
      for (float& d : direction_) d *= gamma;
    }
    for (pair& p : history_) add(p.alpha - p.rho * dot(p.y, direction_), p.s);
    const double r = dot(gradient_, direction_);
    for (float& d : direction_) d = -d;
    return r;
  }
  void add(double a, const std::vector<float>& v) noexcept {
    const auto f = static_cast<float>(a);
    for (std::size_t i = 0; i != direction_.size(); ++i) direction_[i] += f * v[i];
  }
  /// Keeps the step from `w` to `next_`.
  void remember(const std::vector<float>& w) {
    pair p;
    if (history_.size() == memory) {  // the oldest one's memory serves again
      p = std::move(history_.front());
      history_.erase(history_.begin());
    }
    p.s.resize(w.size());
    p.y.resize(w.size());
    for (std::size_t i = 0; i != w.size(); ++i) {
      p.s[i] = next_[i] - w[i];
      p.y[i] = next_gradient_[i] - gradient_[i];
    }
    const double sy = dot(p.s, p.y);
    if (!(sy > 1e-12)) return;
    p.rho = 1.0 / sy;
    history_.push_back(std::move(p));
  }

  std::vector<float> gradient_, direction_, next_, next_gradient_;
  std::vector<pair> history_{};
};

/// Weights of columns to weights of features.
inline void unfold(const design_matrix& x, std::span<const float> w, length_unit unit, std::size_t dimension,
                   linear_training& out) {
  out.weights.assign(dimension, 0.0f);
  for (std::size_t c = 0; c != x.columns(); ++c) {
    out.weights[x.index(c)] = static_cast<float>(unit.deviation * static_cast<double>(w[c] * x.scale(c)));
  }
  out.bias = static_cast<float>(unit.median + unit.deviation * static_cast<double>(w[x.columns()]));
}

[[nodiscard]] inline std::vector<float> lengths_of(const dataset& data, std::span<const std::uint32_t> rows) {
  std::vector<float> lengths;
  lengths.reserve(rows.size());
  for (const auto r : rows) lengths.push_back(data.length(r));
  return lengths;
}

}  // namespace detail

/// Scores of some rows of a dataset.
template <ranking_model M>
[[nodiscard]] std::vector<float> score_rows(const M& m, const dataset& data, std::span<const std::uint32_t> rows) {
  std::vector<float> scores;
  scores.reserve(rows.size());
  for (const auto r : rows) scores.push_back(score(m, data.row(r)));
  return scores;
}

/// tau-b between a model's scores and the true lengths of some rows.
template <ranking_model M>
[[nodiscard]] kendall_result evaluate(const M& m, const dataset& data, std::span<const std::uint32_t> rows) {
  return kendall_tau_b(score_rows(m, data, rows), detail::lengths_of(data, rows));
}

/// Trains on the given rows of `data`. The same arguments give the same model.
/// Requires at least one penalty, and `validation_folds >= 2` (asserted).
[[nodiscard]] inline linear_training train_linear(const dataset& data, std::span<const std::uint32_t> rows,
                                                  const train_options& o) {
  TESSERA_ASSERT(!o.penalties.empty() && o.validation_folds >= 2, "no penalty to try, or nothing left to train on");
  linear_training out;
  out.penalty = o.penalties.front();
  const auto note = [&](const curve_point& p) {
    out.curve.push_back(p);
    if (o.progress) o.progress(p);
  };
  if (o.penalties.size() > 1) {
    const row_split split = split_fold(rows, o.validation_folds, 0, o.seed);
    const design_matrix x{data, split.train};
    const std::vector<float> lengths = detail::lengths_of(data, split.train);
    const length_unit unit = detail::unit_for(o, lengths);
    detail::any_loss loss{o, lengths, unit};
    detail::linear_problem problem{x, loss};
    detail::lbfgs search{problem.size()};
    std::vector<float> w(problem.size(), 0.0f);
    linear_training trial;
    int fallen = 0;
    for (const double penalty : o.penalties) {
      problem.penalty = penalty / static_cast<double>(std::max<std::size_t>(1, split.train.size()));
      std::size_t iterations = 0;
      search.minimise(problem, w, o.steps, [&](std::size_t i) { iterations = i + 1; });
      detail::unfold(x, w, unit, data.dimension(), trial);
      const double tau = evaluate(trial.model(), data, split.held_out).tau;
      note(curve_point{iterations, penalty, problem.last_loss, tau, false});
      if (std::isnan(tau)) continue;  // too few are held out: the strongest stays
      if (std::isnan(out.validation_tau) || tau > out.validation_tau) {
        out.validation_tau = tau;
        out.penalty = penalty;
        fallen = 0;
      } else if (++fallen == 2) {
        break;
      }
    }
  }
  const design_matrix x{data, rows};
  const std::vector<float> lengths = detail::lengths_of(data, rows);
  const length_unit unit = detail::unit_for(o, lengths);
  detail::any_loss loss{o, lengths, unit};
  detail::linear_problem problem{x, loss};
  problem.penalty = out.penalty / static_cast<double>(std::max<std::size_t>(1, rows.size()));
  detail::lbfgs search{problem.size()};
  std::vector<float> w(problem.size(), 0.0f);
  search.minimise(problem, w, o.final_steps, [&](std::size_t i) {
    note(curve_point{i + 1, out.penalty, problem.last_loss, std::numeric_limits<double>::quiet_NaN(), true});
  });
  detail::unfold(x, w, unit, data.dimension(), out);
  return out;
}

}  // namespace rank
TESSERA_NAMESPACE_END
