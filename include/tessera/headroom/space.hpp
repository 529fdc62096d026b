// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/kv/fragmentation.hpp>

/// @file
/// Space-bound freeness of a decode worker: Phi_S = 1 - (N_used + H_frag) / M_total.
/// Source: Phasor, section 3.1, equation 2. The paper does not define which free blocks are stranded (H_frag); a
/// `kv::stranded_policy` does.

TESSERA_NAMESPACE_BEGIN
namespace headroom {

/// Phi_S. `used` may exceed `total` when it counts promised sequences that do not fit: negative is overload. A worker
/// without memory has no headroom: 0. Requires no negative count. O(1).
[[nodiscard]] constexpr double space_freeness(blocks used, blocks stranded, blocks total) noexcept {
  TESSERA_ASSERT(blocks{} <= used && blocks{} <= stranded && blocks{} <= total, "a count of blocks is not negative");
  if (total == blocks{}) return 0.0;
  return 1.0 - static_cast<double>((used + stranded).count()) / static_cast<double>(total.count());
}

/// Phi_S of a worker's memory.
template <kv::stranded_policy Stranded>
[[nodiscard]] constexpr double space_freeness(const kv::memory_use& use, const Stranded& stranded) noexcept {
  return space_freeness(use.total - use.free, stranded(use), use.total);
}

/// Llumnix's rule as a stranded policy. A worker's free blocks are stranded if the first request of its queue needs
/// more, and all free blocks of the cluster together would suffice. A request that fits nowhere does not count as
/// fragmentation. When to use: per worker, with the real queue at hand. `kv::stranded_below` needs no queue, and is
/// what the controllers use. Source: Llumnix, section 4 (what it calls external fragmentation).
struct stranded_by_blocked_demand {
  blocks head_of_line{};  ///< Blocks that the first waiting request needs; 0 if none waits.
  blocks cluster_free{};  ///< Free blocks of all workers, this one included.

  /// All free blocks if the first request needs more, and the cluster together has enough.
  [[nodiscard]] constexpr blocks operator()(const kv::memory_use& use) const noexcept {
    return use.free < head_of_line && head_of_line <= cluster_free ? use.free : blocks{};
  }
};

}  // namespace headroom
TESSERA_NAMESPACE_END
