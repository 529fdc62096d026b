// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

/// @file
/// The spread of measured values.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// A moment that has not come, or a number without a measurement.
inline constexpr double never = std::numeric_limits<double>::quiet_NaN();

/// The quantile `p` of sorted values: linear between the two nearest ranks, rank p (n - 1) counted from 0. NaN for no
/// values. Requires `p` in [0, 1]. O(1).
[[nodiscard]] double percentile(std::span<const double> sorted, double p) noexcept;

/// The spread of some samples.
struct distribution {
  std::size_t count = 0;  ///< Number of values.
  double mean = never;    ///< Their mean.
  double p50 = never;     ///< The median.
  double p90 = never;     ///< The 90th percentile.
  double p95 = never;     ///< The 95th percentile.
  double p99 = never;     ///< The 99th percentile.
  double max = never;     ///< The largest.
};

/// Sorts the samples, without NaNs, and summarises them. O(n log n). The mean does not depend on the order given.
[[nodiscard]] distribution describe(std::vector<double> samples);

/// Mean over time, and peak, of a quantity that is constant between changes.
class time_average {
 public:
  /// The quantity was `value` for `seconds`.
  void add(double value, double seconds) noexcept {
    area_ += value * seconds;
    time_ += seconds;
    if (seconds > 0 && peak_ < value) peak_ = value;
  }
  /// Weighted by time; 0 if no time has passed.
  [[nodiscard]] double mean() const noexcept { return time_ > 0 ? area_ / time_ : 0; }
  /// The largest value.
  [[nodiscard]] double peak() const noexcept { return peak_; }

 private:
  double area_ = 0;
  double time_ = 0;
  double peak_ = 0;
};

/// Counts of non-negative integers in buckets at most 1/32 wide: mean exact, quantiles within 3.2 %. For the times of
/// steps: a run has millions of them. `add` is O(1) and allocates nothing.
class count_histogram {
 public:
  /// Counts one more of this value. O(1).
  void add(std::uint64_t value) noexcept {
    ++counts_[bucket(value)];
    ++count_;
    sum_ += static_cast<double>(value);
  }
  /// Adds the counts of another.
  void merge(const count_histogram& other) noexcept {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    sum_ += other.sum_;
  }
  /// Number of values added.
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// Their mean; `never` if there are none.
  [[nodiscard]] double mean() const noexcept { return count_ == 0 ? never : sum_ / static_cast<double>(count_); }
  /// The largest value that shares a bucket with the quantile `p`. NaN if empty.
  [[nodiscard]] double quantile(double p) const noexcept {
    if (count_ == 0) return never;
    const auto rank = static_cast<std::uint64_t>(p * static_cast<double>(count_ - 1));
    std::uint64_t below = 0;
    std::size_t i = 0;
    for (; i + 1 < counts_.size(); ++i) {
      below += counts_[i];
      if (below > rank) break;
    }
    return static_cast<double>(upper(i));
  }

 private:
  // Values below 32 have a bucket each; above, each power of two is cut into 32.
  static constexpr std::size_t per_octave = 32;
  [[nodiscard]] static constexpr std::size_t bucket(std::uint64_t v) noexcept {
    if (v < per_octave) return static_cast<std::size_t>(v);
    const auto shift = static_cast<std::size_t>(std::bit_width(v)) - 6;
    return (shift + 1) * per_octave + static_cast<std::size_t>(v >> shift) - per_octave;
  }
  [[nodiscard]] static constexpr std::uint64_t upper(std::size_t i) noexcept {
    if (i < per_octave) return i;
    const std::size_t shift = i / per_octave - 1;
    return ((std::uint64_t{i % per_octave + per_octave + 1}) << shift) - 1;
  }

  std::array<std::uint64_t, 60 * per_octave> counts_{};
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

}  // namespace sim
TESSERA_NAMESPACE_END
