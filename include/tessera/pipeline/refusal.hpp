// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>

#include <cstddef>
#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// What is known of the waiting request that was refused last, so that it can be refused again without matching its
/// prefix, which is as long as its prompt, and without trying whom to evict. Two bounds, each true until it is told of
/// what may make it false, and each told by how much:
///
/// - Others hold at most `in_use` blocks of its prefix. More only when more of it becomes known (each known block
/// counts
///   as held) or somebody starts who shares it.
/// - With the blocks of all residents that rank behind it, it would still lack `lack` blocks: what those before it
/// hold,
///   and what it needs itself, exceeds the instance by that. Less only when one of those goes, gives something back,
///   moves behind it, or turns out to hold more of its prefix. Who they are, `resident_set` remembers (its bookmark).
///
/// Part of the transaction: what a plan found out beside admissions and victims that are undone is forgotten with them.
struct refusal {
  std::uint64_t sequence = 0;  ///< Whose it is; 0: nobody's.
  std::size_t known = 0;       ///< Blocks of its prefix that were known.
  blocks in_use{};             ///< Of which others hold so many, at most.
  bool matched = false;        ///< Whether these two are known.
  blocks lack{};               ///< What it lacked, at least; 0 or less: perhaps nothing.

  void forget() noexcept { *this = {}; }
  void begin(std::uint64_t whose) noexcept {
    if (sequence == whose) return;
    forget();
    sequence = whose;
  }

  void of_prefix(std::size_t blocks_known, blocks held_by_others) noexcept {
    known = blocks_known;
    in_use = held_by_others;
    matched = true;
  }
  /// So many more of its blocks are held by others, at most.
  void more_in_use(blocks n) noexcept {
    in_use += n;
    lack -= n;
  }
  /// One of those before it gave back so many blocks, at most.
  void given_back(blocks n) noexcept { lack -= n; }
};

}  // namespace detail
TESSERA_NAMESPACE_END
