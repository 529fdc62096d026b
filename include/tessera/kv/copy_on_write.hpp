// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/block_table.hpp>

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// KV of one block that the engine must copy, before it writes to `to`.
struct block_copy {
  block_id from;  ///< The shared block.
  block_id to;    ///< The copy, with one owner, which writes to it.
};

/// What `copy_on_write::ensure_writable` did.
struct writable_result {
  status outcome;      ///< `ok`, or the reason why the block cannot be written.
  std::size_t copies;  ///< The number of entries of `out` that were written.
};

/// Forks of a sequence (parallel sampling, beam search, a tree of thoughts) that share their KV until they write.
///
/// Refers to a store and a table, which must outlive it; holds no state of its own. Allocates nothing.
template <block_store Store>
class copy_on_write {
 public:
  /// Both must outlive it.
  copy_on_write(Store& store, block_table& table) noexcept : store_{&store}, table_{&table} {}

  /// A new row with the same blocks as `parent`, each with one more reference; `no_index`, and no change, when no row
  /// is free. O(blocks of the row). Requires: `parent` and its blocks are in use.
  [[nodiscard]] std::uint32_t fork(std::uint32_t parent) noexcept {
    const std::span<const block_id> from = table_->row(parent);
    const std::uint32_t child = table_->acquire_row();
    if (child == no_index) return no_index;
    if (store_->share(from) != status::ok) {
      TESSERA_ASSERT(false, "the row names a block that is not in use");
      (void)table_->release_row(child);
      return no_index;
    }
    const std::span<block_id> to = table_->extend(child, from.size());
    for (std::size_t i = 0; i != from.size(); ++i) to[i] = from[i];
    return child;
  }

  /// Makes the blocks of `row` that hold tokens [first, first + count) the row's own. Each block with other owners is
  /// replaced in the table by a newly allocated one, and reported in `out` for the engine to copy. All or nothing.
  /// `exhausted`: the store has too few blocks. `invalid`: `out` is too short (one entry per block of the range always
  /// suffices), or the row has no blocks for the range. O(blocks of the range).
  /// Requires: `row` is in use. Blocks that are published in a prefix cache are full: do not write to them again.
  [[nodiscard]] writable_result ensure_writable(std::uint32_t row, tokens first, tokens count,
                                                std::span<block_copy> out) noexcept {
    const std::span<const block_id> ids = table_->row(row);
    if (first.count() < 0 || count.count() < 0) return {status::invalid, 0};
    if (count.count() == 0) return {status::ok, 0};
    const tokens room = table_->block_size() * static_cast<std::int64_t>(ids.size());
    if (first > room || count > room - first) return {status::invalid, 0};
    const auto begin = static_cast<std::size_t>(first / table_->block_size());
    const auto end = static_cast<std::size_t>(blocks_for(first + count, table_->block_size()).count());

    std::size_t shared = 0;
    for (std::size_t i = begin; i != end; ++i) shared += store_->references(ids[i]) > 1;
    if (shared > out.size()) return {status::invalid, 0};
    if (shared > store_->free()) return {status::exhausted, 0};

    std::size_t copies = 0;
    for (std::size_t i = begin; i != end; ++i) {
      const block_id from = ids[i];
      if (store_->references(from) <= 1) continue;
      block_id to = no_index;
      const status taken = store_->allocate(std::span{&to, 1});
      const status given = store_->release(std::span{&from, 1});  // has other owners: nothing becomes free
      TESSERA_ASSERT(ok(taken) && ok(given), "the row names a block that is not in use");
      (void)taken, (void)given;
      table_->replace(row, i, to);
      out[copies++] = {from, to};
    }
    return {status::ok, copies};
  }

  /// `ensure_writable` for the one token at `position`.
  [[nodiscard]] writable_result ensure_writable(std::uint32_t row, tokens position, block_copy& out) noexcept {
    return ensure_writable(row, position, tokens{1}, std::span{&out, 1});
  }

 private:
  Store* store_;
  block_table* table_;
};

}  // namespace kv
TESSERA_NAMESPACE_END
