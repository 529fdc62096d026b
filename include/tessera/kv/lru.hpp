// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/block_list.hpp>
#include <tessera/kv/eviction.hpp>

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// Least recently used first: the block that lost its last owner the longest ago.
/// When to use: by default, if the next use of prefixes is unknown. Model of `eviction_policy`.
///
/// A list through an array. Every call is O(1) for each block. 8 bytes a block.
class lru {
 public:
  using place_type = block_id;  ///< The block before it.

  /// Bytes that an object for `blocks` blocks takes from its arena.
  [[nodiscard]] static constexpr std::size_t required_bytes(std::size_t blocks) noexcept {
    return detail::block_list::required_bytes(blocks + 1);
  }
  /// Empty. O(1).
  lru(arena& memory, std::size_t blocks) noexcept : list_{memory, blocks + 1}, ends_{static_cast<block_id>(blocks)} {
    list_.clear(ends_);
  }
  lru(const lru&) = delete;
  lru& operator=(const lru&) = delete;

  /// The number of blocks in it. O(1).
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// The coldest. Requires: there is one.
  [[nodiscard]] block_id next() const noexcept { return list_.next(ends_); }

  /// A block becomes the warmest.
  void insert(block_id id) noexcept { link(id, list_.previous(ends_), ends_); }
  /// A block becomes the coldest.
  void insert_first(block_id id) noexcept { link(id, ends_, list_.next(ends_)); }
  /// Undoes `insert`. Requires: it is the warmest.
  void undo_insert(block_id id) noexcept {
    TESSERA_ASSERT(list_.previous(ends_) == id, "undone out of order");
    unlink(id);
  }
  /// A block leaves.
  [[nodiscard]] block_id remove(block_id id) noexcept {
    const block_id before = list_.previous(id);
    unlink(id);
    return before;
  }
  /// Undoes `remove`.
  void undo_remove(block_id id, block_id before) noexcept { link(id, before, list_.next(before)); }

  /// Removes the coldest blocks: they are cut off the list together. Requires: there are as many.
  template <class F>
  void take(std::span<block_id> out, F f) noexcept {
    block_id id = list_.next(ends_);
    for (block_id& coldest : out) {
      coldest = id;
      f(id);
      id = list_.next(id);
    }
    list_.join(ends_, id);
    size_ -= out.size();
  }
  /// Undoes `take` of the block that left last: it is the coldest again.
  void undo_take(block_id id) noexcept { link(id, ends_, list_.next(ends_)); }

  /// Removes all blocks. O(1).
  void clear() noexcept {
    list_.clear(ends_);
    size_ = 0;
  }

 private:
  void link(block_id id, block_id before, block_id after) noexcept {
    list_.link(id, before, after);
    ++size_;
  }
  void unlink(block_id id) noexcept {
    list_.unlink(id);
    --size_;
  }

  detail::block_list list_;
  block_id ends_;  // the element after the last block; `next` of it is the coldest
  std::size_t size_ = 0;
};

static_assert(eviction_policy<lru>);

}  // namespace kv
TESSERA_NAMESPACE_END
