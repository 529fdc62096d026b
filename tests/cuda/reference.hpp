// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <decoder.hpp>
#include <device/bf16.hpp>
#include <kernels/random.cuh>
#include <weights.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

/// @file
/// The model in plain loops: one token at a time, keys and values in one piece, sums in double. Values are rounded to
/// bf16 where the kernels store bf16.

namespace test {

using cuda_decode::bf16;
using cuda_decode::model_shape;
using cuda_decode::weight_layout;

/// As a decoder without a file of weights has them.
inline std::vector<bf16> random_weights(const model_shape& shape, std::uint64_t seed) {
  const weight_layout layout{shape};
  std::vector<bf16> all(layout.size);
  for (std::size_t t = 0; t != layout.tensors.size(); ++t) {
    const auto& w = layout.tensors[t];
    const auto random = cuda_decode::random_tensor(seed, t, w.mean(), w.spread());
    for (std::size_t i = 0; i != w.size(); ++i) all[w.offset + i] = random(i);
  }
  return all;
}

inline double rounded(double x) { return to_float(cuda_decode::from_float(static_cast<float>(x))); }

/// Radians per position, of pair i of `head_dim` / 2.
inline double turn(const model_shape& s, std::int32_t i) {
  const double f = std::pow(s.rope_theta, -2.0 * i / s.head_dim);
  if (s.rope_factor == 1) return f;
  const double turns = s.rope_original_context * f / (2 * std::numbers::pi);  // in the context it was trained with
  if (turns > s.rope_high_frequency) return f;
  if (turns < s.rope_low_frequency) return f / s.rope_factor;
  const double share = (turns - s.rope_low_frequency) / (s.rope_high_frequency - s.rope_low_frequency);
  return share * f + (1 - share) * f / s.rope_factor;
}

class reference {
 public:
  using row = std::vector<double>;

  /// What was computed of a sequence: [layer][token] keys and values of all heads.
  struct sequence {
    std::vector<std::vector<row>> keys;
    std::vector<std::vector<row>> values;
    std::size_t length = 0;
  };

  reference(const model_shape& shape, std::span<const bf16> weights) : shape_{shape}, layout_{shape} {
    weights_.reserve(weights.size());
    for (const bf16 w : weights) weights_.push_back(to_float(w));
  }

  /// Appends a token, and returns the logits of the next.
  row append(sequence& s, std::int32_t token) const {
    const auto layers = static_cast<std::size_t>(shape_.layers);
    s.keys.resize(layers);
    s.values.resize(layers);
    const auto position = static_cast<std::int32_t>(s.length++);
    const auto q_width = static_cast<std::size_t>(shape_.query_heads * shape_.head_dim);
    const auto kv_width = static_cast<std::size_t>(shape_.kv_heads * shape_.head_dim);
    const auto width = static_cast<std::size_t>(shape_.feed_forward);
    const auto hidden = static_cast<std::size_t>(shape_.hidden);
    row x(hidden);
    for (std::size_t i = 0; i != hidden; ++i) {
      x[i] = weights_[layout_.embedding() + static_cast<std::size_t>(token) * hidden + i];
    }
    for (std::size_t l = 0; l != layers; ++l) {
      const row qkv = product(norm(x, layout_.of(l, weight_layout::attention_norm)), layout_.of(l, weight_layout::qkv),
                              q_width + 2 * kv_width);
      const std::span<const double> all{qkv};
      const row q = rotated(all.subspan(0, q_width), position);
      s.keys[l].push_back(rotated(all.subspan(q_width, kv_width), position));
      s.values[l].emplace_back(qkv.end() - static_cast<std::ptrdiff_t>(kv_width), qkv.end());
      add(x, product(attention(q, s.keys[l], s.values[l]), layout_.of(l, weight_layout::attention_output), hidden));
      const row gate_up = product(norm(x, layout_.of(l, weight_layout::feed_forward_norm)),
                                  layout_.of(l, weight_layout::gate_up), 2 * width);
      row act(width);
      for (std::size_t i = 0; i != width; ++i) {
        act[i] = rounded(gate_up[i] / (1 + std::exp(-gate_up[i])) * gate_up[width + i]);
      }
      add(x, product(act, layout_.of(l, weight_layout::down), hidden));
    }
    return product(norm(x, layout_.final_norm()), layout_.head(), static_cast<std::size_t>(shape_.vocabulary), false);
  }

 private:
  [[nodiscard]] row product(const row& x, std::size_t weights, std::size_t n, bool round = true) const {
    row y(n);
    for (std::size_t i = 0; i != n; ++i) {
      double sum = 0;
      for (std::size_t k = 0; k != x.size(); ++k) sum += x[k] * weights_[weights + i * x.size() + k];
      y[i] = round ? rounded(sum) : sum;
    }
    return y;
  }

  [[nodiscard]] row norm(const row& x, std::size_t weights) const {
    double squares = 0;
    for (const double v : x) squares += v * v;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + shape_.norm_epsilon);
    row y(x.size());
    for (std::size_t i = 0; i != x.size(); ++i) y[i] = rounded(x[i] * scale * weights_[weights + i]);
    return y;
  }

  static void add(row& x, const row& delta) {
    for (std::size_t i = 0; i != x.size(); ++i) x[i] = rounded(x[i] + delta[i]);
  }

  [[nodiscard]] row rotated(std::span<const double> heads, std::int32_t position) const {
    const auto dim = static_cast<std::size_t>(shape_.head_dim);
    row y(heads.size());
    for (std::size_t first = 0; first != heads.size(); first += dim) {
      for (std::size_t i = 0; i != dim / 2; ++i) {
        const double angle = position * turn(shape_, static_cast<std::int32_t>(i));
        const double a = heads[first + i];
        const double b = heads[first + dim / 2 + i];
        y[first + i] = rounded(a * std::cos(angle) - b * std::sin(angle));
        y[first + dim / 2 + i] = rounded(b * std::cos(angle) + a * std::sin(angle));
      }
    }
    return y;
  }

  [[nodiscard]] row attention(const row& q, const std::vector<row>& keys, const std::vector<row>& values) const {
    const auto dim = static_cast<std::size_t>(shape_.head_dim);
    const auto heads = static_cast<std::size_t>(shape_.query_heads);
    const auto group = static_cast<std::size_t>(shape_.query_heads / shape_.kv_heads);
    row out(q.size());
    for (std::size_t h = 0; h != heads; ++h) {
      const std::size_t kv = h / group * dim;
      row score(keys.size());
      for (std::size_t t = 0; t != keys.size(); ++t) {
        for (std::size_t i = 0; i != dim; ++i) score[t] += q[h * dim + i] * keys[t][kv + i];
        score[t] /= std::sqrt(static_cast<double>(dim));
      }
      const double greatest = *std::ranges::max_element(score);
      double total = 0;
      for (double& p : score) total += p = std::exp(p - greatest);
      for (std::size_t i = 0; i != dim; ++i) {
        double sum = 0;
        for (std::size_t t = 0; t != values.size(); ++t) sum += score[t] * values[t][kv + i];
        out[h * dim + i] = rounded(sum / total);
      }
    }
    return out;
  }

  model_shape shape_;
  weight_layout layout_;
  std::vector<double> weights_;
};

}  // namespace test
