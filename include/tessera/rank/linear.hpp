// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/rank/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// A linear scorer: PARS, section III-A ("a lightweight linear layer that maps the features to a scalar score").

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// score = bias + sum of weight[index] * value. A view: the weights, [dimension], are the caller's and must outlive it.
class linear_model {
 public:
  constexpr linear_model() noexcept = default;
  /// A view of `weights`, which must outlive it.
  constexpr explicit linear_model(std::span<const float> weights, float bias = 0) noexcept
      : weights_{weights}, bias_{bias} {}

  /// Number of features; indices are below it.
  [[nodiscard]] constexpr std::size_t dimension() const noexcept { return weights_.size(); }
  /// One for each feature.
  [[nodiscard]] constexpr std::span<const float> weights() const noexcept { return weights_; }
  /// Added to every score.
  [[nodiscard]] constexpr float bias() const noexcept { return bias_; }

  /// Takes one feature after the other. O(1) each. The index is not checked here: `score` and `prompt_scorer` do that.
  class accumulator {
   public:
    /// Nothing added yet.
    constexpr explicit accumulator(const linear_model& m) noexcept : weights_{m.weights_.data()}, a_{m.bias_} {}
    /// Adds one feature.
    constexpr void operator()(std::uint32_t index, float value) noexcept {
      // Four sums that take turns, so that an addition does not wait for the one before it.
      const float next = a_ + weights_[index] * value;
      a_ = b_;
      b_ = c_;
      c_ = d_;
      d_ = next;
    }
    /// The score.
    [[nodiscard]] constexpr float result() const noexcept { return (a_ + b_) + (c_ + d_); }

   private:
    const float* weights_;
    float a_, b_ = 0, c_ = 0, d_ = 0;
  };

 private:
  std::span<const float> weights_{};
  float bias_ = 0;
};

}  // namespace rank
TESSERA_NAMESPACE_END
