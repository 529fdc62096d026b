// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/core/units.hpp>
#include <tessera/rank/score_window.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// How long an output will still be, given how long it is already.

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// A request that has not ended: what is known of it is that its output is longer than this.
struct running_length {
  float score = 0;     ///< As given to `observe`; NaN if it has none.
  tokens generated{};  ///< Its output so far.
};

/// The distribution of output lengths by score, and of what is left of an output by its age.
///
/// Learned from the requests that ended lately, and censored by those that run: of these it is known that they are
/// longer than what they have. Without them, whoever looks at a server that has just begun sees the short ones only.
///
/// Scores are put into groups of as even sizes as equal scores allow, lengths into bins that are an eighth wide; a
/// group has a life table (the actuarial estimate of Cutler and Ederer 1958: who is censored within a bin was at risk
/// for half of it). Within a bin lengths are taken to be spread evenly. Only the order of the scores counts.
///
/// `drift` says whether lengths are still those that were learned: it adds up how far the places of those that end,
/// in the distribution that was expected of them, are from the middle.
///
/// 16 bytes for each of the window, 12 for each group, 24 for each group and bin.
class length_distribution {
  /// Of a group, from the lower end of a bin on.
  struct row {
    double ended = 0;     // Within the bin. After `fit`: the part that ends in it of those that come to it.
    double censored = 0;  // The same. After `fit`: the part of all that comes to it.
    double left = 0;      // Tokens expected to come for who comes to it.
  };

 public:
  /// What there must be room for; fixed at construction.
  struct limits {
    std::size_t window = 4096;  ///< Ended requests that are remembered. At least 1, below 2^31.
    std::size_t groups = 8;     ///< Most groups of scores. At least 1, below 2^31.
  };

