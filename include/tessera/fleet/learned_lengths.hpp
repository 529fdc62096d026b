// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/core/units.hpp>
#include <tessera/rank/length_calibrator.hpp>
#include <tessera/rank/length_distribution.hpp>
#include <tessera/rank/prompt_clusters.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// The known output of a request: it has ended after this many tokens, or has this many and runs.
struct seen_output {
  float score = std::numeric_limits<float>::quiet_NaN();  ///< A predictor's score; NaN: none.
  tokens length{};                                        ///< The length of its output, or its output so far.
  bool ended = true;                                      ///< Whether that is all.
  tokens prompt{};                                        ///< Its prompt.
};

/// Expected lengths, learned from requests seen lately. It has a length for each score, and without a score for each
/// class of prompts (`rank::prompt_clusters`). It also has the distribution of outputs with the same expected length,
/// which updates the expectation for a request that has reasoned for a while. Knows nothing before `learn`.
///
/// When to use: a router or a server that sees what its requests come to. Allocates nothing after construction.
class learned_lengths {
 public:
  /// Capacities; fixed at construction.
  struct limits {
    std::size_t window = 4096;  ///< Most requests to learn from. At least 1, below 2^31.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add_bytes(rank::length_distribution::required_bytes({l.window, most_groups}))
        .add_bytes(rank::length_calibrator::required_bytes({l.window, most_groups}))
        .add_bytes(rank::prompt_clusters::required_bytes({.window = l.window}))
        .add<rank::running_length>(l.window)
        .add<tokens>(l.window)
        .bytes_unaligned();
  }
  /// Over the caller's memory, at least `required_bytes(l)` (checked in every build), which must outlive it.
  learned_lengths(std::span<std::byte> memory, const limits& l) noexcept : learned_lengths{arena{memory}, l} {}
  /// Over storage from `storage_for`.
  explicit learned_lengths(owned_storage<limits>& storage) noexcept
      : learned_lengths{storage.memory(), storage.limits()} {}
  learned_lengths(const learned_lengths&) = delete;
  learned_lengths& operator=(const learned_lengths&) = delete;

  /// Forgets what was learned, and learns from these. A running request counts with the length that it will have, by
  /// the lengths of requests that have come as far. (Buckley and James, "Linear regression with censored data", 1979.)
  /// Short requests end first, and without the running ones all would be expected to be short. Two rounds of O(n log
  /// n).
  /// @param seen at most `window` outputs (asserted).
  /// @param predicts whether scores are used; otherwise it is as if there were none.
  /// @param per_step the least number of scores that share an expectation: the more, the less it depends on single
  /// outputs.
  void learn(std::span<const seen_output> seen, bool predicts = true, std::size_t per_step = 64) noexcept {
    TESSERA_ASSERT(seen.size() <= window_, "no more than there is room for");
    constexpr float no_score = std::numeric_limits<float>::quiet_NaN();
    const auto score_of = [predicts](const seen_output& o) noexcept { return predicts ? o.score : no_score; };
    const auto scores = std::count_if(seen.begin(), seen.end(),
                                      [&](const seen_output& o) noexcept { return score_of(o) == score_of(o); });
    const rank::length_calibrator::limits steps{
        .window = std::max<std::size_t>(seen.size(), 1),
        .groups = std::clamp<std::size_t>(static_cast<std::size_t>(scores) / per_step, 1, most_groups)};
    const auto none = [](const seen_output&) noexcept { return no_score; };
    const auto labelled = [&](const seen_output& o) noexcept { return expected_of(o.score, o.prompt); };
    predicts_ = predicts;
    forget();
    spread(seen, none);
    for (int round = 0; round != 2; ++round) {
      for (std::size_t i = 0; i != seen.size(); ++i) {
        const seen_output& o = seen[i];
        whole_[i] =
            o.ended ? o.length : o.length + lengths_->expected_rest(round == 0 ? no_score : labelled(o), o.length);
      }
      forget();
      calibrator_.emplace(calibrator_memory_, steps);
      clusters_.emplace(clusters_memory_, rank::prompt_clusters::limits{.window = steps.window});
      for (std::size_t i = 0; i != seen.size(); ++i) {
        const float score = score_of(seen[i]);
        calibrator_->observe(score, whole_[i]);
        // A request without output carries no information about its class: if many wait, all would be expected to be
        // alike.
        const bool begun = seen[i].ended || seen[i].length > tokens{};
        if (score != score && begun) clusters_->observe(seen[i].prompt, whole_[i]);
      }
      calibrator_->fit();
      clusters_->fit();
      spread(seen, labelled);
    }
  }
  /// Learns the distributions alone, from requests with expected lengths as scores.
  void learn_distributions(std::span<const seen_output> seen) noexcept {
    TESSERA_ASSERT(seen.size() <= window_, "no more than there is room for");
    spread(seen, [](const seen_output& o) noexcept { return o.score; });
  }
  /// A request has ended: see `drift`. O(log groups).
  void ended(float score, tokens prompt, tokens output) noexcept {
    lengths_->observe(expected_of(score, prompt), output);
  }

