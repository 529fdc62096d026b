// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// @file
/// The three losses that PARS compares (section IV-A), each over a whole set of examples at once and with its gradient.
///
/// Each is built from the examples' true lengths, and called with their scores: it returns the mean loss and writes d
/// loss / d score. For training: allocates.

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// Whether PARS trains on a pair of lengths (equation 1): |a - b| / max(a, b) >= delta. Equal lengths never count.
[[nodiscard]] inline bool informative(double a, double b, double delta) noexcept {
  const double longer = std::max(a, b);
  return a != b && longer - std::min(a, b) >= delta * longer;
}

/// Pairwise margin ranking loss (PARS, section III-A): the mean over *all* informative pairs (A longer than B) of
/// max(0, margin - (score A - score B)).
///
/// Pairs are not sampled. Examples enter a tree of scores in order of length, so the sum over all O(n^2) pairs and its
/// exact subgradient take O(n log n).
class pairwise_loss {
 public:
  /// Requires `0 <= delta < 1` and `margin > 0` (asserted).
  pairwise_loss(std::span<const float> lengths, double delta, double margin)
      : margin_{margin}, by_length_(lengths.size()), shorter_(lengths.size()), longer_(lengths.size()) {
    TESSERA_ASSERT(delta >= 0 && delta < 1 && margin > 0, "delta must be in [0, 1), margin above 0");
    const std::size_t n = lengths.size();
    for (std::size_t i = 0; i != n; ++i) by_length_[i] = static_cast<std::uint32_t>(i);
    std::sort(by_length_.begin(), by_length_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return lengths[a] != lengths[b] ? lengths[a] < lengths[b] : a < b;
    });
    // Both bounds only move up: the partners of an example are a prefix and a suffix of the order by length.
    const auto far = [&](std::size_t a, std::size_t b) {
      return lengths[by_length_[a]] < lengths[by_length_[b]] &&
             informative(lengths[by_length_[a]], lengths[by_length_[b]], delta);
    };
    for (std::size_t k = 0, p = 0, q = 0; k != n; ++k) {
      while (p < k && far(p, k)) ++p;
      shorter_[k] = static_cast<std::uint32_t>(p);
      pairs_ += static_cast<double>(p);
      while (q < n && (q <= k || !far(k, q))) ++q;
      longer_[k] = static_cast<std::uint32_t>(q);
    }
  }

  /// The number of pairs that pass the filter.
  [[nodiscard]] double pairs() const noexcept { return pairs_; }

  /// Mean loss; writes its gradient by the scores. O(n log n).
  double operator()(std::span<const float> scores, std::span<double> gradient) {
    const std::size_t n = scores.size();
    TESSERA_ASSERT(n == by_length_.size() && gradient.size() == n, "sizes differ");
    std::fill(gradient.begin(), gradient.end(), 0.0);
    if (pairs_ == 0) return 0;
    order_by_score(scores);
    const double scale = 1.0 / pairs_;
    double total = 0;
    // Every example as the longer one: which shorter ones score above (its score - margin)?
    clear();
    for (std::size_t k = 0, p = 0; k != n; ++k) {
      for (; p < shorter_[k]; ++p) insert(by_length_[p], scores);
      const std::uint32_t i = by_length_[k];
      const auto below = sum_below(under_[i]);
      const double count = entered_ - below.count;
      const double sum = entered_sum_ - below.sum;
      total += count * (margin_ - scores[i]) + sum;
      gradient[i] -= count * scale;
    }
    // Every example as the shorter one: which longer ones score below (its score + margin)?
    clear();
    for (std::size_t k = n, q = n; k-- != 0;) {
      for (; q > longer_[k]; --q) insert(by_length_[q - 1], scores);
      const std::uint32_t i = by_length_[k];
      gradient[i] += sum_below(over_[i]).count * scale;
    }
    return total * scale;
  }

 private:
  struct node {
    double count = 0;
    double sum = 0;
  };

  /// Ranks by score, and per example the ranks where score - margin and score + margin would stand. The comparison is
  /// the same for both, so that the two passes agree on every pair. A violates with B if margin > A - B, in doubles.
  void order_by_score(std::span<const float> scores) {
    const std::size_t n = scores.size();
    by_score_.resize(n);
    rank_.resize(n);
    under_.resize(n);
    over_.resize(n);
    tree_.resize(n + 1);
    for (std::size_t i = 0; i != n; ++i) by_score_[i] = static_cast<std::uint32_t>(i);
    std::sort(by_score_.begin(), by_score_.end(),
              [&](std::uint32_t a, std::uint32_t b) { return scores[a] != scores[b] ? scores[a] < scores[b] : a < b; });
    const auto violates = [&](std::uint32_t longer, std::uint32_t shorter) {
      return margin_ > static_cast<double>(scores[longer]) - static_cast<double>(scores[shorter]);
    };
    for (std::size_t k = 0, u = 0, o = 0; k != n; ++k) {
      const std::uint32_t i = by_score_[k];
      rank_[i] = static_cast<std::uint32_t>(k);
      while (u < n && !violates(i, by_score_[u])) ++u;
      under_[i] = static_cast<std::uint32_t>(u);
      while (o < n && violates(by_score_[o], i)) ++o;
      over_[i] = static_cast<std::uint32_t>(o);
    }
  }
  void clear() noexcept {
    std::fill(tree_.begin(), tree_.end(), node{});
    entered_ = entered_sum_ = 0;
  }
  void insert(std::uint32_t i, std::span<const float> scores) noexcept {
    const double s = scores[i];
    for (std::size_t k = rank_[i] + std::size_t{1}; k < tree_.size(); k += k & (~k + 1)) {
      tree_[k].count += 1;
      tree_[k].sum += s;
    }
    entered_ += 1;
    entered_sum_ += s;
  }
  [[nodiscard]] node sum_below(std::size_t rank) const noexcept {
    node r;
    for (std::size_t k = rank; k != 0; k &= k - 1) {
      r.count += tree_[k].count;
      r.sum += tree_[k].sum;
    }
    return r;
  }

  double margin_;
  double pairs_ = 0;
  double entered_ = 0;
  double entered_sum_ = 0;
  std::vector<std::uint32_t> by_length_;  ///< examples, shortest first
  std::vector<std::uint32_t> shorter_;    ///< per place in by_length_: end of the partners that are shorter
  std::vector<std::uint32_t> longer_;     ///< per place in by_length_: begin of the partners that are longer
  std::vector<std::uint32_t> by_score_{}, rank_{}, under_{}, over_{};
  std::vector<node> tree_{};
};