  /// Longer outputs count as so long.
  static constexpr tokens longest{(std::int64_t{1} << 24) - 1};

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add_bytes(score_window::required_bytes(l.window))
        .add<std::uint32_t>(l.groups)
        .add<row>((l.groups + 1) * bins)
        .add<double>(l.groups + 1)
        .bytes_unaligned();
  }

  /// Over the caller's memory, at least `required_bytes(l)` (checked in every build), which must outlive it.
  length_distribution(std::span<std::byte> memory, const limits& l) noexcept : length_distribution{arena{memory}, l} {}
  /// Over storage from `storage_for`.
  explicit length_distribution(owned_storage<limits>& storage) noexcept
      : length_distribution{storage.memory(), storage.limits()} {}
  length_distribution(const length_distribution&) = delete;
  length_distribution& operator=(const length_distribution&) = delete;

  /// A request with this score (NaN: it had none) has ended after `output` tokens; the oldest goes if the window is
  /// full. Changes no expectation before the next `fit`, but `drift`. Requires `output >= 0` (asserted). O(log groups).
  void observe(float score, tokens output) noexcept {
    TESSERA_ASSERT(output >= tokens{}, "a length is not negative");
    const tokens n = within(output);
    if (fitted_) watch(score, n);
    window_.observe(score, n);
  }

  /// Learns the distributions anew from the window and from those that run, and begins `drift` anew. O(window log
  /// window + running log groups + groups).
  void fit(std::span<const running_length> running = {}) noexcept {
    last_.clear();
    std::uint64_t open = 0;
    window_.each_score(last_.capacity(), [&](std::uint64_t group, std::span<const std::uint64_t> equal) noexcept {
      if (last_.empty() || group != open) last_.push_back(0);
      last_.back() = score_window::key_of(equal.front());
      open = group;
    });
    std::fill(rows_.begin(), rows_.end(), row{});
    const auto add = [&](std::uint32_t key, auto&& count) noexcept {
      count(table(all_groups));
      if (key != score_window::not_a_score && !last_.empty()) count(table(group_of(key)));
    };
    for (const std::uint64_t pair : window_.all()) {
      const tokens length = score_window::length_of(pair);
      add(score_window::key_of(pair), [&](std::span<row> t) noexcept { t[bin_of(length)].ended += 1; });
    }
    // It will have one token more at least.
    for (const running_length& r : running) {
      const tokens least = within(max(r.generated, tokens{}) + tokens{1});
      add(score_window::key(r.score), [&](std::span<row> t) noexcept { t[bin_of(least)].censored += 1; });
    }
    bias_[all_groups] = summarize(table(all_groups));
    for (std::size_t g = 0; g != last_.size(); ++g) bias_[g] = summarize(table(g));
    fitted_ = !window_.all().empty();
    longer_ = shorter_ = 0;
  }

  /// Tokens that a request of this score, which has `generated` so far and has not ended, is expected to generate yet,
  /// as of the last `fit`. At least 1; 0 if nothing was fitted. O(log groups).
  [[nodiscard]] tokens expected_rest(float score, tokens generated) const noexcept {
    if (!fitted_) return {};
    const std::span<const row> t = table_for(score);
    const std::int64_t x = next(generated);
    const std::size_t b = bin_of(tokens{x});
    const double width = width_of(b);
    const double in_front = static_cast<double>(x - first_of(b));  // of it, in the bin
    const double ends = ends_after(t[b].ended, in_front / width);
    const double after = b + 1 == bins ? 0 : t[b + 1].left;
    const double rest = ends * (width - in_front - 1) / 2 + (1 - ends) * (width - in_front + after);
    return tokens{static_cast<std::int64_t>(std::llround(rest)) + 1};
  }

  /// Tokens that it generates yet, at most, with probability `q`: the smallest number that the expected distribution
  /// does not exceed with a smaller one. At least 1; 0 if nothing was fitted. Requires 0 < q <= 1 (asserted).
  /// O(log groups + log bins).
  [[nodiscard]] tokens rest_quantile(float score, tokens generated, double q) const noexcept {
    TESSERA_ASSERT(q > 0 && q <= 1, "a probability");
    if (!fitted_) return {};
    const std::span<const row> t = table_for(score);
    const std::int64_t x = next(generated);
    const double alive = 1 - q;  // that are longer, of those that come to x
    const double wanted = alive * reaches(t, x);
    // The last bin that so many come to; those who come to none are the first's.
    const auto from = t.begin() + static_cast<std::ptrdiff_t>(bin_of(tokens{x}));
    const auto past =
        std::partition_point(from + 1, t.end(), [&](const row& r) noexcept { return r.censored > wanted; });
    const auto b = static_cast<std::size_t>(past - t.begin()) - 1;
    const double ending = t[b].censored * t[b].ended;
    // Who has outlived all that was learned ends evenly in what is left of the bin, as `expected_rest` takes it.
    const double through = static_cast<double>(x - first_of(b)) / width_of(b);
    const double part = !(reaches(t, x) > 0) ? through + q * (1 - through)
                        : ending > 0         ? std::clamp((t[b].censored - wanted) / ending, 0.0, 1.0)
                                             : 1.0;
    const auto inside = static_cast<std::int64_t>(std::ceil(part * width_of(b) - 1e-9));
    const std::int64_t length = first_of(b) + std::max<std::int64_t>(inside, 1) - 1;
    return tokens{std::max<std::int64_t>(length - x, 0) + 1};
  }

  /// How many times as long as one of these outputs the output is, on average, that one of their tokens belongs to:
  /// E[X^2] / E[X]^2, as of the last `fit`. About 1 where all are alike, 2 for exponential lengths, more where a few
  /// long ones generate most of what there is. 1 if nothing was fitted. O(log groups).
  [[nodiscard]] double length_bias(float score) const noexcept { return fitted_ ? bias_[table_of(score)] : 1; }

  /// By how much outputs have been longer (positive) or shorter (negative) than they were expected to be since the last
  /// `fit`: a two-sided cumulative sum of standardised places (Page 1954), from which half a standard deviation is
  /// taken for each output. What was learned still holds while it is within `drifts_at`. O(1).
  [[nodiscard]] double drift() const noexcept { return longer_ >= shorter_ ? longer_ : -shorter_; }

  /// A drift that outputs of the learned distribution itself reach less often than once in 100,000 requests, where it
  /// was learned from 4,096.
  static constexpr double drifts_at = 10;

  /// Ended requests that are remembered. O(1).
  [[nodiscard]] std::size_t size() const noexcept { return window_.all().size(); }

 private:
  // Bins: one for each length below 16, then eight for each doubling.
  static constexpr std::size_t steps = 8;
  static constexpr std::size_t bins = 2 * steps + 20 * steps;

  length_distribution(arena memory, const limits& l) noexcept
      : window_{memory, l.window},
        last_{memory, l.groups},
        rows_{memory, (l.groups + 1) * bins},
        bias_{memory, l.groups + 1},
        all_groups{l.groups} {
    TESSERA_ASSERT(l.groups >= 1 && l.groups < (std::size_t{1} << 31U), "1 to 2^31 - 1 groups");
    std::fill_n(rows_.extend((l.groups + 1) * bins), (l.groups + 1) * bins, row{});
    std::fill_n(bias_.extend(l.groups + 1), l.groups + 1, 1.0);
  }

  [[nodiscard]] static constexpr tokens within(tokens n) noexcept { return min(n, longest); }
  /// The least length that one can have which has so many.
  [[nodiscard]] static constexpr std::int64_t next(tokens generated) noexcept {
    return within(max(generated, tokens{}) + tokens{1}).count();
  }

  [[nodiscard]] static constexpr std::size_t bin_of(tokens n) noexcept {
    const auto v = static_cast<std::uint64_t>(n.count());
    if (v < 2 * steps) return static_cast<std::size_t>(v);
    const auto shift = static_cast<std::size_t>(std::bit_width(v)) - 4;
    return shift * steps + static_cast<std::size_t>(v >> shift);
  }
  [[nodiscard]] static constexpr std::int64_t first_of(std::size_t b) noexcept {
    if (b < 2 * steps) return static_cast<std::int64_t>(b);
    const std::size_t shift = b / steps - 1;
    return static_cast<std::int64_t>((b - shift * steps) << shift);
  }
  [[nodiscard]] static constexpr double width_of(std::size_t b) noexcept {
    return b < 2 * steps ? 1 : static_cast<double>(std::int64_t{1} << (b / steps - 1));
  }

  [[nodiscard]] std::span<row> table(std::size_t g) noexcept { return std::span<row>{rows_.data() + g * bins, bins}; }
  [[nodiscard]] std::span<const row> table(std::size_t g) const noexcept {
    return std::span<const row>{rows_.data() + g * bins, bins};
  }
  /// The first whose largest score is not below it, or the last. Requires: there is one.
  [[nodiscard]] std::size_t group_of(std::uint32_t key) const noexcept {
    return static_cast<std::size_t>(std::lower_bound(last_.begin(), last_.end() - 1, key) - last_.begin());
  }
  [[nodiscard]] std::size_t table_of(float score) const noexcept {
    const std::uint32_t key = score_window::key(score);
    return key == score_window::not_a_score || last_.empty() ? all_groups : group_of(key);
  }
  [[nodiscard]] std::span<const row> table_for(float score) const noexcept { return table(table_of(score)); }

  /// The life table, from counts. From the last bin to the first, so that all that come to a bin are known. Returns
  /// E[X^2] / E[X]^2.
  static double summarize(std::span<row> t) noexcept {
    double beyond = 0;  // that come to the next bin
    double left = 0;    // for these
    for (std::size_t b = bins; b-- != 0;) {
      row& r = t[b];
      const double here = beyond + r.ended + r.censored;
      const double at_risk = here - r.censored / 2;
      const double ends = at_risk > 0 ? std::min(r.ended / at_risk, 1.0) : 1.0;
      const double width = width_of(b);
      beyond = here;
      left = ends * (width - 1) / 2 + (1 - ends) * (width + left);
      r.ended = ends;
      r.left = left;
    }
    double part = 1;
    double mean = 0;
    double squares = 0;
    for (std::size_t b = 0; b != bins; ++b) {
      row& r = t[b];
      r.censored = part;
      const double width = width_of(b);
      const double middle = static_cast<double>(first_of(b)) + (width - 1) / 2;
      mean += part * r.ended * middle;
      squares += part * r.ended * (middle * middle + (width * width - 1) / 12);
      part *= 1 - r.ended;
    }
    // Those who run through the last bin.
    mean += part * static_cast<double>(longest.count());
    squares += part * static_cast<double>(longest.count()) * static_cast<double>(longest.count());
    return mean > 0 ? squares / (mean * mean) : 1;
  }

  /// Of those who have come through a part of a bin, the part that ends in the rest, if `ends` do of all.
  [[nodiscard]] static double ends_after(double ends, double part) noexcept {
    const double left = 1 - ends * part;
    return left > 0 ? ends * (1 - part) / left : 1.0;
  }
  /// The part of all that is not shorter than `x`.
  [[nodiscard]] static double reaches(std::span<const row> t, std::int64_t x) noexcept {
    const std::size_t b = bin_of(tokens{x});
    return t[b].censored * (1 - t[b].ended * static_cast<double>(x - first_of(b)) / width_of(b));
  }

  void watch(float score, tokens n) noexcept {
    const std::span<const row> t = table_for(score);
    const std::int64_t x = n.count();
    const double place = 1 - (reaches(t, x) + (x == longest.count() ? 0 : reaches(t, x + 1))) / 2;
    const double z = (place - 0.5) * std::sqrt(12.0);
    longer_ = std::max(0.0, longer_ + z - 0.5);
    shorter_ = std::max(0.0, shorter_ - z - 0.5);
  }

  score_window window_;
  fixed_vector<std::uint32_t> last_;  // By group: key of its largest score.
  fixed_vector<row> rows_;            // By group, then bin; the last group is all, with and without a score.
  fixed_vector<double> bias_;         // By group, the same.
  std::size_t all_groups;
  bool fitted_ = false;
  double longer_ = 0;
  double shorter_ = 0;
};

}  // namespace rank
TESSERA_NAMESPACE_END
