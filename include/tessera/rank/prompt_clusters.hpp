// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/core/units.hpp>
#include <tessera/rank/score_window.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

/// @file
/// Expected output lengths from the lengths of prompts alone.

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// Kinds of requests that differ in their prompts, such as short questions and long documents. They are told apart by
/// the outputs of the last `window` requests that ended. The expectation for a request is the mean output of its
/// cluster.
///
/// A cluster is split in two by prompt length under three conditions. The mean output of the longer prompts is at least
/// `longer` times that of the shorter ones. The difference of the two means is more than `surely` standard errors. Each
/// part has at least `least` requests. Among all such places the one with the surest difference is taken, and each part
/// is split likewise.
/// (The standard error is that of the two parts as they are or, if larger, of two equal ones. A few long outputs among
/// many short ones may all be in one part by chance, and the other would then seem certain.)
/// So prompts with little or no information make one cluster, with the plain mean as its expectation. A longer prompt
/// never has a shorter expected output: it must be computed all the same, and a smaller expectation would let it go
/// first.
///
/// When to use: no scores, and traffic of several kinds on the same instances. If there are scores, they carry more
/// information (`length_calibrator`).
///
/// 16 bytes for each pair in the window, and 64 for a group that may end a cluster. Allocates nothing. The same on any
/// machine that rounds as IEEE 754 says.
/// Source: ours. A regression tree (Breiman, Friedman, Olshen and Stone 1984) over one variable, which may only rise.
class prompt_clusters {
 public:
  static constexpr double surely = 4;               ///< Standard errors of the difference.
  static constexpr double longer = 3;               ///< Ratio of the means.
  static constexpr std::size_t least = 32;          ///< Requests in a cluster.
  static constexpr std::size_t most_groups = 1024;  ///< Largest number of groups: bounds the depth of `fit`.

  /// Capacities; fixed at construction.
  struct limits {
    std::size_t window = 4096;  ///< Pairs remembered. At least 1, below 2^31.
    std::size_t groups = 64;    ///< Prompts are compared in this many groups of the same size. 1 to `most_groups`.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add_bytes(score_window::required_bytes(l.window))
        .add<sample>(l.groups)
        .add<sample>(l.groups)
        .bytes_unaligned();
  }

  /// Over the caller's memory, at least `required_bytes(l)` (checked in every build), which must outlive it.
  prompt_clusters(std::span<std::byte> memory, const limits& l) noexcept : prompt_clusters{arena{memory}, l} {}
  /// Over storage from `storage_for`.
  explicit prompt_clusters(owned_storage<limits>& storage) noexcept
      : prompt_clusters{storage.memory(), storage.limits()} {}
  prompt_clusters(const prompt_clusters&) = delete;
  prompt_clusters& operator=(const prompt_clusters&) = delete;

  /// A request with such a prompt has ended after `output` tokens; the oldest goes if the window is full. Larger
  /// outputs count as 2^32 - 1 tokens. Changes no answer before the next `fit`. Requires `output >= 0` (asserted).
  /// O(1).
  void observe(tokens prompt, tokens output) noexcept { window_.observe(score_of(prompt), output); }

  /// Finds the clusters anew. O(window log window + groups^2).
  void fit() noexcept {
    groups_.clear();
    clusters_.clear();
    const std::size_t enough = std::clamp<std::size_t>(size() / least, 1, groups_.capacity());
    std::uint64_t open = std::numeric_limits<std::uint64_t>::max();
    window_.each_score(enough, [&](std::uint64_t group, std::span<const std::uint64_t> equal) noexcept {
      if (group != open) groups_.push_back({});
      open = group;
      sample& s = groups_.back();
      for (const std::uint64_t pair : equal) s.add(static_cast<double>(score_window::length_of(pair).count()));
      s.last = score_window::key_of(equal.front());
    });
    split(0, groups_.size(), 0, std::numeric_limits<double>::infinity());
  }

  /// Expected output of a request with such a prompt, as of the last `fit`, rounded to whole tokens. Prompts between
  /// two clusters belong to the longer one, those beyond all to the last. 0 if nothing was fitted. O(log groups).
  [[nodiscard]] tokens operator()(tokens prompt) const noexcept {
    if (clusters_.empty()) return tokens{};
    const std::uint32_t key = score_window::key(score_of(prompt));
    const sample& own = *std::lower_bound(clusters_.begin(), clusters_.end() - 1, key,
                                          [](const sample& s, std::uint32_t k) { return s.last < k; });
    return tokens{std::llround(own.mean())};
  }

  /// Clusters, as of the last `fit`. O(1).
  [[nodiscard]] std::size_t clusters() const noexcept { return clusters_.size(); }
  /// Pairs remembered. O(1).
  [[nodiscard]] std::size_t size() const noexcept { return window_.all().size(); }

 private:
  /// Outputs of requests with adjacent prompt lengths.
  struct sample {
    double sum = 0;
    double squares = 0;
    double count = 0;
    std::uint32_t last = 0;  // Key of the longest prompt.

    void add(double output) noexcept {
      sum += output;
      squares += output * output;
      count += 1;
    }
    /// `above` has the longer prompts.
    void join(const sample& above) noexcept {
      sum += above.sum;
      squares += above.squares;
      count += above.count;
      last = above.last;
    }
    [[nodiscard]] double mean() const noexcept { return sum / count; }
    /// For two or more.
    [[nodiscard]] double variance() const noexcept { return std::max(squares - sum * sum / count, 0.0) / (count - 1); }
  };

  prompt_clusters(arena memory, const limits& l) noexcept
      : window_{memory, l.window}, groups_{memory, l.groups}, clusters_{memory, l.groups} {
    TESSERA_ASSERT(l.groups >= 1 && l.groups <= most_groups, "1 to 1024 groups");
  }

  /// As floats, prompts are exact up to 2^24 tokens, and ordered beyond.
  [[nodiscard]] static float score_of(tokens prompt) noexcept { return static_cast<float>(prompt.count()); }

  [[nodiscard]] sample all_of(std::size_t first, std::size_t past) const noexcept {
    sample all;
    for (; first != past; ++first) all.join(groups_[first]);
    return all;
  }

  /// Makes clusters of these groups, with means in between: the clusters on both sides have theirs there.
  void split(std::size_t first, std::size_t past, double above, double below) noexcept {
    if (first == past) return;
    const sample all = all_of(first, past);
    sample low;
    double best = 0;
    double most = surely * surely;
    std::size_t at = first;
    for (std::size_t i = first; i + 1 < past; ++i) {
      low.join(groups_[i]);
      sample high{all.sum - low.sum, all.squares - low.squares, all.count - low.count, all.last};
      if (!(low.count >= least) || !(high.count >= least)) continue;
      if (low.mean() < above || high.mean() > below || high.mean() < longer * low.mean()) continue;
      const double gap = high.mean() - low.mean();
      const double error = std::max(low.variance() / low.count + high.variance() / high.count,
                                    all.variance() * (1 / low.count + 1 / high.count));
      if (!(gap > 0) || !(gap * gap / error > most)) continue;
      most = gap * gap / error;
      at = i + 1;
      best = high.mean();
    }
    if (at == first) {
      clusters_.push_back(all);
      return;
    }
    split(first, at, above, best);
    split(at, past, clusters_.back().mean(), below);
  }

  score_window window_;
  fixed_vector<sample> groups_;
  fixed_vector<sample> clusters_;  // By prompt; their means do not fall.
};

}  // namespace rank
TESSERA_NAMESPACE_END
