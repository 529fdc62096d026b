// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/index.hpp>
#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// Stores of KV blocks.

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// A KV block (page) of the device, in [0, capacity). `no_index` is "no block".
using block_id = std::uint32_t;

/// A fixed number of KV blocks with reference counts, and exact undo.
///
/// Requires:
/// 1. `S::limits`, an aggregate with a member `blocks`, the number of blocks; `S::required_bytes(limits)` in bytes.
///    Constructor `S(arena&, const limits&)`.
/// 2. `capacity()` and `free()`: the number of blocks, and how many `allocate` can still give.
/// 3. `references(id)`: the number of owners of a block; 0 if it is free or only cached.
/// 4. `allocate(out)` fills `out` with blocks that have one reference each, or changes nothing: `exhausted`.
/// 5. `share(ids)` adds a reference to each, from front to back. `release(ids)` drops one from each, from back to
///    front, so that the end of a sequence is given up before its beginning. Both change nothing unless all ids are
///    valid: `foreign`, `not_allocated`.
/// 6. `undo_allocate(ids)`, `undo_share(ids)`, `undo_release(ids)`: take back one earlier, successful call with the
///    same ids. All calls are `noexcept`.
///
/// Not checked: after undoing in strictly reverse order, a store is as before, down to the blocks that the next
/// `allocate` gives. `free() <= capacity()`; a block with references is never handed out.
/// Complexity: O(ids) each, whatever the number of blocks. Models: `block_pool`, `prefix_cache`.
template <class S>
concept block_store = std::constructible_from<S, arena&, const typename S::limits&> &&
                      requires(S& store, const S& view, const typename S::limits& limits, block_id id,
                               std::span<block_id> out, std::span<const block_id> ids) {
                        { limits.blocks } -> std::convertible_to<std::size_t>;
                        { S::required_bytes(limits) } noexcept -> std::same_as<std::size_t>;
                        { view.capacity() } noexcept -> std::same_as<std::size_t>;
                        { view.free() } noexcept -> std::same_as<std::size_t>;
                        { view.references(id) } noexcept -> std::same_as<std::uint32_t>;
                        { store.allocate(out) } noexcept -> std::same_as<status>;
                        { store.share(ids) } noexcept -> std::same_as<status>;
                        { store.release(ids) } noexcept -> std::same_as<status>;
                        { store.undo_allocate(ids) } noexcept -> std::same_as<void>;
                        { store.undo_share(ids) } noexcept -> std::same_as<void>;
                        { store.undo_release(ids) } noexcept -> std::same_as<void>;
                      };

/// A 128-bit name for the contents of a full block, where a collision of 64 bits is too likely.
struct hash128 {
  std::uint64_t low = 0;   ///< Well mixed: hash tables use it.
  std::uint64_t high = 0;  ///< The other half.

  /// Memberwise.
  friend constexpr bool operator==(const hash128&, const hash128&) noexcept = default;
};

namespace detail {

template <class S>
struct hash_of {
  using type = std::uint64_t;
};
template <class S>
  requires requires { typename S::hash_type; }
struct hash_of<S> {
  using type = typename S::hash_type;
};

}  // namespace detail

/// The hash by which a store finds blocks: `S::hash_type`, or 64 bits if it has none.
template <class S>
using hash_of = typename detail::hash_of<S>::type;

/// A block store that can find full blocks by their contents.
///
/// Requires: (1) `block_store`. (2) `match(hashes, out)`: writes the blocks of the longest known prefix of `hashes` to
/// `out` and returns their number; changes nothing. (3) `knows(hash)`: whether a block has this hash.
/// (4) `publish(ids, hashes, first)`: makes the blocks of a sequence, from `first` on, findable, each by its hash. It
/// leaves out blocks that have another hash already. The blocks are in use. Hashes are `hash_of<S>`.
/// Not checked: `share` accepts every block that `match` returned, also one without references. When the last reference
/// to a published block goes, it stays findable until `allocate` needs it.
/// Complexity: O(blocks matched), O(1), O(blocks published). Model: `basic_prefix_cache`.
template <class S>
concept prefix_store =
    block_store<S> && requires(S& store, const S& view, std::span<const block_id> ids, hash_of<S> hash,
                               std::span<const hash_of<S>> hashes, std::span<block_id> out, std::size_t first) {
      { view.match(hashes, out) } noexcept -> std::same_as<std::size_t>;
      { view.knows(hash) } noexcept -> std::same_as<bool>;
      { store.publish(ids, hashes, first) } noexcept -> std::same_as<status>;
    };

}  // namespace kv
TESSERA_NAMESPACE_END
