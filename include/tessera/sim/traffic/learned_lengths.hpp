// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/owned_storage.hpp>
#include <tessera/rank/expected_rest.hpp>
#include <tessera/rank/length_calibrator.hpp>
#include <tessera/rank/length_distribution.hpp>
#include <tessera/rank/prompt_clusters.hpp>
#include <tessera/sim/cluster/instance.hpp>
#include <tessera/sim/input/trace_row.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The expected length in the member `score` of a simulated request.
struct scored_length {
  /// 0 if there is none.
  [[nodiscard]] tokens operator()(const request& r) const noexcept {
    return r.score > 0 ? tokens{static_cast<std::int64_t>(std::min(r.score, 1e9F))} : tokens{};
  }
};

/// Turns the scores of `rows` into expected output lengths, learned from the scores and lengths of a `history`, with a
/// step for every 64 scores. Rows without a score expect the mean; without a history no row has an expectation.
void expect_lengths(std::vector<trace_row>& rows, std::span<const trace_row> history, bool predicts);

/// The known output of a request: it has ended after this many tokens, or has this many and runs.
struct seen_output {
  float score = std::numeric_limits<float>::quiet_NaN();  ///< The workload's score; NaN: none.
  tokens length{};                                        ///< The length of its output, or its output so far.
  bool ended = true;                                      ///< Whether that is all.
  tokens prompt{};                                        ///< Its prompt.
};

/// Expected lengths, learned from requests seen lately. It has a length for each score, and without a score for each
/// cluster of prompts (`rank::prompt_clusters`). It also has the distribution of outputs with the same expected length,
/// which updates the expectation for a request that has reasoned for a while. Knows nothing before `learn`.
class learned_lengths {
 public:
  learned_lengths();
  /// Learns from requests that have ended. @param ended with expected lengths for scores, see `expect_lengths`.
  explicit learned_lengths(std::span<const trace_row> ended) {
    begin(ended.size());
    for (const trace_row& r : ended) lengths_->observe(r.score, tokens{r.output_tokens});
    lengths_->fit();
  }
  learned_lengths(const learned_lengths&) = delete;
  learned_lengths& operator=(const learned_lengths&) = delete;

  /// Forgets what was learned, and learns from these. A running request counts with the length that it will have, by
  /// the lengths of requests that have come as far. (Buckley and James, "Linear regression with censored data", 1979.)
  /// Short requests end first, and without the running ones all would be expected to be short. Two rounds of O(n log
  /// n); allocates.
  /// @param predicts whether scores are used; otherwise it is as if there were none.
  /// @param per_step the least number of scores that share an expectation: the more, the less it depends on single
  /// outputs.
  void learn(std::span<const seen_output> seen, bool predicts = true, std::size_t per_step = 64) {
    const auto score_of = [predicts](const seen_output& o) {
      return predicts ? o.score : std::numeric_limits<float>::quiet_NaN();
    };
    const auto scores =
        std::count_if(seen.begin(), seen.end(), [&](const seen_output& o) { return score_of(o) == score_of(o); });
    const rank::length_calibrator::limits limits{
        .window = std::max<std::size_t>(seen.size(), 1),
        .groups = std::clamp<std::size_t>(static_cast<std::size_t>(scores) / per_step, 1, 32)};
    const auto spread = [&](auto&& label) {
      begin(seen.size());
      std::vector<rank::running_length> running;
      for (const seen_output& o : seen) {
        if (o.ended) {
          lengths_->observe(label(o), o.length);
        } else {
          running.push_back({label(o), o.length});
        }
      }
      lengths_->fit(running);
    };
    const auto none = [](const seen_output&) { return std::numeric_limits<float>::quiet_NaN(); };
    const auto labelled = [&](const seen_output& o) { return expected_of(o.score, o.prompt); };
    predicts_ = predicts;
    forget();
    spread(none);
    for (int round = 0; round != 2; ++round) {
      std::vector<tokens> whole;
      for (const seen_output& o : seen) {
        whole.push_back(o.ended ? o.length
                                : o.length + lengths_->expected_rest(round == 0 ? none(o) : labelled(o), o.length));
      }
      forget();
      calibrator_memory_.emplace(storage_for<rank::length_calibrator>(limits));
      calibrator_.emplace(*calibrator_memory_);
      clusters_memory_.emplace(storage_for<rank::prompt_clusters>({.window = limits.window}));
      clusters_.emplace(*clusters_memory_);
      for (std::size_t i = 0; i != seen.size(); ++i) {
        const float score = score_of(seen[i]);
        calibrator_->observe(score, whole[i]);
        // A request without output carries no information about its cluster: if many wait, all would be expected to be
        // alike.
        const bool begun = seen[i].ended || seen[i].length > tokens{};
        if (score != score && begun) clusters_->observe(seen[i].prompt, whole[i]);
      }
      calibrator_->fit();
      clusters_->fit();
      spread(labelled);
    }
  }

  /// The expectation for a request before it has begun, by its score. Without a score (NaN, or if `learn` did not use
  /// them) it is by its prompt. 0 before `learn`; without a score the mean of all if there are no two clusters of
  /// prompts.
  [[nodiscard]] float expected_of(float score, tokens prompt) const noexcept {
    if (!calibrator_) return 0;
    if (!predicts_) score = std::numeric_limits<float>::quiet_NaN();
    const bool by_prompt = score != score && clusters_->clusters() > 1;
    return static_cast<float>((by_prompt ? (*clusters_)(prompt) : (*calibrator_)(score)).count());
  }
  /// The distributions, by expected length. Their address never changes.
  [[nodiscard]] const rank::length_distribution& distributions() const noexcept { return *lengths_; }
  /// An `order::output_predictor` for requests with expected lengths as scores. This object must outlive it.
  [[nodiscard]] rank::expected_length<> expected() const noexcept { return {&*lengths_}; }

 private:
  /// Starts empty.
  void begin(std::size_t window) {
    lengths_.reset();
    memory_ = std::make_unique<memory>(
        storage_for<rank::length_distribution>({.window = std::max<std::size_t>(window, 1), .groups = 32}));
    lengths_.emplace(*memory_);
  }

  void forget() noexcept {
    calibrator_.reset();
    clusters_.reset();
  }

  bool predicts_ = true;
  using memory = owned_storage<rank::length_distribution::limits>;
  std::unique_ptr<memory> memory_ =
      std::make_unique<memory>(storage_for<rank::length_distribution>({.window = 1, .groups = 1}));
  std::optional<rank::length_distribution> lengths_{std::in_place, *memory_};
  std::optional<owned_storage<rank::length_calibrator::limits>> calibrator_memory_;
  std::optional<rank::length_calibrator> calibrator_;
  std::optional<owned_storage<rank::prompt_clusters::limits>> clusters_memory_;
  std::optional<rank::prompt_clusters> clusters_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