/// Listwise ListMLE over one list of all examples. The negative log-likelihood, per example, of the true order under
/// the Plackett-Luce model of the scores. (The longest is first; among equal ones the earlier.) O(n).
class listwise_loss {
 public:
  /// O(n log n). Allocates: training only.
  explicit listwise_loss(std::span<const float> lengths) : order_(lengths.size()), log_sum_(lengths.size()) {
    for (std::size_t i = 0; i != order_.size(); ++i) order_[i] = static_cast<std::uint32_t>(i);
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return lengths[a] != lengths[b] ? lengths[a] > lengths[b] : a < b;
    });
  }

  /// Mean loss; writes its gradient by the scores. O(n).
  double operator()(std::span<const float> scores, std::span<double> gradient) {
    const std::size_t n = order_.size();
    TESSERA_ASSERT(scores.size() == n && gradient.size() == n, "sizes differ");
    if (n == 0) return 0;
    const double scale = 1.0 / static_cast<double>(n);
    double total = 0;
    double top = scores[order_[n - 1]];  // log of the sum of exp(score) from here on, as top + log(sum)
    double sum = 0;
    for (std::size_t k = n; k-- != 0;) {
      const double s = scores[order_[k]];
      if (s > top) {
        sum *= std::exp(top - s);
        top = s;
      }
      sum += std::exp(s - top);
      log_sum_[k] = top + std::log(sum);
      total += log_sum_[k] - s;
    }
    // d/ds of the k-th is the sum over i <= k of exp(s - log_sum_i), minus 1. With k, log_sum_ only falls, so each new
    // term is at least as large as those before it. The running sum is kept relative to the newest.
    double running = 0;
    for (std::size_t k = 0; k != n; ++k) {
      if (k != 0) running *= std::exp(log_sum_[k] - log_sum_[k - 1]);
      running += 1.0;
      gradient[order_[k]] = scale * (running * std::exp(scores[order_[k]] - log_sum_[k]) - 1.0);
    }
    return total * scale;
  }

 private:
  std::vector<std::uint32_t> order_;
  std::vector<double> log_sum_;
};

/// How lengths become targets of regression, and scores become lengths: length = median + deviation * score.
struct length_unit {
  double median = 0;     ///< In tokens.
  double deviation = 1;  ///< Mean absolute deviation from the median; 1 when that is 0.

  /// O(n). Allocates: training only.
  [[nodiscard]] static length_unit of(std::span<const float> lengths) {
    length_unit u;
    if (lengths.empty()) return u;
    std::vector<float> sorted(lengths.begin(), lengths.end());
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    u.median = *middle;
    double sum = 0;
    for (const float l : lengths) sum += std::abs(l - u.median);
    if (sum > 0) u.deviation = sum / static_cast<double>(lengths.size());
    return u;
  }
};

/// Pointwise L1 regression on the length: mean |score - (length - median) / deviation|.
/// The corner at 0 is rounded off within `rounding` (sqrt(r^2 + rounding^2) - rounding), so that second-order steps
/// work.
class pointwise_loss {
 public:
  /// Requires `rounding > 0` (asserted).
  pointwise_loss(std::span<const float> lengths, length_unit unit, double rounding = 0.02)
      : rounding_{rounding}, target_(lengths.begin(), lengths.end()) {
    TESSERA_ASSERT(rounding > 0, "rounding must be above 0");
    for (double& t : target_) t = (t - unit.median) / unit.deviation;
  }

  /// Mean loss; writes its gradient by the scores. O(n).
  double operator()(std::span<const float> scores, std::span<double> gradient) const {
    TESSERA_ASSERT(scores.size() == target_.size() && gradient.size() == target_.size(), "sizes differ");
    if (target_.empty()) return 0;
    const double scale = 1.0 / static_cast<double>(target_.size());
    double total = 0;
    for (std::size_t i = 0; i != target_.size(); ++i) {
      const double r = scores[i] - target_[i];
      const double root = std::sqrt(r * r + rounding_ * rounding_);
      total += root - rounding_;
      gradient[i] = scale * r / root;
    }
    return total * scale;
  }

 private:
  double rounding_;
  std::vector<double> target_;
};

}  // namespace rank
TESSERA_NAMESPACE_END
