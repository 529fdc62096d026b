// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/rank/mlp.hpp>
#include <tessera/rank/train.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

/// @file
/// Training of one-hidden-layer models: AdaGrad over mini-batches, the losses of linear training within each batch,
/// early stopping on a validation split. Deterministic for a seed. For training: allocates.

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// Goal, delta, margin, seed, validation_folds and progress are as for linear training; `penalties` is not used.
struct mlp_options {
  train_options base{};         ///< Objective, margin, seed and folds.
  std::size_t hidden = 16;      ///< 1 to mlp_model::max_hidden.
  std::size_t batch = 256;      ///< Examples per step; every informative pair among them counts.
  std::size_t epochs = 30;      ///< At most.
  std::size_t patience = 4;     ///< Epochs without a better validation tau-b before the search stops.
  double learning_rate = 0.02;  ///< The learning rate of AdaGrad.
  double decay = 1e-3;          ///< L2 penalty on the rows of the input layer that a batch touches.
};

/// A trained model and its history. After the search for the number of epochs it is trained anew on all examples.
struct mlp_training {
  std::vector<float> weights;  ///< mlp_model::parameters(dimension, hidden)
  std::size_t dimension = 0;   ///< Number of features.
  std::size_t hidden = 0;      ///< Hidden units.
  std::size_t epochs = 0;      ///< The best number of epochs.
  /// tau-b on the held-out fold; NaN when there was none.
  double validation_tau = std::numeric_limits<double>::quiet_NaN();
  std::vector<curve_point> curve;  ///< One point per epoch.

  /// A view: valid while this object is.
  [[nodiscard]] mlp_model model() const noexcept { return mlp_model{weights, dimension, hidden}; }
};

namespace detail {

/// The network over a design matrix's columns, and its optimiser's state.
class mlp_trainer {
 public:
  mlp_trainer(const design_matrix& x, const mlp_options& o, length_unit unit)
      : x_{x}, o_{o}, length_unit_{unit}, w_{initial(x, o)}, squares_(w_.size(), 1e-8f), unit_(o.hidden, 0.0f) {}

  /// One step on the rows `batch` of the matrix, with the true lengths of all its rows. @return the loss.
  double step(std::span<const std::uint32_t> batch, std::span<const float> lengths) {
    const std::size_t n = batch.size();
    const std::size_t h = o_.hidden;
    batch_lengths_.resize(n);
    scores_.resize(n);
    gradient_.resize(n);
    hidden_.resize(n * h);
    for (std::size_t i = 0; i != n; ++i) batch_lengths_[i] = lengths[batch[i]];
    float* const tail = w_.data() + x_.columns() * h;
    for (std::size_t i = 0; i != n; ++i) {
      for (std::size_t k = 0; k != h; ++k) unit_[k] = tail[k];
      for (const auto& e : x_.row(batch[i])) {
        const float* const row = w_.data() + e.column * h;
        for (std::size_t k = 0; k != h; ++k) unit_[k] += row[k] * e.value;
      }
      float s = tail[2 * h];
      for (std::size_t k = 0; k != h; ++k) {
        hidden_[i * h + k] = unit_[k] > 0 ? unit_[k] : 0.0f;
        s += hidden_[i * h + k] * tail[h + k];
      }
      scores_[i] = s;
    }
    any_loss loss{o_.base, batch_lengths_, length_unit_};
    const double value = loss(scores_, gradient_);
    // The gradient of one example after the other: the batch's sum lives in the loss.
    for (std::size_t i = 0; i != n; ++i) {
      const auto g = static_cast<float>(gradient_[i]) * static_cast<float>(n);
      if (g == 0) continue;
      for (std::size_t k = 0; k != h; ++k) {
        const float out = tail[h + k];
        unit_[k] = hidden_[i * h + k] > 0 ? g * out : 0.0f;
        move(static_cast<std::size_t>(tail - w_.data()) + h + k, g * hidden_[i * h + k]);
        move(static_cast<std::size_t>(tail - w_.data()) + k, unit_[k]);
      }
      move(static_cast<std::size_t>(tail - w_.data()) + 2 * h, g);
      const auto decay = static_cast<float>(o_.decay);
      for (const auto& e : x_.row(batch[i])) {
        const std::size_t first = e.column * h;
        for (std::size_t k = 0; k != h; ++k) move(first + k, unit_[k] * e.value + decay * w_[first + k]);
      }
    }
    return value;
  }

