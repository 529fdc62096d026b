// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/cost/qoe_model.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>

/// @file
/// The boundary between one instance's range and its successor's, from the present requests of both (CascadeInfer,
/// section 4.3).

TESSERA_NAMESPACE_BEGIN
namespace partition {

/// Sorts by length, ascending, then by input, as the functions below require.
inline void sort_by_length(std::span<cost::request_lengths> requests) noexcept {
  std::sort(requests.begin(), requests.end(), [](const auto& a, const auto& b) {
    return a.length != b.length ? a.length < b.length : a.input < b.input;
  });
}

/// One of `k` even parts of a sorted sample: every k-th request from the k/2-th on. (The paper's division of a set,
/// which it uses for the average successor.) Moves them to the front of `sorted` and returns their number. O(size / k).
/// Requires k >= 1 (asserted).
inline std::size_t average_part(std::span<cost::request_lengths> sorted, std::size_t k) noexcept {
  TESSERA_ASSERT(k >= 1, "a sample is divided into at least one part");
  std::size_t count = 0;
  for (std::size_t i = k / 2; i < sorted.size(); i += k) sorted[count++] = sorted[i];
  return count;
}

// The rules. Given the sorted union of both instances' requests, each returns the index of the successor's first
// request. A boundary can only separate different lengths; among equally good places the first is taken. Each is one
// pass, O(size), and allocates nothing. Require a request (asserted).

/// The split with the least Q of both parts together: CascadeInfer's.
struct by_quality {
  cost::qoe_model model{};  ///< The cost of a batch.

  /// The first place with the least Q of both sides together. O(requests).
  [[nodiscard]] std::size_t operator()(std::span<const cost::request_lengths> sorted) const noexcept {
    TESSERA_ASSERT(!sorted.empty(), "there is nothing to split");
    cost::batch_features low;
    cost::batch_features high;
    for (const cost::request_lengths& r : sorted) high.join(r);
    std::size_t best = 0;
    double least = 0;
    for (std::size_t i = 0; i != sorted.size(); ++i) {
      if (i == 0 || sorted[i].length != sorted[i - 1].length) {
        const double q = model.batch(low) + model.batch(high);
        if (i == 0 || q < least) {
          least = q;
          best = i;
        }
      }
      low.join(sorted[i]);
      high.leave(sorted[i]);
    }
    return best;
  }
};

namespace detail {

/// The split with the most even sums of `amount`.
template <class Amount>
[[nodiscard]] std::size_t split_evenly(std::span<const cost::request_lengths> sorted, Amount amount) noexcept {
  TESSERA_ASSERT(!sorted.empty(), "there is nothing to split");
  std::int64_t total = 0;
  for (const cost::request_lengths& r : sorted) total += amount(r);
  std::int64_t below = 0;
  std::size_t best = 0;
  std::int64_t least = total;
  for (std::size_t i = 0; i != sorted.size(); ++i) {
    if (i != 0 && sorted[i].length != sorted[i - 1].length) {
      const std::int64_t apart = 2 * below < total ? total - 2 * below : 2 * below - total;
      if (apart < least) {
        least = apart;
        best = i;
      }
    }
    below += amount(sorted[i]);
  }
  return best;
}

}  // namespace detail

/// As many requests on both sides: the paper's quantity-based baseline.
struct by_count {
  /// The place that splits the requests into halves. O(requests).
  [[nodiscard]] std::size_t operator()(std::span<const cost::request_lengths> sorted) const noexcept {
    return detail::split_evenly(sorted, [](const cost::request_lengths&) { return std::int64_t{1}; });
  }
};

/// As many tokens of KV on both sides: the paper's memory-based baseline.
struct by_memory {
  /// The place that splits the tokens held into halves. O(requests).
  [[nodiscard]] std::size_t operator()(std::span<const cost::request_lengths> sorted) const noexcept {
    return detail::split_evenly(sorted, [](const cost::request_lengths& r) { return r.length.count(); });
  }
};

/// A rule that splits a sorted, non-empty sample: returns an index below its size, `noexcept`.
template <class R>
concept split_rule = requires(const R& rule, std::span<const cost::request_lengths> sorted) {
  { rule(sorted) } noexcept -> std::same_as<std::size_t>;
};

/// The boundary between an instance and its successors, followed as the lengths drift.
///
/// Begins at the planner's cut. Each update moves it towards the rule's split, smoothed by an exponential moving
/// average, so that a short burst moves it little. Below `fewest` requests it stays, because a single request would
/// shift it.
template <split_rule Rule = by_quality>
class range_refiner {
 public:
  /// How a boundary follows the requests.
  struct options {
    Rule rule{};             ///< Splits a sample.
    double smoothing = 0.3;  ///< Part of the way towards the new split, in (0, 1]; 1: no memory.
    std::size_t fewest = 5;  ///< Requests, after averaging, below which the boundary is frozen.
  };

  /// Requires a boundary of at least 1 and a smoothing in (0, 1] (asserted).
  constexpr range_refiner(tokens boundary, const options& o) noexcept
      : options_{o}, boundary_{static_cast<double>(boundary.count())} {
    TESSERA_ASSERT(boundary.count() >= 1, "a range has at least one length");
    TESSERA_ASSERT(o.smoothing > 0 && o.smoothing <= 1, "smoothing must be in (0, 1]");
  }

  /// First length of the successors: the average, rounded to the nearest token.
  [[nodiscard]] tokens boundary() const noexcept { return tokens{static_cast<std::int64_t>(boundary_ + 0.5)}; }

  /// Moves the boundary by the requests of this instance and, all together, of its `successors`. It stays within [low,
  /// high]: behind the beginning of this instance's range, and before the end of its successors' range.
  /// O(n log n) to sort and O(n) to split; allocates nothing.
  /// @param scratch room for the requests of all (asserted); overwritten.
  /// @return the split before smoothing; none if there were too few requests.
  /// Requires low <= high, and a successor (asserted).
  std::optional<tokens> update(std::span<const cost::request_lengths> own,
                               std::span<const cost::request_lengths> theirs, std::size_t successors, tokens low,
                               tokens high, std::span<cost::request_lengths> scratch) noexcept {
    TESSERA_ASSERT(successors >= 1, "the last stage has no boundary to move");
    TESSERA_ASSERT(low.count() >= 1 && low <= high, "the boundary must have somewhere to be");
    TESSERA_REQUIRE(own.size() <= scratch.size() && theirs.size() <= scratch.size() - own.size(),
                    "the scratch must hold the requests of all");
    std::copy(theirs.begin(), theirs.end(), scratch.begin());
    std::size_t n = theirs.size();
    sort_by_length(scratch.first(n));
    n = average_part(scratch.first(n), successors);
    std::copy(own.begin(), own.end(), scratch.begin() + static_cast<std::ptrdiff_t>(n));
    n += own.size();
    if (n < options_.fewest || n == 0) return {};
    sort_by_length(scratch.first(n));
    const tokens found = scratch[options_.rule(scratch.first(n))].length;
    const tokens target = min(max(found, low), high);
    boundary_ += options_.smoothing * (static_cast<double>(target.count()) - boundary_);
    boundary_ = std::clamp(boundary_, static_cast<double>(low.count()), static_cast<double>(high.count()));
    return found;
  }

 private:
  options options_;
  double boundary_;
};

}  // namespace partition
TESSERA_NAMESPACE_END
