// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/request/concepts.hpp>

#include <concepts>
#include <cstdint>
#include <span>

/// @file
/// When a request that could start should start.

TESSERA_NAMESPACE_BEGIN

/// The state that an admission policy sees. Spans point into the scheduler and are valid during the call only.
template <class R>
struct admission_view {
  blocks free_after{};            ///< Blocks still free if the candidate had all blocks of its sequence and every
                                  ///< chunked prefill had all of its own.
  blocks needed{};                ///< Blocks that the candidate would take from the free ones to have them.
  blocks capacity{};              ///< Blocks of the instance, less those of suspended requests; at least the free ones.
  tokens block_size{};            ///< Tokens per block.
  std::span<R* const> residents;  ///< Requests that run and keep their blocks, in rank order.
  std::span<R* const> admitted;   ///< Requests admitted earlier in this plan.
  std::span<const std::uint32_t> exclusive{};  ///< By row: blocks that are not shared.

  /// Blocks that become free when a resident or admitted request ends. A lower bound: prefix blocks that other requests
  /// hold stay. With a store that does not count sharers (`kv::block_pool`) it is an upper bound once a request was
  /// forked. O(1).
  [[nodiscard]] blocks gives_back(const R& r) const noexcept {
    return r.state().row < exclusive.size() ? blocks{exclusive[r.state().row]} : blocks{};
  }
};

/// Decides whether a candidate may take its blocks, which are available.
/// Requires: (1) `a.admits(candidate, view) noexcept -> bool`.
/// Not checked: a pure function of its arguments. True whenever nothing is resident or admitted; otherwise the instance
/// would idle forever. Monotone: a candidate that is admitted is also admitted with more blocks free after it, all else
/// equal.
/// Complexity: at most O(residents), called at most twice per candidate and step.
/// Models: `admit::watermark`, `admit::future_peak`, `admit::always`.
template <class A, class R>
concept admission_policy =
    schedulable<R> && std::copyable<A> && requires(const A& a, const R& r, const admission_view<R>& view) {
      { a.admits(r, view) } noexcept -> std::same_as<bool>;
    };

TESSERA_NAMESPACE_END
