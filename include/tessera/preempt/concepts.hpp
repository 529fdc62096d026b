// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/request/concepts.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

/// @file
/// What to do with the KV of a request that must give up its blocks.

TESSERA_NAMESPACE_BEGIN

/// How a preempted request gets its KV back.
enum class preemption_mode : std::uint8_t {
  swap,       ///< Copied to host memory now, copied back later. Falls back to `recompute` when the host tier is full.
  recompute,  ///< Dropped now, computed again from the tokens later.
};

/// What a policy that chooses its victims is shown of a resident that could be one.
struct victim_view {
  blocks frees{};       ///< Blocks that it holds for itself alone: what becomes free if it goes.
  blocks shared{};      ///< Blocks that others hold as well, and that it may find again.
  blocks to_copy{};     ///< Blocks that a swap would copy: about, because which of them others hold is not looked up.
  blocks host_free{};   ///< Room in the host tier, for what is chosen earlier in the same plan as well.
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
/// (2) `P::chooses`, a constant, may be missing for false. If it is true: `p.window`, how many residents are looked at
/// for each victim, and `p.loss(r, view) noexcept -> double`, what is lost if `r` is the one.
/// Not checked: pure functions of their arguments. Complexity: O(1).
///
/// The victim is the resident that ranks last, unless the policy chooses: then it is the one of the last `window` that
/// loses least, among equals the last. Looked at are only those that would not displace the last one if they waited, so
/// that nobody who has gone takes the place of somebody who was spared: under orders in which whoever ranks before a
/// resident displaces it there is no choice. Models: `preempt::swap`, `preempt::recompute`, `preempt::cheapest`;
/// `preempt::least_lost` chooses.
template <class P, class R>
concept preemption_policy = schedulable<R> && std::copyable<P> && requires(const P& p, const R& r, blocks written) {
  { p.mode(r, written) } noexcept -> std::same_as<preemption_mode>;
} && (!detail::preemption_chooses<P> || detail::preemption_says_loss<P, R>);

TESSERA_NAMESPACE_END
