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

/// A request that has not ended: its output is longer than this.
struct running_length {
  float score = 0;     ///< As given to `observe`; NaN if it has none.
  tokens generated{};  ///< Its output so far.
};

/// The distribution of output lengths by score, and of the rest of an output by its age.
///
/// Learned from the requests that ended lately, and censored by running ones, which are longer than their present
/// length. Without these, a look at a server that has just started would see only short requests.
///
/// Scores are put into groups as even in size as equal scores allow, lengths into bins that are an eighth wide. Each
/// group has a life table, the actuarial estimate of Cutler and Ederer (1958). A request censored within a bin was at
/// risk for half of it. Within a bin lengths are assumed to be spread evenly. Only the order of the scores counts.
///
/// `drift` says whether lengths still are as learned. It adds up the distances from the middle of the places that ended
/// requests have in their expected distributions.
///
/// 16 bytes for each request in the window, 12 for each group, 24 for each group and bin.
class length_distribution {
  /// For a group, from the lower end of a bin on.
  struct row {
    double ended = 0;     // Requests that ended within the bin. After `fit`: the fraction of requests reaching the bin
                          // that end in it.
    double censored = 0;  // Requests censored within the bin. After `fit`: the fraction of all requests that reach it.
    double left = 0;      // Expected further tokens of a request that reaches it.
  };

 public:
  /// Capacities; fixed at construction.
  struct limits {
    std::size_t window = 4096;  ///< Ended requests that are remembered. At least 1, below 2^31.
    std::size_t groups = 8;     ///< Most groups of scores. At least 1, below 2^31.
  };

  /// Longer outputs count as this long.
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

  /// A request with this score (NaN: none) has ended after `output` tokens; the oldest goes if the window is full.
  /// Changes no expectation before the next `fit`, only `drift`. Requires `output >= 0` (asserted). O(log groups).
  void observe(float score, tokens output) noexcept {
    TESSERA_ASSERT(output >= tokens{}, "a length is not negative");
    const tokens n = within(output);
    if (fitted_) watch(score, n);
    window_.observe(score, n);
  }