  /// The expectation for a request before it has begun, by its score. Without a score (NaN, or if `learn` did not use
  /// them) it is by its prompt. 0 before `learn`; without a score the mean of all if there are no two classes of
  /// prompts. O(log groups).
  [[nodiscard]] float expected_of(float score, tokens prompt) const noexcept {
    if (!calibrator_) return 0;
    if (!predicts_) score = std::numeric_limits<float>::quiet_NaN();
    const bool by_prompt = score != score && clusters_->clusters() > 1;
    return static_cast<float>((by_prompt ? (*clusters_)(prompt) : (*calibrator_)(score)).count());
  }
  /// How far an output with this expected length may be off: half of what lies between the 16 % and the 84 % quantile.
  /// That is the standard deviation of normal lengths. 0 before `learn`. O(log groups).
  [[nodiscard]] tokens spread_of(float expected) const noexcept {
    const tokens low = lengths_->rest_quantile(expected, {}, 0.16);
    return tokens{(lengths_->rest_quantile(expected, {}, 0.84) - low).count() / 2};
  }
  /// How much longer (positive) or shorter (negative) outputs have been than was learned, by those of `ended` since
  /// `learn`. Beyond `rank::length_distribution::drifts_at` they have changed. O(1).
  [[nodiscard]] double drift() const noexcept { return lengths_->drift(); }
  /// The distributions, by expected length. Their address never changes.
  [[nodiscard]] const rank::length_distribution& distributions() const noexcept { return *lengths_; }

 private:
  static constexpr std::size_t most_groups = 32;

  learned_lengths(arena memory, const limits& l) noexcept
      : lengths_memory_{part(memory, rank::length_distribution::required_bytes({l.window, most_groups}))},
        calibrator_memory_{part(memory, rank::length_calibrator::required_bytes({l.window, most_groups}))},
        clusters_memory_{part(memory, rank::prompt_clusters::required_bytes({.window = l.window}))},
        running_{memory, l.window},
        whole_{memory.take_uninitialised<tokens>(l.window)},
        window_{l.window} {
    lengths_.emplace(lengths_memory_, rank::length_distribution::limits{1, 1});
  }
  [[nodiscard]] static std::span<std::byte> part(arena& memory, std::size_t n) noexcept {
    return {reinterpret_cast<std::byte*>(memory.take_uninitialised<unsigned char>(n)), n};
  }

  /// Learns the distributions by a label of each.
  template <class Label>
  void spread(std::span<const seen_output> seen, Label label) noexcept {
    lengths_.emplace(lengths_memory_,
                     rank::length_distribution::limits{std::max<std::size_t>(seen.size(), 1), most_groups});
    running_.clear();
    for (const seen_output& o : seen) {
      if (o.ended) {
        lengths_->observe(label(o), o.length);
      } else {
        running_.push_back({label(o), o.length});
      }
    }
    lengths_->fit({running_.data(), running_.size()});
  }
  void forget() noexcept {
    calibrator_.reset();
    clusters_.reset();
  }

  std::span<std::byte> lengths_memory_;
  std::span<std::byte> calibrator_memory_;
  std::span<std::byte> clusters_memory_;
  fixed_vector<rank::running_length> running_;
  tokens* whole_;
  std::size_t window_;
  bool predicts_ = true;
  std::optional<rank::length_distribution> lengths_{};
  std::optional<rank::length_calibrator> calibrator_{};
  std::optional<rank::prompt_clusters> clusters_{};
};

}  // namespace fleet
TESSERA_NAMESPACE_END
