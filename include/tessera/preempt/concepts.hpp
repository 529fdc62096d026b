// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/request/concepts.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

/// @file
/// How a request that must give up its blocks gets its KV back, and which request that is.

TESSERA_NAMESPACE_BEGIN

/// How a preempted request gets its KV back.
enum class preemption_mode : std::uint8_t {
  swap,       ///< Copied to host memory now, copied back later. Falls back to `recompute` when the host tier is full.
  recompute,  ///< Dropped now, computed again from the tokens later.
};

/// A resident that could be the victim, as a policy that chooses its victims sees it.
struct victim_view {
  blocks frees{};       ///< Blocks that only this request holds. They become free if it is evicted.
  blocks shared{};      ///< Blocks that other requests hold as well. It may find them again.
  blocks to_copy{};     ///< Blocks that a swap would copy. Approximate, because shared ones are not looked up.
  blocks host_free{};   ///< Free blocks in the host tier, less those of victims chosen earlier in the same plan.
  tokens block_size{};  ///< Tokens of a block.
};

namespace detail {

template <class P>
inline constexpr bool preemption_chooses = false;
template <class P>
  requires requires { typename std::bool_constant<P::chooses>; }
inline constexpr bool preemption_chooses<P> = P::chooses;

template <class P, class R>
concept preemption_says_loss = requires(const P& p, const R& r, const victim_view& v) {
  { p.window } -> std::convertible_to<std::size_t>;
  { p.loss(r, v) } noexcept -> std::same_as<double>;
};

}  // namespace detail

/// Chooses between swap and recompute for one victim, and perhaps the victim.
/// Requires: (1) `p.mode(victim, written) noexcept -> preemption_mode`, `written` = the blocks that a swap would copy.
/// (2) `P::chooses`, a constant; if it is missing, it is false. If it is true, the policy has two more members.
/// `p.window` is the number of residents that are compared for each victim. `p.loss(r, view) noexcept -> double` is the
/// loss if `r` is the victim.
/// Not checked: pure functions of their arguments. Complexity: O(1).
///
/// The victim is the resident that ranks last, unless the policy chooses. Then it is the resident with the least loss
/// among the last `window`; ties go to the last.
/// Only residents that would not displace the last one while waiting are compared. So an evicted request never takes
/// the place of one that was spared. Under an order in which every earlier request displaces a later one, there is no
/// choice.
/// Models: `preempt::swap`, `preempt::recompute`, `preempt::cheapest`; `preempt::least_lost` chooses.
template <class P, class R>
concept preemption_policy = schedulable<R> && std::copyable<P> && requires(const P& p, const R& r, blocks written) {
  { p.mode(r, written) } noexcept -> std::same_as<preemption_mode>;
} && (!detail::preemption_chooses<P> || detail::preemption_says_loss<P, R>);

TESSERA_NAMESPACE_END