  /// The network on raw features.
  void unfold(std::size_t dimension, mlp_training& out) const {
    const std::size_t h = o_.hidden;
    out.dimension = dimension;
    out.hidden = h;
    out.weights.assign(mlp_model::parameters(dimension, h), 0.0f);
    for (std::size_t c = 0; c != x_.columns(); ++c) {
      for (std::size_t k = 0; k != h; ++k) out.weights[x_.index(c) * h + k] = w_[c * h + k] * x_.scale(c);
    }
    const float* const from = w_.data() + x_.columns() * h;
    float* const to = out.weights.data() + dimension * h;
    for (std::size_t k = 0; k != h; ++k) {
      to[k] = from[k];
      to[h + k] = static_cast<float>(length_unit_.deviation) * from[h + k];
    }
    to[2 * h] = static_cast<float>(length_unit_.median + length_unit_.deviation * static_cast<double>(from[2 * h]));
  }

 private:
  [[nodiscard]] static std::vector<float> initial(const design_matrix& x, const mlp_options& o) {
    std::vector<float> w;
    const std::size_t h = o.hidden;
    w.reserve(mlp_model::parameters(x.columns(), h));
    random_bits random{o.base.seed ^ 0x6d6c70u};
    for (std::size_t i = 0; i != x.columns() * h; ++i) w.push_back(0.1f * random.symmetric());
    for (std::size_t k = 0; k != h; ++k) w.push_back(0.1f);  // hidden units are alive at the start
    const float out = 1.0f / std::sqrt(static_cast<float>(h));
    for (std::size_t k = 0; k != h; ++k) w.push_back(k % 2 == 0 ? out : -out);
    w.push_back(0.0f);
    return w;
  }
  void move(std::size_t i, float g) noexcept {
    squares_[i] += g * g;
    w_[i] -= static_cast<float>(o_.learning_rate) * g / std::sqrt(squares_[i]);
  }

  const design_matrix& x_;
  const mlp_options& o_;
  length_unit length_unit_;
  std::vector<float> w_, squares_, unit_;
  std::vector<float> batch_lengths_{}, scores_{}, hidden_{};
  std::vector<double> gradient_{};
};

}  // namespace detail

/// Trains on the given rows of `data`. The same arguments give the same model.
/// Requires 1 <= hidden <= mlp_model::max_hidden, `batch >= 2` and `validation_folds >= 2` (asserted).
[[nodiscard]] inline mlp_training train_mlp(const dataset& data, std::span<const std::uint32_t> rows,
                                            const mlp_options& o) {
  TESSERA_ASSERT(o.hidden >= 1 && o.hidden <= mlp_model::max_hidden, "an mlp_model has 1 to 64 hidden units");
  TESSERA_ASSERT(o.batch >= 2 && o.base.validation_folds >= 2, "a batch needs a pair, a split needs two folds");
  mlp_training out;
  const auto run = [&](std::span<const std::uint32_t> train, std::span<const std::uint32_t> held_out,
                       std::size_t epochs, bool refit) {
    const design_matrix x{data, train};
    const std::vector<float> lengths = detail::lengths_of(data, train);
    detail::mlp_trainer trainer{x, o, detail::unit_for(o.base, lengths)};
    std::vector<std::uint32_t> order(train.size());
    for (std::size_t i = 0; i != order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
    std::size_t since_best = 0;
    for (std::size_t epoch = 1; epoch <= epochs; ++epoch) {
      order = shuffled(std::move(order), o.base.seed + epoch);
      double loss = 0;
      std::size_t steps = 0;
      for (std::size_t first = 0; first < order.size(); first += o.batch, ++steps) {
        const std::size_t n = std::min(o.batch, order.size() - first);
        loss += trainer.step(std::span{order}.subspan(first, n), lengths);
      }
      curve_point p{epoch, 0, loss / static_cast<double>(std::max<std::size_t>(1, steps)),
                    std::numeric_limits<double>::quiet_NaN(), refit};
      if (!refit || epoch == epochs) trainer.unfold(data.dimension(), out);
      if (!refit) p.validation_tau = evaluate(out.model(), data, held_out).tau;
      out.curve.push_back(p);
      if (o.base.progress) o.base.progress(p);
      if (refit) continue;
      if (std::isnan(out.validation_tau) || p.validation_tau > out.validation_tau) {
        out.validation_tau = p.validation_tau;
        out.epochs = epoch;
        since_best = 0;
      } else if (++since_best == o.patience) {
        break;
      }
    }
  };
  const row_split split = split_fold(rows, o.base.validation_folds, 0, o.base.seed);
  run(split.train, split.held_out, std::max<std::size_t>(1, o.epochs), false);
  run(rows, {}, std::max<std::size_t>(1, out.epochs), true);
  return out;
}

}  // namespace rank
TESSERA_NAMESPACE_END
