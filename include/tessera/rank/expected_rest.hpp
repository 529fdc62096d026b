// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/ranked.hpp>
#include <tessera/rank/length_distribution.hpp>

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// The tokens that a request is expected to generate still, by the distribution of lengths and by its progress: an
/// `order::rest_predictor`. O(log groups).
/// @tparam Scorer an `order::request_scorer`; by default the request's member `score`, NaN if it has none.
template <class Scorer = order::score_member>
struct expected_rest {
  const length_distribution* lengths = nullptr;  ///< Must outlive it. Null: every request's rest is 0.
  [[no_unique_address]] Scorer scorer{};         ///< Gives the group of a request.

  /// Reads the request's score and what it has generated.
  template <schedulable R>
    requires order::request_scorer<Scorer, R>
  [[nodiscard]] tokens operator()(const R& r) const noexcept {
    return lengths == nullptr ? tokens{} : lengths->expected_rest(static_cast<float>(scorer(r)), r.generated());
  }
};

/// The tokens that a request is expected to generate in all, by the distribution of lengths and by its progress. It is
/// an `order::output_predictor` that improves as a request runs. O(log groups).
/// @tparam Scorer an `order::request_scorer`; by default the request's member `score`, NaN if it has none.
template <class Scorer = order::score_member>
struct expected_length {
  const length_distribution* lengths = nullptr;  ///< Must outlive it. Null, or nothing learned: 0 for every request.
  [[no_unique_address]] Scorer scorer{};         ///< Gives the group of a request.

  /// Reads the request's score and what it has generated.
  template <schedulable R>
    requires order::request_scorer<Scorer, R>
  [[nodiscard]] tokens operator()(const R& r) const noexcept {
    const tokens rest = expected_rest<Scorer>{lengths, scorer}(r);
    return rest == tokens{} ? tokens{} : r.generated() + rest;
  }
  /// See `length_distribution::length_bias`; 1 if there is none.
  template <schedulable R>
    requires order::request_scorer<Scorer, R>
  [[nodiscard]] double length_bias(const R& r) const noexcept {
    return lengths == nullptr ? 1 : lengths->length_bias(static_cast<float>(scorer(r)));
  }
};

}  // namespace rank
TESSERA_NAMESPACE_END
