// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>

#include <cstdint>

/// @file
/// Requests with equal beginnings of their prompts: one computes the shared part, and the others wait for it
/// (`prefix_leaders`).

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Records that a request computes its prompt from `first` on, as the leader of equal prompts.
template <class Roster, class Request>
void leads_prefix(Roster& all, const Request& r, tokens first) noexcept {
  if constexpr (Roster::ledger::shares) {
    const auto* const next = all.kv.next_hash(r, first);
    if (next == nullptr) return;
    all.leaders.add(*next, r,
                    [&all](const Request& a, const Request& b) noexcept { return all.discipline().before(a, b); });
  } else {
    static_cast<void>(r), static_cast<void>(first);
  }
}

/// Whether a request that ranks before `r` computes the block that `r` lacks behind its first `n` tokens.
template <class Roster, class Request>
[[nodiscard]] bool follows_prefix(Roster& all, const Request& r, tokens n) noexcept {
  if constexpr (Roster::ledger::shares) {
    const auto* const next = all.kv.next_wanted(r, n);
    if (next == nullptr) return false;
    const Request* const leader = all.leaders.of(*next);
    return leader != nullptr && all.discipline().before(*leader, r);
  } else {
    static_cast<void>(r), static_cast<void>(n);
    return false;
  }
}

/// The same for a request that followed when it was last looked at, with `known` blocks known. Blocks that have become
/// known since are added. So it is not matched in each plan. Evictions do not make a positive answer wrong: a leader
/// holds all blocks before the one that it computes. O(blocks that have become known).
template <class Roster, class Request>
[[nodiscard]] bool follows_still(Roster& all, const Request& r, std::uint32_t& known) noexcept {
  if constexpr (Roster::ledger::shares) {
    if (known == 0 || known == Roster::ledger::keeps_to_itself) return false;
    const auto* next = all.kv.next_wanted(r, all.kv.block_size() * static_cast<std::int64_t>(known));
    for (; next != nullptr && all.kv.knows(*next); ++known) {
      next = all.kv.next_wanted(r, all.kv.block_size() * (std::int64_t{1} + known));
    }
    return next != nullptr && follows_prefix(all, r, all.kv.block_size() * static_cast<std::int64_t>(known));
  } else {
    static_cast<void>(r), static_cast<void>(known);
    return false;
  }
}

}  // namespace detail
TESSERA_NAMESPACE_END
