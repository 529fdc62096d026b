// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/rank/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// A scorer with one hidden layer, for dense features and for hashed ones in few buckets.
///
/// On hashed features the linear model ranks as well, is several times faster and needs a file a tenth as large. Prefer
/// it for text.

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// score = bias + sum over h of out[h] * max(0, hidden_bias[h] + sum of in[index][h] * value). A view over the caller's
/// parameters, [dimension * hidden + 2 * hidden + 1] floats: in (row-major, [dimension][hidden]), hidden_bias, out,
/// bias.
class mlp_model {
 public:
  static constexpr std::size_t max_hidden = 64;  ///< The accumulator holds this many floats on the stack.

  /// How many floats a model of this shape has.
  [[nodiscard]] static constexpr std::size_t parameters(std::size_t dimension, std::size_t hidden) noexcept {
    return dimension * hidden + 2 * hidden + 1;
  }

  constexpr mlp_model() noexcept = default;
  /// Requires `1 <= hidden <= max_hidden` and `weights.size() == parameters(dimension, hidden)` (asserted).
  constexpr mlp_model(std::span<const float> weights, std::size_t dimension, std::size_t hidden) noexcept
      : weights_{weights}, dimension_{dimension}, hidden_{hidden} {
    TESSERA_ASSERT(hidden >= 1 && hidden <= max_hidden, "an mlp_model has 1 to 64 hidden units");
    TESSERA_ASSERT(weights.size() == parameters(dimension, hidden), "the parameters do not fit the model's shape");
  }

  /// Number of features; indices are below it.
  [[nodiscard]] constexpr std::size_t dimension() const noexcept { return dimension_; }
  /// Hidden units.
  [[nodiscard]] constexpr std::size_t hidden() const noexcept { return hidden_; }
  /// All parameters, in the order of the file format.
  [[nodiscard]] constexpr std::span<const float> weights() const noexcept { return weights_; }

  /// Takes one feature after the other. O(hidden) each; holds the hidden layer in place.
  class accumulator {
   public:
    /// Nothing added yet.
    constexpr explicit accumulator(const mlp_model& m) noexcept
        : in_{m.weights_.data()}, tail_{m.weights_.data() + m.dimension_ * m.hidden_}, hidden_{m.hidden_} {
      for (std::size_t h = 0; h != hidden_; ++h) unit_[h] = tail_[h];
    }
    /// Adds one feature.
    constexpr void operator()(std::uint32_t index, float value) noexcept {
      const float* const row = in_ + std::size_t{index} * hidden_;
      for (std::size_t h = 0; h != hidden_; ++h) unit_[h] += row[h] * value;
    }
    /// The score.
    [[nodiscard]] constexpr float result() const noexcept {
      float sum = tail_[2 * hidden_];
      for (std::size_t h = 0; h != hidden_; ++h) sum += unit_[h] > 0 ? unit_[h] * tail_[hidden_ + h] : 0.0f;
      return sum;
    }

   private:
    const float* in_;
    const float* tail_;  ///< hidden_bias[hidden], out[hidden], bias
    std::size_t hidden_;
    float unit_[max_hidden];
  };

 private:
  std::span<const float> weights_{};
  std::size_t dimension_ = 0;
  std::size_t hidden_ = 0;
};

}  // namespace rank
TESSERA_NAMESPACE_END
