// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/concepts.hpp>

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// KV blocks with reference counts over a last-in, first-out stack of free ids. The block that was given back last is
/// handed out next, while its table entries are still in the processor's caches.
/// When to use: no prefix cache. Model of `block_store`.
///
/// Every call is O(blocks named), allocates nothing and leaves the pool unchanged unless it returns `ok`. 8 bytes a
/// block. Misuse of a block returns `foreign` (not a block of this pool) or `not_allocated` (no references: a double
/// free).
class block_pool {
 public:
  /// Capacities; fixed at construction.
  struct limits {
    std::size_t blocks = 0;  ///< Fewer than 2^32 - 1.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}.add<std::uint32_t>(l.blocks).add<block_id>(l.blocks).bytes_unaligned();
  }

  /// All blocks are free; the first to be allocated is 0, then 1, ... O(blocks).
  block_pool(arena& memory, const limits& l) noexcept
      : references_{memory.take<std::uint32_t>(l.blocks)},
        free_{memory.take_uninitialised<block_id>(l.blocks)},
        free_size_{l.blocks},
        capacity_{l.blocks} {
    TESSERA_ASSERT(l.blocks < no_index, "block ids have 32 bits");
    for (std::size_t i = 0; i != l.blocks; ++i) free_[i] = static_cast<block_id>(l.blocks - 1 - i);
  }
  block_pool(const block_pool&) = delete;
  block_pool& operator=(const block_pool&) = delete;

  /// How many there is room for. O(1).
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// Blocks that can be allocated now.
  [[nodiscard]] std::size_t free() const noexcept { return free_size_; }
  /// Owners of a block; 0: free. Requires `id < capacity()`.
  [[nodiscard]] std::uint32_t references(block_id id) const noexcept {
    TESSERA_ASSERT(id < capacity_, "not a block of this pool");
    return references_[id];
  }

  /// One block with one reference, or `no_index` when none is free.
  [[nodiscard]] block_id allocate() noexcept {
    if (free_size_ == 0) return no_index;
    const block_id id = free_[--free_size_];
    references_[id] = 1;
    return id;
  }
  /// Fills `out`, all or nothing. `exhausted`: fewer are free.
  [[nodiscard]] status allocate(std::span<block_id> out) noexcept {
    if (out.size() > free_size_) return status::exhausted;
    for (block_id& id : out) {
      id = free_[--free_size_];
      references_[id] = 1;
    }
    return status::ok;
  }

  /// Adds an owner. Requires fewer than 2^32 - 1 of them. `foreign`, `not_allocated`.
  [[nodiscard]] status share(block_id id) noexcept {
    if (id >= capacity_) return status::foreign;
    if (references_[id] == 0) return status::not_allocated;
    TESSERA_ASSERT(references_[id] != 0xffff'ffffU, "too many references to one block");
    ++references_[id];
    return status::ok;
  }
  /// Adds an owner to each, all or nothing. An id may occur more than once.
  [[nodiscard]] status share(std::span<const block_id> ids) noexcept {
    for (std::size_t i = 0; i != ids.size(); ++i) {
      if (const status s = share(ids[i]); s != status::ok) {
        undo_share(ids.first(i));
        return s;
      }
    }
    return status::ok;
  }

  /// Removes an owner; the last one frees the block. `foreign`, `not_allocated`.
  [[nodiscard]] status release(block_id id) noexcept {
    if (id >= capacity_) return status::foreign;
    if (references_[id] == 0) return status::not_allocated;
    if (--references_[id] == 0) free_[free_size_++] = id;
    return status::ok;
  }
  /// Removes an owner from each, from back to front, all or nothing. An id may occur more than once.
  [[nodiscard]] status release(std::span<const block_id> ids) noexcept {
    for (std::size_t i = ids.size(); i-- != 0;) {
      if (const status s = release(ids[i]); s != status::ok) {
        undo_release(ids.subspan(i + 1));
        return s;
      }
    }
    return status::ok;
  }

  /// Undoes `allocate` of these ids. Requires: everything done since has been undone (asserted where cheap).
  void undo_allocate(std::span<const block_id> ids) noexcept {
    for (std::size_t i = ids.size(); i-- != 0;) {
      TESSERA_ASSERT(ids[i] < capacity_ && references_[ids[i]] == 1, "undone out of order");
      references_[ids[i]] = 0;
      free_[free_size_++] = ids[i];
    }
  }
  /// Undoes `share` of these ids. Requires: everything done since has been undone.
  void undo_share(std::span<const block_id> ids) noexcept {
    for (std::size_t i = ids.size(); i-- != 0;) {
      TESSERA_ASSERT(ids[i] < capacity_ && references_[ids[i]] > 1, "undone out of order");
      --references_[ids[i]];
    }
  }
  /// Undoes `release` of these ids. Requires: everything done since has been undone.
  void undo_release(std::span<const block_id> ids) noexcept {
    for (const block_id id : ids) {
      TESSERA_ASSERT(id < capacity_, "not a block of this pool");
      if (references_[id]++ == 0) {
        TESSERA_ASSERT(free_size_ != 0 && free_[free_size_ - 1] == id, "undone out of order");
        --free_size_;
      }
    }
  }

 private:
  std::uint32_t* references_;
  block_id* free_;  // a stack: the next to be allocated is free_[free_size_ - 1]
  std::size_t free_size_;
  std::size_t capacity_;
};

static_assert(block_store<block_pool>);

}  // namespace kv
TESSERA_NAMESPACE_END
