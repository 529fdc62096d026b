// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/request/concepts.hpp>

#include <concepts>
#include <cstdint>

/// @file
/// What to do with the KV of a request that must give up its blocks.

TESSERA_NAMESPACE_BEGIN

/// How a preempted request gets its KV back.
enum class preemption_mode : std::uint8_t {
  swap,       ///< Copied to host memory now, copied back later. Falls back to `recompute` when the host tier is full.
  recompute,  ///< Dropped now, computed again from the tokens later.
};

/// Chooses between swap and recompute for one victim.
/// Requires: (1) `p.mode(victim, written) noexcept -> preemption_mode`, `written` = the blocks that a swap would copy.
/// Not checked: a pure function of its arguments. Complexity: O(1).
/// Which request is the victim is not a policy: it is always the resident that ranks last, so that no preemption
/// can invert the order. Models: `preempt::swap`, `preempt::recompute`, `preempt::cheapest`.
template <class P, class R>
concept preemption_policy = schedulable<R> && std::copyable<P> && requires(const P& p, const R& r, blocks written) {
  { p.mode(r, written) } noexcept -> std::same_as<preemption_mode>;
};

TESSERA_NAMESPACE_END
