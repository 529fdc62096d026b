// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/request/concepts.hpp>

#include <concepts>
#include <cstddef>

/// @file
/// How many draft tokens of a request a step verifies.

TESSERA_NAMESPACE_BEGIN

/// What a draft policy is shown of the step: who computes what is settled by then. Valid during the call.
struct draft_view {
  std::size_t batch = 0;    ///< Requests in the step.
  std::size_t waiting = 0;  ///< Requests that wait, those included who start in this step.
  tokens in_step{};         ///< Tokens that it runs, with the drafts given so far.
  tokens most{};            ///< `step_limits::lookahead`: more is cut to this.
};

/// Says how many drafts a request is to have in a step.
/// Requires: (1) `d.drafts(r, view) noexcept -> tokens`, const.
/// Not checked: a pure function of its arguments. What is negative counts as 0, what exceeds `view.most`, the budget,
/// the free blocks or what the request may still generate is cut. Complexity: O(1), asked at most once for each request
/// that samples in a step, in rank order, and never where `step_limits::lookahead` is 0.
/// Models: `draft::same_for_all`, `draft::per_request`, `draft::unless_busy`.
template <class D, class R>
concept draft_policy = schedulable<R> && std::copyable<D> && requires(const D& d, const R& r, const draft_view& view) {
  { d.drafts(r, view) } noexcept -> std::same_as<tokens>;
};

namespace draft {

/// As many as the step allows, for everybody.
/// When to use: the default; every request has as many drafts, as from a draft model or heads of the model itself.
struct same_for_all {
  /// What `step_limits::lookahead` says.
  template <schedulable R>
  [[nodiscard]] constexpr tokens drafts(const R& /*r*/, const draft_view& view) const noexcept {
    return view.most;
  }
};

}  // namespace draft
TESSERA_NAMESPACE_END
