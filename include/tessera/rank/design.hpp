// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/rank/dataset.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// @file
/// The matrix for training: examples as rows, and only features that occur as columns. Allocates.

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// Sparse rows of one training set, scaled. Lexical features are scaled by inverse document frequency, ln((1 + n) / (1
/// + df)) + 1. Then everything is scaled by one factor that makes the mean squared length of a row 1. So regularisation
/// has the same effect on any data. Columns are in order of frequency, so that most accesses stay in the cache.
///
/// A weight learned for a column corresponds to `weight * scale(column)` on the raw feature: models need no table of
/// frequencies at inference.
class design_matrix {
 public:
  /// A non-zero of a row.
  struct entry {
    std::uint32_t column;  ///< Below `columns()`.
    float value;           ///< Scaled.
  };

  /// The given rows of `data`. O(features log features per row).
  design_matrix(const dataset& data, std::span<const std::uint32_t> rows) {
    std::vector<std::uint32_t> documents(data.dimension(), 0);
    std::vector<feature> merged;
    for (const auto r : rows) {
      merge(data.row(r), merged);
      for (const feature& f : merged) ++documents[f.index];
    }
    for (std::size_t i = 0; i != documents.size(); ++i) {
      if (documents[i] != 0) index_.push_back(static_cast<std::uint32_t>(i));
    }
    std::sort(index_.begin(), index_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return documents[a] != documents[b] ? documents[a] > documents[b] : a < b;
    });
    std::vector<std::uint32_t> column(data.dimension(), 0);
    scale_.resize(index_.size());
    const double n = static_cast<double>(rows.size());
    for (std::size_t c = 0; c != index_.size(); ++c) {
      column[index_[c]] = static_cast<std::uint32_t>(c);
      const bool lexical = index_[c] < data.lexical_dimension();
      scale_[c] = lexical ? static_cast<float>(std::log((1 + n) / (1.0 + documents[index_[c]])) + 1) : 1.0f;
    }
    double squares = 0;
    for (const auto r : rows) {
      merge(data.row(r), merged);
      for (const feature& f : merged) {
        const std::uint32_t c = column[f.index];
        entries_.push_back(entry{c, f.value * scale_[c]});
        squares += static_cast<double>(entries_.back().value) * static_cast<double>(entries_.back().value);
      }
      std::sort(entries_.begin() + static_cast<std::ptrdiff_t>(offsets_.back()), entries_.end(),
                [](const entry& a, const entry& b) { return a.column < b.column; });
      offsets_.push_back(entries_.size());
    }
    if (squares > 0) {
      const auto factor = static_cast<float>(std::sqrt(n / squares));
      for (entry& e : entries_) e.value *= factor;
      for (float& s : scale_) s *= factor;
    }
  }

  /// Number of examples.
  [[nodiscard]] std::size_t rows() const noexcept { return offsets_.size() - 1; }
  /// Number of features that occur.
  [[nodiscard]] std::size_t columns() const noexcept { return index_.size(); }
  /// The feature that a column stands for.
  [[nodiscard]] std::uint32_t index(std::size_t column) const noexcept { return index_[column]; }
  /// The factor for weights of this column.
  [[nodiscard]] float scale(std::size_t column) const noexcept { return scale_[column]; }
  /// The non-zeros of example `i`, ascending by column.
  [[nodiscard]] std::span<const entry> row(std::size_t i) const noexcept {
    return {entries_.data() + offsets_[i], offsets_[i + 1] - offsets_[i]};
  }

  /// scores = X weights. [columns] to [rows].
  void multiply(std::span<const float> weights, std::span<float> scores) const noexcept {
    for (std::size_t i = 0; i != rows(); ++i) {
      float s0 = 0;
      float s1 = 0;  // two sums: the additions of one would wait for each other
      const auto r = row(i);
      std::size_t k = 0;
      for (; k + 1 < r.size(); k += 2) {
        s0 += weights[r[k].column] * r[k].value;
        s1 += weights[r[k + 1].column] * r[k + 1].value;
      }
      if (k < r.size()) s0 += weights[r[k].column] * r[k].value;
      scores[i] = s0 + s1;
    }
  }

  /// out += X^T gradient. [rows] to [columns].
  void add_transposed(std::span<const double> gradient, std::span<float> out) const noexcept {
    for (std::size_t i = 0; i != rows(); ++i) {
      const auto g = static_cast<float>(gradient[i]);
      if (g == 0) continue;
      for (const entry& e : row(i)) out[e.column] += g * e.value;
    }
  }

 private:
  /// Sorted by index, equal indices added up.
  static void merge(std::span<const feature> features, std::vector<feature>& out) {
    out.assign(features.begin(), features.end());
    std::sort(out.begin(), out.end(), [](const feature& a, const feature& b) { return a.index < b.index; });
    std::size_t n = 0;
    for (const feature& f : out) {
      if (n != 0 && out[n - 1].index == f.index) {
        out[n - 1].value += f.value;
      } else {
        out[n++] = f;
      }
    }
    out.resize(n);
  }

  std::vector<std::uint32_t> index_{};
  std::vector<float> scale_{};
  std::vector<std::size_t> offsets_{0};
  std::vector<entry> entries_{};
};

}  // namespace rank
TESSERA_NAMESPACE_END
