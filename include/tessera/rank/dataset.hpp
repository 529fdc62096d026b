// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/split_mix.hpp>
#include <tessera/rank/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// @file
/// Training examples: features of prompts and the lengths of their outputs. For training: allocates.

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// A small generator with the same numbers everywhere (SplitMix64), so that a seed identifies one model.
class random_bits {
 public:
  /// The same seed gives the same bits.
  explicit constexpr random_bits(std::uint64_t seed) noexcept : state_{seed} {}
  /// 64 bits.
  constexpr std::uint64_t operator()() noexcept {
    state_ += tessera::detail::split_mix_step;
    return tessera::detail::split_mix(state_);
  }
  /// Below `n`, n >= 1. The bias is under n / 2^64.
  constexpr std::uint64_t below(std::uint64_t n) noexcept { return (*this)() % n; }
  /// In [-1, 1).
  constexpr float symmetric() noexcept { return static_cast<float>((*this)() >> 40) * 0x1p-23f - 1.0f; }

 private:
  std::uint64_t state_;
};

/// Row numbers in an order drawn from `seed`.
[[nodiscard]] inline std::vector<std::uint32_t> shuffled(std::vector<std::uint32_t> rows, std::uint64_t seed) {
  random_bits random{seed};
  for (std::size_t i = rows.size(); i > 1; --i) {
    const auto j = static_cast<std::size_t>(random.below(i));
    const std::uint32_t t = rows[i - 1];
    rows[i - 1] = rows[j];
    rows[j] = t;
  }
  return rows;
}

/// Examples in order of addition. Row i has features, [any number], and a length in tokens (reasoning included).
class dataset {
 public:
  /// An empty one for features of these dimensions.
  template <prompt_features F>
  explicit dataset(const F& f)
      : dimension_{f.dimension()}, lexical_{f.lexical_dimension()}, fingerprint_{f.fingerprint()} {}

  /// Adds one. Requires the extractor of the constructor (asserted) and a length that is finite and not negative
  /// (asserted).
  template <prompt_features F>
  void add(const F& f, typename F::input_type input, float length) {
    TESSERA_ASSERT(f.fingerprint() == fingerprint_, "a dataset holds features of one extractor");
    TESSERA_ASSERT(length >= 0 && length <= 1e30f, "a length must be finite and not negative");
    const auto sink = [this](std::uint32_t index, float value) { features_.push_back(feature{index, value}); };
    f.visit(input, sink);
    offsets_.push_back(features_.size());
    lengths_.push_back(length);
  }

  /// Number of examples.
  [[nodiscard]] std::size_t size() const noexcept { return lengths_.size(); }
  /// Number of features; indices are below it.
  [[nodiscard]] std::size_t dimension() const noexcept { return dimension_; }
  /// Features below this index are hashed words, with weights scaled by their rarity.
  [[nodiscard]] std::size_t lexical_dimension() const noexcept { return lexical_; }
  /// Identifies the kind and the parameters of the features: a model fits only features with the same number.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return fingerprint_; }
  /// Features of row `i`. Requires `i < size()`.
  [[nodiscard]] std::span<const feature> row(std::size_t i) const noexcept {
    TESSERA_ASSERT(i < size(), "row out of range");
    return {features_.data() + offsets_[i], offsets_[i + 1] - offsets_[i]};
  }
  /// Output tokens of example `i`.
  [[nodiscard]] float length(std::size_t i) const noexcept { return lengths_[i]; }
  /// Output tokens of all examples.
  [[nodiscard]] std::span<const float> lengths() const noexcept { return lengths_; }

  /// 0, 1, ..., size() - 1.
  [[nodiscard]] std::vector<std::uint32_t> all_rows() const {
    std::vector<std::uint32_t> rows(size());
    for (std::size_t i = 0; i != rows.size(); ++i) rows[i] = static_cast<std::uint32_t>(i);
    return rows;
  }

 private:
  std::size_t dimension_;
  std::size_t lexical_;
  std::uint64_t fingerprint_;
  std::vector<std::size_t> offsets_{0};
  std::vector<feature> features_{};
  std::vector<float> lengths_{};
};

/// Row numbers for training and for validation.
struct row_split {
  std::vector<std::uint32_t> train;     ///< Rows to train on.
  std::vector<std::uint32_t> held_out;  ///< The others.
};

/// Fold `fold` of `folds` of the rows, drawn from `seed`: every row is held out in exactly one fold.
/// Requires `fold < folds` (asserted).
[[nodiscard]] inline row_split split_fold(std::span<const std::uint32_t> rows, std::size_t folds, std::size_t fold,
                                          std::uint64_t seed) {
  TESSERA_ASSERT(fold < folds, "no such fold");
  const auto order = shuffled({rows.begin(), rows.end()}, seed);
  row_split split;
  for (std::size_t i = 0; i != order.size(); ++i)
    (i % folds == fold ? split.held_out : split.train).push_back(order[i]);
  return split;
}

}  // namespace rank
TESSERA_NAMESPACE_END
