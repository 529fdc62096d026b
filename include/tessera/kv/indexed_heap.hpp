// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/index.hpp>
#include <tessera/core/storage.hpp>

#include <cstddef>
#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace kv::detail {

/// A binary heap of numbers in [0, n), each at most once, that knows the place of each. The keys lie elsewhere:
/// `first(a, b)` says whether `a` leaves before `b`, a strict total order. The next to leave depends only on the
/// content, so a call is undone by its opposite. 8 bytes a number.
class indexed_heap {
 public:
  [[nodiscard]] static constexpr std::size_t required_bytes(std::size_t n) noexcept {
    return storage_layout{}.add<std::uint32_t>(n).add<std::uint32_t>(n).bytes();
  }
  indexed_heap(arena& memory, std::size_t n) noexcept
      : heap_{memory.take_uninitialised<std::uint32_t>(n)}, place_{memory.take_uninitialised<std::uint32_t>(n)} {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint32_t top() const noexcept { return heap_[0]; }
  void clear() noexcept { size_ = 0; }

  /// O(log n). Requires: it is not in the heap.
  template <class First>
  void push(std::uint32_t id, First first) noexcept {
    rise(size_++, id, first);
  }
  /// O(log n). Requires: it is in the heap.
  template <class First>
  void erase(std::uint32_t id, First first) noexcept {
    const std::size_t at = place_[id];
    const std::uint32_t last = heap_[--size_];
    if (last != id) move(at, last, first);
  }
  /// Its key has changed. O(log n). Requires: it is in the heap.
  template <class First>
  void update(std::uint32_t id, First first) noexcept {
    move(place_[id], id, first);
  }

 private:
  template <class First>
  void move(std::size_t at, std::uint32_t id, First first) noexcept {
    if (at != 0 && first(id, heap_[(at - 1) / 2])) {
      rise(at, id, first);
    } else {
      sink(at, id, first);
    }
  }
  template <class First>
  void rise(std::size_t at, std::uint32_t id, First first) noexcept {
    for (; at != 0 && first(id, heap_[(at - 1) / 2]); at = (at - 1) / 2) put(at, heap_[(at - 1) / 2]);
    put(at, id);
  }
  template <class First>
  void sink(std::size_t at, std::uint32_t id, First first) noexcept {
    while (2 * at + 1 < size_) {
      std::size_t child = 2 * at + 1;
      if (child + 1 < size_ && first(heap_[child + 1], heap_[child])) ++child;
      if (first(id, heap_[child])) break;
      put(at, heap_[child]);
      at = child;
    }
    put(at, id);
  }
  void put(std::size_t at, std::uint32_t id) noexcept {
    heap_[at] = id;
    place_[id] = static_cast<std::uint32_t>(at);
  }

  std::uint32_t* heap_;
  std::uint32_t* place_;
  std::size_t size_ = 0;
};

}  // namespace kv::detail
TESSERA_NAMESPACE_END
