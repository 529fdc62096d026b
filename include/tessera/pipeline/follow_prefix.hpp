// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>

#include <cstdint>

/// @file
/// Requests whose prompts begin alike: one computes what they share, and the others wait for it (`prefix_leaders`).

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// A request that computes its prompt, from `first` on, leads those that begin alike.
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

/// Whether one that ranks before `r` computes what it lacks behind its first `n` tokens.
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

/// The same of one that did when it was looked at last, when `known` blocks were known: what has become known since
/// is counted on. So it is not matched in each plan. Whatever was evicted meanwhile, the answer is right if it is
/// yes: a leader holds all that comes before the block that it computes. O(blocks that have become known).
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
