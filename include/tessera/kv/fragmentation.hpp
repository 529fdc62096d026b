// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>

#include <concepts>
#include <span>

/// @file
/// KV memory that is free but of no use. Every measure is a fraction in [0, 1] or a number of blocks.

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// The memory of one instance.
struct memory_use {
  blocks total{};   ///< Blocks of the instance.
  blocks free{};    ///< Blocks that could be allocated now.
  tokens filled{};  ///< Tokens with KV in blocks that are not free; each block counts once.
};

/// Internal fragmentation: the share of the allocated token slots that hold nothing (ends of last blocks, lookahead).
/// 0 when nothing is allocated. O(1). Requires `block_size > 0`, `free <= total`.
[[nodiscard]] constexpr double internal_fragmentation(const memory_use& use, tokens block_size) noexcept {
  const double slots = static_cast<double>((use.total - use.free).count()) * static_cast<double>(block_size.count());
  return slots > 0 ? 1.0 - static_cast<double>(use.filled.count()) / slots : 0.0;
}

/// Gives the number of stranded free blocks of an instance: too few together to be of use.
/// Requires: (1) `s(use) noexcept -> blocks`. Not checked: between 0 and `use.free`. Complexity: O(1).
/// Models: `stranded_below`, `headroom::stranded_by_blocked_demand`.
template <class S>
concept stranded_policy = std::copyable<S> && requires(const S& s, const memory_use& use) {
  { s(use) } noexcept -> std::same_as<blocks>;
};

/// All free blocks are stranded if a typical request needs more than that. The reference demand is, for instance, the
/// 95th percentile of recent prompts plus one block to grow. When to use: the default; needs no queue.
struct stranded_below {
  blocks demand{};  ///< Blocks that a typical request needs.

  /// All free blocks if they are fewer than `demand`.
  [[nodiscard]] constexpr blocks operator()(const memory_use& use) const noexcept {
    return use.free < demand ? use.free : blocks{};
  }
};

/// Fragmentation of a cluster: the sum of the stranded blocks over the sum of all blocks. 0 without blocks.
/// O(instances).
template <stranded_policy Stranded>
[[nodiscard]] constexpr double cluster_fragmentation(std::span<const memory_use> instances,
                                                     const Stranded& stranded) noexcept {
  blocks lost{};
  blocks all{};
  for (const memory_use& use : instances) {
    lost += stranded(use);
    all += use.total;
  }
  return all.count() > 0 ? static_cast<double>(lost.count()) / static_cast<double>(all.count()) : 0.0;
}

/// Llumnix's measure, over all blocks: the demand of blocked first requests that the free blocks of the whole cluster
/// would satisfy together. Demands are satisfied in the order given while they fit. `head_of_line[i]` is the demand of
/// the first waiting request of instance i, or 0. That request is blocked if instance i has fewer free blocks.
/// O(instances). Requires: both spans have the same length. When to use: to compare with published numbers; no policy
/// reads it.
[[nodiscard]] constexpr double blocked_demand_fragmentation(std::span<const memory_use> instances,
                                                            std::span<const blocks> head_of_line) noexcept {
  blocks free{};
  blocks all{};
  for (const memory_use& use : instances) {
    free += use.free;
    all += use.total;
  }
  blocks satisfied{};
  for (std::size_t i = 0; i != instances.size(); ++i) {
    if (head_of_line[i] <= instances[i].free || head_of_line[i] > free) continue;
    satisfied += head_of_line[i];
    free -= head_of_line[i];
  }
  return all.count() > 0 ? static_cast<double>(satisfied.count()) / static_cast<double>(all.count()) : 0.0;
}

}  // namespace kv
TESSERA_NAMESPACE_END
