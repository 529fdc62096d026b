// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/core/units.hpp>
#include <tessera/rank/score_window.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// Expected output lengths from scores of which only the order is meaningful.
///
/// Ranking needs no more than the order (PARS, section III). To predict when a request ends, or how much KV it will
/// hold, tokens are needed. They are learned from the requests that have ended, whatever the scale of the scores.

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// Expected output length of a score: the isotonic regression (non-decreasing, least squares) of length on score over
/// the last `window` requests that ended.
///
/// The pairs are put into groups by score, as even in size as equal scores allow. Groups with mean lengths out of order
/// are joined. So a score without information gives every request the mean, and a good one gives the spread that it
/// supports. Only the order of the scores counts: any increasing function of them gives the same lengths. Exact, hence
/// the same on any machine: sums are integers, and means are compared as fractions.
///
/// 16 bytes for each pair in the window and each group.
class length_calibrator {
  /// Joined groups: a step of the fitted function.
  struct step {
    std::int64_t sum = 0;     // Sum of the output tokens.
    std::uint32_t count = 0;  // Pairs.
    std::uint32_t last = 0;   // Key of the largest score.
  };

 public:
  /// Capacities; fixed at construction.
  struct limits {
    std::size_t window = 4096;  ///< Pairs remembered. At least 1, below 2^31.
    std::size_t groups = 32;    ///< Most steps of the fitted function. At least 1, below 2^31.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}.add_bytes(score_window::required_bytes(l.window)).add<step>(l.groups).bytes_unaligned();
  }

  /// Over the caller's memory, at least `required_bytes(l)` (checked in every build), which must outlive it.
  length_calibrator(std::span<std::byte> memory, const limits& l) noexcept : length_calibrator{arena{memory}, l} {}
  /// Over storage from `storage_for`.
  explicit length_calibrator(owned_storage<limits>& storage) noexcept
      : length_calibrator{storage.memory(), storage.limits()} {}
  length_calibrator(const length_calibrator&) = delete;
  length_calibrator& operator=(const length_calibrator&) = delete;

  /// A request with this score has ended after `output` tokens; the oldest pair goes if the window is full. A NaN score
  /// counts for the mean only. Larger outputs count as 2^32 - 1 tokens. Changes no answer before the next `fit`.
  /// Requires `output >= 0` (asserted). O(1).
  void observe(float score, tokens output) noexcept { window_.observe(score, output); }

  /// Learns the function anew from the window. O(window log window).
  void fit() noexcept {
    all_ = {};
    steps_.clear();
    for (const std::uint64_t pair : window_.all()) add(all_, pair);
    step open;
    std::uint64_t open_group = 0;
    window_.each_score(steps_.capacity(), [&](std::uint64_t group, std::span<const std::uint64_t> equal) noexcept {
      step run{.last = score_window::key_of(equal.front())};
      for (const std::uint64_t pair : equal) add(run, pair);
      if (group != open_group && open.count != 0) {
        close(open);
        open = {};
      }
      open_group = group;
      join(open, run);
    });
    if (open.count != 0) close(open);
  }

  /// Expected output of a request with this score, as of the last `fit`, rounded to whole tokens (halves up). The group
  /// is the first with a largest score not below it, or the last. For a NaN score, or if no score was a number: the
  /// mean of the window. 0 tokens if nothing was fitted. O(log groups).
  [[nodiscard]] tokens operator()(float score) const noexcept {
    const std::uint32_t key = score_window::key(score);
    if (key == score_window::not_a_score || steps_.empty()) return mean(all_);
    return mean(*std::lower_bound(steps_.begin(), steps_.end() - 1, key,
                                  [](const step& s, std::uint32_t k) { return s.last < k; }));
  }

  /// Pairs remembered. O(1).
  [[nodiscard]] std::size_t size() const noexcept { return window_.all().size(); }

 private:
  length_calibrator(arena memory, const limits& l) noexcept : window_{memory, l.window}, steps_{memory, l.groups} {
    TESSERA_ASSERT(l.groups >= 1 && l.groups < (std::size_t{1} << 31U), "1 to 2^31 - 1 groups");
  }

  static constexpr void add(step& s, std::uint64_t pair) noexcept {
    s.sum += score_window::length_of(pair).count();
    ++s.count;
  }
  /// `above` has the larger scores.
  static constexpr void join(step& s, const step& above) noexcept {
    s.sum += above.sum;
    s.count += above.count;
    s.last = above.last;
  }

  /// Whether the mean of `a` is below that of `b`. Whole parts first, so that the product of the remainders fits.
  [[nodiscard]] static constexpr bool below(const step& a, const step& b) noexcept {
    const std::int64_t whole_a = a.sum / a.count;
    const std::int64_t whole_b = b.sum / b.count;
    if (whole_a != whole_b) return whole_a < whole_b;
    return a.sum % a.count * b.count < b.sum % b.count * a.count;
  }
  [[nodiscard]] static constexpr tokens mean(const step& s) noexcept {
    if (s.count == 0) return tokens{};
    return tokens{s.sum / s.count + (s.sum % s.count * 2 >= s.count ? 1 : 0)};
  }

  /// A group is complete: joins it with earlier ones that have a mean not below its own.
  void close(step group) noexcept {
    while (!steps_.empty() && !below(steps_.back(), group)) {
      step joined = steps_.back();
      join(joined, group);
      group = joined;
      steps_.pop_back();
    }
    steps_.push_back(group);
  }

  score_window window_;
  fixed_vector<step> steps_;  // By score; so are their means.
  step all_;                  // The window at the last `fit`.
};

}  // namespace rank
TESSERA_NAMESPACE_END
