// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

/// @file
/// Kendall's tau-b with ties in O(n log n), and its standard error. For training and evaluation: allocates.

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// Pairs of one sample, counted. PARS, section IV: tau_b = (n_c - n_d) / sqrt((n_0 - n_1) (n_0 - n_2)).
struct kendall_result {
  std::int64_t pairs = 0;        ///< n_0 = n (n - 1) / 2
  std::int64_t concordant = 0;   ///< n_c
  std::int64_t discordant = 0;   ///< n_d
  std::int64_t tied_first = 0;   ///< n_1: equal in the first variable (and perhaps in the second too)
  std::int64_t tied_second = 0;  ///< n_2
  double tau = std::numeric_limits<double>::quiet_NaN();             ///< NaN when a variable is constant or n < 2.
  double standard_error = std::numeric_limits<double>::quiet_NaN();  ///< By the jackknife; NaN when undefined.
};

namespace detail {

/// Counts by rank: add one, or count those below a rank; O(log n).
class rank_counter {
 public:
  explicit rank_counter(std::size_t ranks) : sum_(ranks + 1, 0) {}
  void add(std::size_t rank) noexcept {
    for (std::size_t i = rank + 1; i < sum_.size(); i += i & (~i + 1)) ++sum_[i];
  }
  [[nodiscard]] std::int64_t below(std::size_t rank) const noexcept {
    std::int64_t n = 0;
    for (std::size_t i = rank; i != 0; i &= i - 1) n += sum_[i];
    return n;
  }
  void clear() noexcept { std::fill(sum_.begin(), sum_.end(), 0); }

 private:
  std::vector<std::int32_t> sum_;
};

/// Dense ranks (equal values share one), and the number of values with each rank.
struct dense_ranks {
  std::vector<std::uint32_t> of;
  std::vector<std::uint32_t> count;
  std::vector<std::uint32_t> order;  ///< indices, ascending by value

  explicit dense_ranks(std::span<const float> x) : of(x.size()), order(x.size()) {
    for (std::size_t i = 0; i != x.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return x[a] != x[b] ? x[a] < x[b] : a < b; });
    for (std::size_t k = 0; k != order.size(); ++k) {
      if (k == 0 || x[order[k]] != x[order[k - 1]]) count.push_back(0);
      of[order[k]] = static_cast<std::uint32_t>(count.size() - 1);
      ++count.back();
    }
  }
};

}  // namespace detail

/// tau-b of two variables and its jackknife standard error. Requires equal sizes below 2^31 and no NaN (asserted).
/// O(n log n). A pass in ascending and one in descending order of `x` count, per element, those on its other side with
/// smaller and with larger `y`. From these, the statistic without any one element follows in O(1).
[[nodiscard]] inline kendall_result kendall_tau_b(std::span<const float> x, std::span<const float> y) {
  TESSERA_ASSERT(x.size() == y.size() && x.size() < (std::size_t{1} << 31), "samples must have the same size");
  for (std::size_t i = 0; i != x.size(); ++i) {
    TESSERA_ASSERT(!std::isnan(x[i]) && !std::isnan(y[i]), "NaN has no rank");
  }
  kendall_result r;
  const std::size_t n = x.size();
  const auto pairs_of = [](std::int64_t k) { return k * (k - 1) / 2; };
  r.pairs = pairs_of(static_cast<std::int64_t>(n));
  if (n < 2) return r;
  const detail::dense_ranks rx{x};
  const detail::dense_ranks ry{y};
  for (const auto c : rx.count) r.tied_first += pairs_of(c);
  for (const auto c : ry.count) r.tied_second += pairs_of(c);

  std::vector<std::int64_t> excess(n, 0);  // concordant minus discordant pairs that an element is in
  detail::rank_counter seen{ry.count.size()};
  const auto sweep = [&](bool ascending) {
    seen.clear();
    std::int64_t total = 0;
    for (std::size_t first = 0; first != n;) {
      std::size_t last = first;
      const auto at = [&](std::size_t k) { return rx.order[ascending ? k : n - 1 - k]; };
      while (last != n && rx.of[at(last)] == rx.of[at(first)]) ++last;
      for (std::size_t k = first; k != last; ++k) {
        const std::uint32_t i = at(k);
        const std::int64_t less = seen.below(ry.of[i]);
        const std::int64_t greater = total - seen.below(ry.of[i] + std::size_t{1});
        if (ascending) {
          r.concordant += less;
          r.discordant += greater;
        }
        excess[i] += ascending ? less - greater : greater - less;
      }
      for (std::size_t k = first; k != last; ++k) seen.add(ry.of[at(k)]);
      total += static_cast<std::int64_t>(last - first);
      first = last;
    }
  };
  sweep(true);
  sweep(false);

  const auto tau = [](std::int64_t s, std::int64_t n0, std::int64_t n1, std::int64_t n2) {
    if (n0 == n1 || n0 == n2) return std::numeric_limits<double>::quiet_NaN();
    return static_cast<double>(s) / (std::sqrt(static_cast<double>(n0 - n1)) * std::sqrt(static_cast<double>(n0 - n2)));
  };
  const std::int64_t s = r.concordant - r.discordant;
  r.tau = tau(s, r.pairs, r.tied_first, r.tied_second);
  if (n < 3) return r;
  double mean = 0;
  double squares = 0;  // Welford: the values are close to each other
  for (std::size_t i = 0; i != n; ++i) {
    const double t = tau(s - excess[i], pairs_of(static_cast<std::int64_t>(n) - 1),
                         r.tied_first - (std::int64_t{rx.count[rx.of[i]]} - 1),
                         r.tied_second - (std::int64_t{ry.count[ry.of[i]]} - 1));
    const double d = t - mean;
    mean += d / static_cast<double>(i + 1);
    squares += d * (t - mean);
  }
  r.standard_error = std::sqrt(squares * static_cast<double>(n - 1) / static_cast<double>(n));
  return r;
}

}  // namespace rank
TESSERA_NAMESPACE_END
