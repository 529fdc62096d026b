// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/request/concepts.hpp>

#include <concepts>
#include <cstddef>

/// @file
/// How many draft tokens of a request a step verifies.

TESSERA_NAMESPACE_BEGIN

/// The state of the step that a draft policy sees. Which requests compute is settled by then. Valid during the call.
struct draft_view {
  std::size_t batch = 0;     ///< Requests in the step.
  std::size_t waiting = 0;   ///< Requests that wait, including those that start in this step.
  tokens in_step{};          ///< Tokens in the step, with the drafts given so far.
  tokens most{};             ///< `step_limits::lookahead`: larger answers are cut to this.
  std::size_t prefills = 0;  ///< Requests of the step that compute more of their prompt than its last token.
};

/// Chooses the number of drafts of a request in a step.
/// Requires: (1) `d.drafts(r, view) noexcept -> tokens`, const.
/// Not checked: a pure function of its arguments. A negative answer counts as 0. An answer is cut to `view.most`, the
/// budget, the free blocks and the tokens that the request may still generate. Complexity: O(1), called at most once
/// for each request that samples in a step, in rank order, and never where `step_limits::lookahead` is 0.
/// Models: `draft::same_for_all`, `draft::per_request`, `draft::unless_busy`.
template <class D, class R>
concept draft_policy = schedulable<R> && std::copyable<D> && requires(const D& d, const R& r, const draft_view& view) {
  { d.drafts(r, view) } noexcept -> std::same_as<tokens>;
};

namespace draft {

/// The step's maximum, for every request.
/// When to use: the default. Every request has the same number of drafts, as with a draft model or heads of the model
/// itself.
struct same_for_all {
  /// What `step_limits::lookahead` says.
  template <schedulable R>
  [[nodiscard]] constexpr tokens drafts(const R& /*r*/, const draft_view& view) const noexcept {
    return view.most;
  }
};

}  // namespace draft
TESSERA_NAMESPACE_END
