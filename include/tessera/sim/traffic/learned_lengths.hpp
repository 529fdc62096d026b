// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/learned_lengths.hpp>
#include <tessera/rank/expected_rest.hpp>
#include <tessera/sim/cluster/instance.hpp>
#include <tessera/sim/input/trace_row.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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

using fleet::seen_output;

/// `fleet::learned_lengths` that learn from as many requests as there are: a simulation's, which may allocate.
class learned_lengths {
 public:
  learned_lengths();
  /// Learns from requests that have ended. @param ended with expected lengths for scores, see `expect_lengths`.
  explicit learned_lengths(std::span<const trace_row> ended);
  learned_lengths(const learned_lengths&) = delete;
  learned_lengths& operator=(const learned_lengths&) = delete;

  /// As `fleet::learned_lengths::learn`. Allocates if there are more than ever before.
  void learn(std::span<const seen_output> seen, bool predicts = true, std::size_t per_step = 64) {
    make_room(seen.size());
    lengths_->learn(seen, predicts, per_step);
  }
  /// As `fleet::learned_lengths::expected_of`.
  [[nodiscard]] float expected_of(float score, tokens prompt) const noexcept {
    return lengths_->expected_of(score, prompt);
  }
  /// The distributions, by expected length. Their address never changes.
  [[nodiscard]] const rank::length_distribution& distributions() const noexcept { return lengths_->distributions(); }
  /// An `order::output_predictor` for requests with expected lengths as scores. This object must outlive it.
  [[nodiscard]] rank::expected_length<> expected() const noexcept { return {&distributions()}; }

 private:
  using memory = owned_storage<fleet::learned_lengths::limits>;

  void make_room(std::size_t n);

  std::unique_ptr<memory> memory_;
  std::optional<fleet::learned_lengths> lengths_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
