// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/core/units.hpp>
#include <tessera/gpu/sort_key.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

/// @file
/// Expected output lengths from scores that mean nothing but their order.
///
/// Ranking needs no more than the order (PARS, section III). Who wants to know when a request will be done, or how much
/// KV it will hold, needs tokens. They are learnt from the requests that have ended, whatever the scale of the scores.

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// Expected output length of a score: the isotonic regression (non-decreasing, least squares) of length on score over
/// the last so many requests that ended.
///
/// The pairs are put into groups by score, of as even sizes as equal scores allow; groups whose mean lengths are not in
/// order are joined until they are. So a score that says nothing gives everybody the mean, and a good one the spread
/// that it has earned. Only the order of the scores counts: any increasing function of them gives the same lengths.
/// Exact, hence the same on any machine: sums are integers, and means are compared as fractions.
///
/// 16 bytes for each of the window and each group.
class length_calibrator {
  /// Groups that were joined: a step of the fitted function.
  struct step {
    std::int64_t sum = 0;     // Of the output tokens.
    std::uint32_t count = 0;  // Pairs.
    std::uint32_t last = 0;   // Key of the largest score.
  };

 public:
  /// What there must be room for; fixed at construction.
  struct limits {
    std::size_t window = 4096;  ///< Pairs remembered. At least 1, below 2^31.
    std::size_t groups = 32;    ///< Most steps of the fitted function. At least 1, below 2^31.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add<std::uint64_t>(l.window)
        .add<std::uint64_t>(l.window)
        .add<step>(l.groups)
        .bytes_unaligned();
  }

  /// Over the caller's memory, at least `required_bytes(l)` (asserted), which must outlive it.
  length_calibrator(std::span<std::byte> memory, const limits& l) noexcept : length_calibrator{arena{memory}, l} {}
  /// Over storage from `storage_for`.
  explicit length_calibrator(owned_storage<limits>& storage) noexcept
      : length_calibrator{storage.memory(), storage.limits()} {}
  length_calibrator(const length_calibrator&) = delete;
  length_calibrator& operator=(const length_calibrator&) = delete;

  /// A request with this score has ended after `output` tokens; the oldest pair goes if the window is full. A NaN score
  /// counts for the mean only. More than 2^32 - 1 tokens count as so many. Changes no answer before the next `fit`.
  /// Requires `output >= 0` (asserted). O(1).
  void observe(float score, tokens output) noexcept {
    TESSERA_ASSERT(output >= tokens{}, "a length is not negative");
    constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
    const std::uint64_t pair =
        std::uint64_t{gpu::ordered_bits(score)} << 32U | static_cast<std::uint64_t>(std::min(output.count(), most));
    if (!window_.full()) {
      window_.push_back(pair);
      return;
    }
    window_[oldest_] = pair;
    oldest_ = oldest_ + 1 == window_.size() ? 0 : oldest_ + 1;
  }

  /// Learns the function anew from the window. O(window log window).
  void fit() noexcept {
    all_ = {};
    steps_.clear();
    sorted_.clear();
    for (const std::uint64_t pair : window_) {
      add(all_, pair);
      if (key_of(pair) != not_a_score) sorted_.push_back(pair);
    }
    std::sort(sorted_.begin(), sorted_.end());

    // The pair at place p of n belongs to group p groups / n; equal scores go all where the middle one of them belongs.
    const std::size_t n = sorted_.size();
    step open;
    std::uint64_t open_group = 0;
    for (std::size_t first = 0, next = 0; first != n; first = next) {
      const std::uint32_t key = key_of(sorted_[first]);
      step run{.last = key};
      for (; next != n && key_of(sorted_[next]) == key; ++next) add(run, sorted_[next]);
      const std::uint64_t group = std::uint64_t{(first + next - 1) / 2} * steps_.capacity() / n;
      if (group != open_group && open.count != 0) {
        close(open);
        open = {};
      }
      open_group = group;
      join(open, run);
    }
    if (open.count != 0) close(open);
  }

  /// Expected output of a request with this score, as of the last `fit`, rounded to whole tokens (halves up). The group
  /// is the first whose largest score is not below it, or the last. For a NaN score, or if no score was a number: the
  /// mean of the window. 0 tokens if nothing was fitted. O(log groups).
  [[nodiscard]] tokens operator()(float score) const noexcept {
    const std::uint32_t key = gpu::ordered_bits(score);
    if (key == not_a_score || steps_.empty()) return mean(all_);
    return mean(*std::lower_bound(steps_.begin(), steps_.end() - 1, key,
                                  [](const step& s, std::uint32_t k) { return s.last < k; }));
  }

  /// Pairs remembered. O(1).
  [[nodiscard]] std::size_t size() const noexcept { return window_.size(); }

 private:
  /// What `ordered_bits` makes of NaN, and of nothing else.
  static constexpr std::uint32_t not_a_score = 0xFFFF'FFFFU;

  length_calibrator(arena memory, const limits& l) noexcept
      : window_{memory, l.window}, sorted_{memory, l.window}, steps_{memory, l.groups} {
    TESSERA_ASSERT(l.window >= 1 && l.window < (std::size_t{1} << 31U), "a window of 1 to 2^31 - 1 pairs");
    TESSERA_ASSERT(l.groups >= 1 && l.groups < (std::size_t{1} << 31U), "1 to 2^31 - 1 groups");
  }

  [[nodiscard]] static constexpr std::uint32_t key_of(std::uint64_t pair) noexcept {
    return static_cast<std::uint32_t>(pair >> 32U);
  }
  static constexpr void add(step& s, std::uint64_t pair) noexcept {
    s.sum += static_cast<std::int64_t>(pair & 0xFFFF'FFFFU);
    ++s.count;
  }
  /// `above` has the larger scores.
  static constexpr void join(step& s, const step& above) noexcept {
    s.sum += above.sum;
    s.count += above.count;
    s.last = above.last;
  }

  /// Whether the mean of `a` is below that of `b`. Whole parts first, so that the product of what is left fits.
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

  /// A group is complete: joins it with those before it whose mean is not below its own.
  void close(step group) noexcept {
    while (!steps_.empty() && !below(steps_.back(), group)) {
      step joined = steps_.back();
      join(joined, group);
      group = joined;
      steps_.pop_back();
    }
    steps_.push_back(group);
  }

  fixed_vector<std::uint64_t> window_;  // A ring, once full. A pair: the score's key, then the length.
  fixed_vector<std::uint64_t> sorted_;  // Within `fit`.
  fixed_vector<step> steps_;            // By score; so are their means.
  step all_;                            // The window at the last `fit`.
  std::size_t oldest_ = 0;
};

}  // namespace rank
TESSERA_NAMESPACE_END