  /// Learns the distributions anew from the window and from running requests, and resets `drift`. O(window log window +
  /// running log groups + groups).
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
    // It will have at least one token more.
    for (const running_length& r : running) {
      const tokens least = within(max(r.generated, tokens{}) + tokens{1});
      add(score_window::key(r.score), [&](std::span<row> t) noexcept { t[bin_of(least)].censored += 1; });
    }
    bias_[all_groups] = summarize(table(all_groups));
    for (std::size_t g = 0; g != last_.size(); ++g) bias_[g] = summarize(table(g));
    fitted_ = !window_.all().empty();
    longer_ = shorter_ = 0;
  }

  /// The expected further tokens of a request with this score that has `generated` so far and has not ended, as of the
  /// last `fit`. At least 1; 0 if nothing was fitted. O(log groups).
  [[nodiscard]] tokens expected_rest(float score, tokens generated) const noexcept {
    if (!fitted_) return {};
    const std::span<const row> t = table_for(score);
    const std::int64_t x = next(generated);
    const std::size_t b = bin_of(tokens{x});
    const double width = width_of(b);
    const double in_front = static_cast<double>(x - first_of(b));  // tokens already generated in the bin
    const double ends = ends_after(t[b].ended, in_front / width);
    const double after = b + 1 == bins ? 0 : t[b + 1].left;
    const double rest = ends * (width - in_front - 1) / 2 + (1 - ends) * (width - in_front + after);
    return tokens{static_cast<std::int64_t>(std::llround(rest)) + 1};
  }

  /// The `q` quantile of its further tokens: the smallest number with at least that probability. At least 1; 0 if
  /// nothing was fitted. Requires 0 < q <= 1 (asserted). O(log groups + log bins).
  [[nodiscard]] tokens rest_quantile(float score, tokens generated, double q) const noexcept {
    TESSERA_ASSERT(q > 0 && q <= 1, "a probability");
    if (!fitted_) return {};
    const std::span<const row> t = table_for(score);
    const std::int64_t x = next(generated);
    const double alive = 1 - q;  // fraction of those reaching x that are longer
    const double wanted = alive * reaches(t, x);
    // The last bin that this fraction reaches; if no bin is reached, the first.
    const auto from = t.begin() + static_cast<std::ptrdiff_t>(bin_of(tokens{x}));
    const auto past =
        std::partition_point(from + 1, t.end(), [&](const row& r) noexcept { return r.censored > wanted; });
    const auto b = static_cast<std::size_t>(past - t.begin()) - 1;
    const double ending = t[b].censored * t[b].ended;
    // A request that outlived all learned lengths ends evenly in the rest of the bin, as in `expected_rest`.
    const double through = static_cast<double>(x - first_of(b)) / width_of(b);
    const double part = !(reaches(t, x) > 0) ? through + q * (1 - through)
                        : ending > 0         ? std::clamp((t[b].censored - wanted) / ending, 0.0, 1.0)
                                             : 1.0;
    const auto inside = static_cast<std::int64_t>(std::ceil(part * width_of(b) - 1e-9));
    const std::int64_t length = first_of(b) + std::max<std::int64_t>(inside, 1) - 1;
    return tokens{std::max<std::int64_t>(length - x, 0) + 1};
  }

  /// The length bias E[X^2] / E[X]^2, as of the last `fit`: the mean output that a token belongs to, over the mean
  /// output. About 1 if all lengths are alike, 2 for exponential lengths, more if few long outputs have most of the
  /// tokens. 1 if nothing was fitted. O(log groups).
  [[nodiscard]] double length_bias(float score) const noexcept { return fitted_ ? bias_[table_of(score)] : 1; }

  /// How much longer (positive) or shorter (negative) outputs have been than expected since the last `fit`. A two-sided
  /// cumulative sum of standardised places (Page 1954), less half a standard deviation for each output. What was
  /// learned still holds while it is within `drifts_at`. O(1).
  [[nodiscard]] double drift() const noexcept { return longer_ >= shorter_ ? longer_ : -shorter_; }

  /// Outputs of the learned distribution itself exceed this drift less than once in 100,000 requests, if it was learned
  /// from 4,096.
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
  /// The least final length of a request with this many tokens.
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
  /// The first group with a largest score not below it, or the last. Requires: there is one.
  [[nodiscard]] std::size_t group_of(std::uint32_t key) const noexcept {
    return static_cast<std::size_t>(std::lower_bound(last_.begin(), last_.end() - 1, key) - last_.begin());
  }
  [[nodiscard]] std::size_t table_of(float score) const noexcept {
    const std::uint32_t key = score_window::key(score);
    return key == score_window::not_a_score || last_.empty() ? all_groups : group_of(key);
  }
  [[nodiscard]] std::span<const row> table_for(float score) const noexcept { return table(table_of(score)); }

  /// Turns counts into a life table. From the last bin to the first, so that all that reach a bin are known. Returns
  /// E[X^2] / E[X]^2.
  static double summarize(std::span<row> t) noexcept {
    double beyond = 0;  // requests that reach the next bin
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
    // Requests that run through the last bin.
    mean += part * static_cast<double>(longest.count());
    squares += part * static_cast<double>(longest.count()) * static_cast<double>(longest.count());
    return mean > 0 ? squares / (mean * mean) : 1;
  }

  /// After part of a bin, the fraction that ends in the rest of it, if the fraction `ends` ends in the whole bin.
  [[nodiscard]] static double ends_after(double ends, double part) noexcept {
    const double left = 1 - ends * part;
    return left > 0 ? ends * (1 - part) / left : 1.0;
  }
  /// The fraction of all that is not shorter than `x`.
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
