// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/index.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/kv/concepts.hpp>

#include <cstddef>

TESSERA_NAMESPACE_BEGIN
namespace kv::detail {

/// Circular lists of blocks through one array. Each list has an element of its own, which is its end: `next` of that is
/// the list's first block. All calls are O(1). 8 bytes an element.
class block_list {
 public:
  [[nodiscard]] static constexpr std::size_t required_bytes(std::size_t elements) noexcept {
    return storage_layout{}.add<neighbours>(elements).bytes();
  }
  block_list(arena& memory, std::size_t elements) noexcept : of_{memory.take_uninitialised<neighbours>(elements)} {}

  [[nodiscard]] block_id next(block_id id) const noexcept { return of_[id].next; }
  [[nodiscard]] block_id previous(block_id id) const noexcept { return of_[id].previous; }

  /// Makes a list empty.
  void clear(block_id end) noexcept { of_[end] = {end, end}; }
  /// Puts a block between two that are neighbours.
  void link(block_id id, block_id before, block_id after) noexcept {
    of_[id] = {before, after};
    of_[before].next = id;
    of_[after].previous = id;
  }
  /// Takes a block out. It remembers its neighbours.
  void unlink(block_id id) noexcept { join(of_[id].previous, of_[id].next); }
  /// Makes two blocks neighbours: what was between them is off the list.
  void join(block_id before, block_id after) noexcept {
    of_[before].next = after;
    of_[after].previous = before;
  }
  /// Says of a block that it is on no list: `previous` is `no_index`.
  void leave_off(block_id id) noexcept { of_[id].previous = no_index; }

 private:
  struct neighbours {
    block_id previous;
    block_id next;
  };

  neighbours* of_;
};

}  // namespace kv::detail
TESSERA_NAMESPACE_END
