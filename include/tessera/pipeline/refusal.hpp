// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>

#include <cstddef>
#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Remembers the waiting request that was refused last, so that it can be refused again cheaply. Neither its prefix,
/// which is as long as its prompt, need be matched, nor victims tried. It keeps two bounds. Each is valid until an
/// event may break it, and each event says by how much:
///
/// - Others hold at most `in_use` blocks of its prefix. This grows only when more of the prefix becomes known (each
///   known block counts as held) or a request starts that shares it.
/// - With the blocks of all residents that rank behind it, it would still lack `lack` blocks. Its own need and the
///   blocks held by earlier residents exceed the instance by that. This shrinks only when an earlier resident leaves,
///   gives blocks back, moves behind it, or turns out to hold more of its prefix. `resident_set` remembers the earlier
///   residents (its bookmark).
///
/// Part of the transaction: findings of a plan that depend on undone admissions and victims are forgotten with them.
struct refusal {
  std::uint64_t sequence = 0;  ///< The number of the refused request; 0: none.
  std::size_t known = 0;       ///< Blocks of its prefix that were known.
  blocks in_use{};             ///< An upper bound of those that others hold.
  bool matched = false;        ///< Whether these two are valid.
  blocks lack{};               ///< A lower bound of what it lacks; 0 or less: perhaps nothing.

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
  /// Others may hold up to `n` more of its blocks.
  void more_in_use(blocks n) noexcept {
    in_use += n;
    lack -= n;
  }
  /// An earlier request gave back up to `n` blocks.
  void given_back(blocks n) noexcept { lack -= n; }
};

}  // namespace detail
TESSERA_NAMESPACE_END
