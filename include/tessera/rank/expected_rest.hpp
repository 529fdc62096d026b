// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/ranked.hpp>
#include <tessera/rank/length_distribution.hpp>

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// What a request is expected to generate yet, by the distribution of lengths and by what it has: an
/// `order::rest_predictor`. O(log groups).
/// @tparam Scorer an `order::request_scorer`; by default the request's member `score`, NaN where it has none.
template <class Scorer = order::score_member>
struct expected_rest {
  const length_distribution* lengths = nullptr;  ///< Outlives it. None: everybody's rest is 0.
  [[no_unique_address]] Scorer scorer{};         ///< Says to which group a request belongs.

  /// Reads the request's score and what it has generated.
  template <schedulable R>
    requires order::request_scorer<Scorer, R>
  [[nodiscard]] tokens operator()(const R& r) const noexcept {
    return lengths == nullptr ? tokens{} : lengths->expected_rest(static_cast<float>(scorer(r)), r.generated());
  }
};

/// What a request is expected to generate in all, by the distribution of lengths and by what it has: an
/// `order::output_predictor` that knows more the longer a request runs. O(log groups).
/// @tparam Scorer an `order::request_scorer`; by default the request's member `score`, NaN where it has none.
template <class Scorer = order::score_member>
struct expected_length {
  const length_distribution* lengths = nullptr;  ///< Outlives it. None, or nothing learned: 0 is expected of everybody.
  [[no_unique_address]] Scorer scorer{};         ///< Says to which group a request belongs.

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
