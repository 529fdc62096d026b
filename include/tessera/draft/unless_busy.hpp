// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/draft/concepts.hpp>

TESSERA_NAMESPACE_BEGIN
namespace draft {

/// No drafts under high load; otherwise the number that another policy gives. A decode waits for the weights and leaves
/// most of the device's arithmetic idle, so verifying drafts costs nothing there. Once a step has enough tokens to fill
/// the arithmetic, a rejected draft slows down every request. An accepted draft then gains no more than a token of
/// another request would.
///
/// When to use: the load varies, as between day and night. `tokens_for_free` is the number of tokens at which the time
/// of a step begins to rise (`cost/` fits it). Many waiting requests mean that there is more work than the engine can
/// do.
/// Source: ours. SmartSpec observed that speculation slows down a loaded engine and that its length should follow the
/// load (Liu et al. 2024, "Optimizing speculative decoding for serving large language models using goodput").
/// @tparam Inner the `draft_policy` that is called otherwise.
template <class Inner = same_for_all>
struct unless_busy {
  std::size_t batch = 64;               ///< No drafts in steps of at least this many requests.
  tokens tokens_for_free{256};          ///< Drafts never raise the step above this many tokens.
  std::size_t waiting = 16;             ///< No drafts while at least this many requests wait.
  [[no_unique_address]] Inner inner{};  ///< Chooses the number of drafts.

  /// Whether the parameters are valid. A scheduler asserts this at construction.
  [[nodiscard]] constexpr bool is_possible() const noexcept { return tokens_for_free >= tokens{}; }

  /// The number of drafts of this request.
  template <schedulable R>
  [[nodiscard]] constexpr tokens drafts(const R& r, const draft_view& view) const noexcept {
    static_assert(draft_policy<Inner, R>, "tessera: Inner is not a draft_policy for this request type");
    if (view.batch >= batch || view.waiting >= waiting || view.in_step >= tokens_for_free) return tokens{};
    return min(inner.drafts(r, view), tokens_for_free - view.in_step);
  }
};

}  // namespace draft
TESSERA_NAMESPACE_END
