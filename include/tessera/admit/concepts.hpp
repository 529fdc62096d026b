// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/request/concepts.hpp>

#include <concepts>
#include <cstdint>
#include <span>

/// @file
/// When a request that could start should start.

TESSERA_NAMESPACE_BEGIN

/// What an admission policy is shown. Spans point into the scheduler and are valid during the call only.
template <class R>
struct admission_view {
  blocks free_after{};            ///< Blocks that would still be free if the candidate had all blocks of its sequence,
                                  ///< and those who compute their prompts in chunks had all theirs.
  blocks needed{};                ///< Blocks that the candidate would take from the free ones for that.
  blocks capacity{};              ///< Blocks of the instance, less those of suspended requests; at least the free ones.
  tokens block_size{};            ///< Tokens per block.
  std::span<R* const> residents;  ///< Requests that run and keep their blocks, in rank order.
  std::span<R* const> admitted;   ///< Requests admitted earlier in this plan.
  std::span<const std::uint32_t> own{};  ///< By row: blocks that nobody shares.

  /// Blocks that become free when a resident or admitted request ends, at least: those of its prefix that others hold
  /// stay. Of a store that does not count who shares (`kv::block_pool`) it is at most, once a request was forked. O(1).
  [[nodiscard]] blocks gives_back(const R& r) const noexcept {
    return r.state().row < own.size() ? blocks{own[r.state().row]} : blocks{};
  }
};

/// Says whether a candidate whose blocks are available may take them.
/// Requires: (1) `a.admits(candidate, view) noexcept -> bool`.
/// Not checked: a pure function of its arguments; true whenever nothing is resident or admitted, or the instance
/// would idle forever; with more blocks free after it, all else equal, it admits whom it admits with fewer. Complexity:
/// at most O(residents), asked at most twice per candidate and step.
/// Models: `admit::watermark`, `admit::future_peak`, `admit::always`.
template <class A, class R>
concept admission_policy =
    schedulable<R> && std::copyable<A> && requires(const A& a, const R& r, const admission_view<R>& view) {
      { a.admits(r, view) } noexcept -> std::same_as<bool>;
    };

TESSERA_NAMESPACE_END
