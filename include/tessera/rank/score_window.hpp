// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/core/units.hpp>
#include <tessera/gpu/sort_key.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// The scores and output lengths of the last `window` requests that ended, and their groups by score, as even in size
/// as equal scores allow. Only the order of the scores counts. The learners of lengths from scores are built on it.
///
/// 16 bytes for each pair in the window. Allocates nothing.
class score_window {
 public:
  /// A score's key (smaller scores have smaller keys) in the upper half, the length in the lower.
  using pair = std::uint64_t;

  /// The key of NaN, and of nothing else.
  static constexpr std::uint32_t not_a_score = 0xFFFF'FFFFU;
  /// Longer outputs count as this long.
  static constexpr tokens longest{std::numeric_limits<std::uint32_t>::max()};

  /// A number with the order of the scores.
  [[nodiscard]] static std::uint32_t key(float score) noexcept { return gpu::ordered_bits(score); }
  /// The score's key in a pair.
  [[nodiscard]] static constexpr std::uint32_t key_of(pair p) noexcept { return static_cast<std::uint32_t>(p >> 32U); }
  /// The length of a pair.
  [[nodiscard]] static constexpr tokens length_of(pair p) noexcept {
    return tokens{static_cast<std::int64_t>(p & 0xFFFF'FFFFU)};
  }

  /// Bytes that it takes from an arena.
  [[nodiscard]] static constexpr std::size_t required_bytes(std::size_t window) noexcept {
    return storage_layout{}.add<pair>(window).add<pair>(window).bytes();
  }
  /// Requires a window of 1 to 2^31 - 1 pairs (asserted).
  score_window(arena& memory, std::size_t window) noexcept : all_{memory, window}, sorted_{memory, window} {
    TESSERA_ASSERT(window >= 1 && window < (std::size_t{1} << 31U), "a window of 1 to 2^31 - 1 pairs");
  }

  /// A request with this score has ended after `output` tokens; the oldest goes if the window is full. Requires `output
  /// >= 0` (asserted). O(1).
  void observe(float score, tokens output) noexcept {
    TESSERA_ASSERT(output >= tokens{}, "a length is not negative");
    const pair p = pair{key(score)} << 32U | static_cast<pair>(min(output, longest).count());
    if (!all_.full()) {
      all_.push_back(p);
      return;
    }
    all_[oldest_] = p;
    oldest_ = oldest_ + 1 == all_.size() ? 0 : oldest_ + 1;
  }

  /// All pairs in the window, with and without a score, in no order.
  [[nodiscard]] std::span<const pair> all() const noexcept { return {all_.data(), all_.size()}; }

  /// Calls `f(group, equal)` for each score, from the smallest, with its pairs and its group. The pair at place p of n
  /// belongs to group p groups / n; equal scores all go to the group of the middle one. Groups are counted from 0; some
  /// may be empty. Requires `groups >= 1` (asserted). O(window log window).
  template <class F>
  void each_score(std::size_t groups, F&& f) noexcept {
    TESSERA_ASSERT(groups >= 1, "at least one group");
    sorted_.clear();
    for (const pair p : all_) {
      if (key_of(p) != not_a_score) sorted_.push_back(p);
    }
    std::sort(sorted_.begin(), sorted_.end());
    const std::size_t n = sorted_.size();
    for (std::size_t first = 0, past = 0; first != n; first = past) {
      while (past != n && key_of(sorted_[past]) == key_of(sorted_[first])) ++past;
      f(std::uint64_t{(first + past - 1) / 2} * groups / n, std::span<const pair>{&sorted_[first], past - first});
    }
  }

 private:
  fixed_vector<pair> all_;     // A ring, once full.
  fixed_vector<pair> sorted_;  // Within `each_score`.
  std::size_t oldest_ = 0;
};

}  // namespace rank
TESSERA_NAMESPACE_END
