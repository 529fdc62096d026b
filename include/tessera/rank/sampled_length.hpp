// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/ranked.hpp>
#include <tessera/rank/length_distribution.hpp>

#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// An output length sampled for each request from the distribution of lengths, given what it has generated. It is not
/// the expectation for one request. It represents all requests together, the long ones included. For
/// `admit::basic_future_peak<rank::sampled_length<>>`, which is Past-Future scheduling. At most its `max_output`.
/// Nothing is random. Requests have places in (0, 1) that fill it evenly, in their order of arrival (the multiples of
/// the golden ratio). Each keeps its place, within what is left of the distribution as it grows. O(log groups + log
/// bins).
/// Source: Past-Future scheduling (Gong et al. 2025, "Past-future scheduler for LLM serving under SLA guarantees",
/// section 3), which samples anew for each decision.
/// @tparam Scorer an `order::request_scorer`; by default the request's member `score`, NaN if it has none.
template <class Scorer = order::score_member>
struct sampled_length {
  const length_distribution* lengths = nullptr;  ///< Must outlive it. Null, or nothing learned: `if_unknown` or the
                                                 ///< request's limit.
  tokens if_unknown{2048};                       ///< For requests that state no `max_output`, while nothing is learned.
  [[no_unique_address]] Scorer scorer{};         ///< Gives the group of a request.

  /// The place of a request in (0, 1], by its sequence number. O(1).
  [[nodiscard]] static constexpr double place_of(std::uint64_t sequence) noexcept {
    constexpr std::uint64_t golden = 0x9e37'79b9'7f4a'7c15;  // 2^64 over the golden ratio
    return (static_cast<double>((sequence * golden) >> 11U) + 1) * 0x1p-53;
  }

  /// Reads the request's score, its sequence number and what it has generated.
  template <schedulable R>
    requires order::request_scorer<Scorer, R>
  [[nodiscard]] tokens operator()(const R& r) const noexcept {
    const tokens rest = lengths == nullptr ? tokens{}
                                           : lengths->rest_quantile(static_cast<float>(scorer(r)), r.generated(),
                                                                    place_of(r.state().sequence));
    if (rest == tokens{}) return r.max_output > tokens{} ? r.max_output : if_unknown;
    const tokens drawn = r.generated() + rest;
    return r.max_output > tokens{} ? min(drawn, r.max_output) : drawn;
  }
};

}  // namespace rank
TESSERA_NAMESPACE_END
