// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/draft/concepts.hpp>

TESSERA_NAMESPACE_BEGIN
namespace draft {

/// None where the load is high; else what another policy says. A decode leaves most of the arithmetic of a device idle,
/// because it waits for the weights, and drafts are verified for nothing there. Once a step has as many tokens as the
/// arithmetic can take meanwhile, a draft that is refused takes time from everybody, and one that is accepted gains
/// what another request would have gained as well.
///
/// When to use: the load varies, as it does by day and night. `tokens_for_free` is where the time of a step, over the
/// tokens in it, begins to rise (`cost/` fits it); many that wait say that more work is there than the engine can do.
/// Source: ours; that speculation slows down a loaded engine, and that its length should follow the load, is from
/// SmartSpec (Liu et al. 2024, "Optimizing speculative decoding for serving large language models using goodput").
/// @tparam Inner the `draft_policy` that is asked otherwise.
template <class Inner = same_for_all>
struct unless_busy {
  std::size_t batch = 64;               ///< None from so many requests in the step on.
  tokens tokens_for_free{256};          ///< No more than keep the step within so many tokens.
  std::size_t waiting = 16;             ///< None from so many on that wait.
  [[no_unique_address]] Inner inner{};  ///< Says how many there are.

  /// Whether its values can be meant: a scheduler asserts it when it is made.
  [[nodiscard]] constexpr bool is_possible() const noexcept { return tokens_for_free >= tokens{}; }

  /// How many this request is to have.
  template <schedulable R>
  [[nodiscard]] constexpr tokens drafts(const R& r, const draft_view& view) const noexcept {
    static_assert(draft_policy<Inner, R>, "tessera: Inner is not a draft_policy for this request type");
    if (view.batch >= batch || view.waiting >= waiting || view.in_step >= tokens_for_free) return tokens{};
    return min(inner.drafts(r, view), tokens_for_free - view.in_step);
  }
};

}  // namespace draft
TESSERA_NAMESPACE_END
