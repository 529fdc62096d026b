// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>
#include <tessera/kv/group.hpp>
#include <tessera/kv/hash_chain.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

/// @file
/// Lookup of the blocks of a group of layers in the store that all groups share.

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// The name of group `g`'s block in the shared store of `kv::groups`, and in its events: the same tokens are different
/// KV in another group. With 64 bits, the name of a name is the hash again. O(1).
template <class Hash>
[[nodiscard]] Hash named_in(std::size_t g, Hash hash) noexcept {
  if (g == 0) return hash;
  const std::uint64_t salt = detail::scramble(g);
  if constexpr (std::is_same_v<Hash, hash128>) {
    return {hash.low ^ salt, hash.high + salt};
  } else {
    return hash ^ salt;
  }
}

namespace detail {

/// The first of a group's blocks that is needed to continue after `n` tokens, which are whole blocks.
[[nodiscard]] inline std::size_t needed_from(const group& of, tokens n) noexcept {
  const auto end = static_cast<std::size_t>(n / of.block_size);
  const std::size_t first = of.first_needed(n);
  return first < end ? first : end;
}
/// Whether a prefix of whole units may need block `i`: the first that ends with or behind it.
[[nodiscard]] inline bool is_reachable(const group& of, std::size_t i, tokens unit) noexcept {
  if (of.window == tokens{} || of.block_size == unit) return true;
  const tokens end = of.block_size * (std::int64_t{1} + static_cast<std::int64_t>(i));
  return i >= of.first_needed(unit * blocks_for(end, unit).count());
}
/// Whether block `i` is one that is needed to continue after `from` tokens, and ends before `to`.
[[nodiscard]] inline bool is_within(const group& of, std::size_t i, tokens from, tokens to) noexcept {
  return i >= needed_from(of, from) && i < static_cast<std::size_t>(to / of.block_size);
}
/// Whether a block that its window has passed is likely to be found again: it is before `parting` or in [end, named).
/// States that are written where steps end are few, and all likely.
[[nodiscard]] inline bool is_kept(const group& of, std::size_t i, tokens parting, tokens end, tokens named) noexcept {
  return of.at_ends || is_within(of, i, parting, parting) || is_within(of, i, end, named);
}
/// The end of a step over tokens [first, end) of `length`, where states are written at the ends of steps. A step that
/// reaches a whole unit ends with one. It does not pass the last unit before the end of the sequence, from which an
/// equal prompt will start. Nor does it pass `parting`, where the prompt departs from known prefixes. (vLLM ends its
/// chunks at the same places.)
[[nodiscard]] inline tokens step_end(tokens unit, tokens parting, tokens first, tokens end, tokens length) noexcept {
  const auto whole = [unit](tokens n) noexcept { return unit * (n / unit); };
  const tokens last = whole(length - tokens{1});
  if (first < last && last < end) end = last;
  if (first < parting && parting < end) end = parting;
  return end == length || whole(end) <= first ? end : whole(end);
}
/// When a step has ended after `computed` tokens: the first block before `end` that has KV for others, and is neither
/// published nor given back. `drafted`: the last of the tokens may have been drafts.
[[nodiscard]] inline std::size_t first_written(const group& of, std::size_t published, std::size_t first,
                                               std::size_t end, tokens computed, bool drafted) noexcept {
  const std::size_t from = published > first ? published : first;
  if (!of.at_ends || from >= end) return from;
  const bool passed_by_drafts = drafted && of.spare != 0;
  return passed_by_drafts || of.block_size * static_cast<std::int64_t>(end) == computed ? end - 1 : end;
}
/// A callback that does nothing.
struct no_callback {
  template <class Ids>
  constexpr void operator()(const Ids& /*ids*/) const noexcept {}
};

/// A run of a group's blocks that the store is known to have.
struct known_run {
  std::size_t first = 0;
  std::size_t end = 0;
};
/// The longest prefix of at most `n` tokens, in multiples of `unit`, with the blocks that its next token attends to in
/// this window.
template <class Store, class Hash>
[[nodiscard]] tokens serves(const Store& store, const group& of, std::size_t g, tokens unit,
                            std::span<const Hash> hashes, tokens n, known_run& run) noexcept {
  if (of.window == tokens{}) return n;
  while (n != tokens{}) {
    const auto end = static_cast<std::size_t>(n / of.block_size);
    const std::size_t first = needed_from(of, n);
    if (first == end) return n;
    if (run.end > end) run.end = end;
    if (run.first >= run.end) run = {end, end};  // none of the run is left
    std::size_t i = run.end == end ? run.first : end;
    while (i > first && store.knows(named_in(g, hashes[i - 1]))) --i;
    run = {i, end};
    if (i <= first) return n;
    // The block before `i` is not known: no prefix that needs it can be served.
    n = unit * (of.block_size * static_cast<std::int64_t>(i - 1) / unit);
    run = {};
  }
  return n;
}

// Lookups are independent: their cache misses may overlap.
inline constexpr std::size_t looked_ahead = 8;
/// Starts a lookup of blocks by these hashes, from `first` on.
template <class Store, class Hash>
void prepare(const Store& store, std::size_t g, std::span<const Hash> hashes, std::size_t first) noexcept {
  if constexpr (requires { store.prefetch(Hash{}); }) {
    for (std::size_t i = first; i < hashes.size() && i < first + looked_ahead; ++i)
      store.prefetch(named_in(g, hashes[i]));
  } else {
    static_cast<void>(store), static_cast<void>(g), static_cast<void>(hashes), static_cast<void>(first);
  }
}
/// Continues it with the `i`th hash.
template <class Store, class Hash>
void prepare_next(const Store& store, std::size_t g, std::span<const Hash> hashes, std::size_t i) noexcept {
  if constexpr (requires { store.prefetch(Hash{}); }) {
    if (i + looked_ahead < hashes.size()) store.prefetch(named_in(g, hashes[i + looked_ahead]));
    if (i + looked_ahead / 2 < hashes.size()) store.prefetch_block(named_in(g, hashes[i + looked_ahead / 2]));
  } else {
    static_cast<void>(store), static_cast<void>(g), static_cast<void>(hashes), static_cast<void>(i);
  }
}

}  // namespace detail
}  // namespace kv
TESSERA_NAMESPACE_END
