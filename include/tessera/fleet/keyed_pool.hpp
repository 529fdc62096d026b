// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/index.hpp>
#include <tessera/core/storage.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

TESSERA_NAMESPACE_BEGIN
namespace fleet::detail {

/// Values by key: a hash table with linear probing over a pool, so that a value stays where it is. Find, insert and
/// erase O(1) on average; nothing allocates.
/// @tparam Value has a type `key`. `Value::named(key)` makes a value, `name()` is its key, and `hash(key)` is 64 bits
///         of it. `next_free` is an index that the pool may use while the value is not there.
template <class Value>
class keyed_pool {
 public:
  using key = typename Value::key;

  [[nodiscard]] static constexpr std::size_t required_bytes(std::size_t n) noexcept {
    return storage_layout{}.add<Value>(n).template add<std::uint32_t>(slots_for(n)).bytes();
  }
  keyed_pool(arena& memory, std::size_t n) noexcept
      : all_{memory.take_uninitialised<Value>(n)},
        slots_{memory.take_uninitialised<std::uint32_t>(slots_for(n))},
        capacity_{n},
        mask_{slots_for(n) - 1} {
    for (std::size_t i = 0; i != slots_for(n); ++i) slots_[i] = no_index;
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool full() const noexcept { return size_ == capacity_; }
  [[nodiscard]] Value* data() noexcept { return all_; }
  [[nodiscard]] const Value* data() const noexcept { return all_; }
  [[nodiscard]] Value& operator[](std::uint32_t i) noexcept { return all_[i]; }

  [[nodiscard]] std::uint32_t find(const key& k) const noexcept { return slots_[slot_of(k)]; }
  /// Requires: it is not there, and the pool is not full.
  std::uint32_t insert(const key& k) noexcept {
    TESSERA_ASSERT(!full(), "there is no room for another");
    const std::size_t slot = slot_of(k);
    TESSERA_ASSERT(slots_[slot] == no_index, "it is there already");
    std::uint32_t i = free_;
    if (i != no_index) {
      free_ = all_[i].next_free;
    } else {
      i = used_++;
    }
    ::new (static_cast<void*>(all_ + i)) Value{Value::named(k)};
    slots_[slot] = i;
    ++size_;
    return i;
  }
  /// Requires: it is there.
  void erase(std::uint32_t i) noexcept {
    std::size_t hole = slot_of(all_[i].name());
    TESSERA_ASSERT(slots_[hole] == i, "it is not there");
    // Those that were put behind it because it was there move up.
    for (std::size_t at = (hole + 1) & mask_; slots_[at] != no_index; at = (at + 1) & mask_) {
      const std::size_t wants = home(all_[slots_[at]].name());
      if (((at - wants) & mask_) < ((at - hole) & mask_)) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole] = no_index;
    all_[i].next_free = free_;
    free_ = i;
    --size_;
  }
  /// Calls `f(value)` for each, in no particular order, but the same for the same calls. O(most that there have been).
  template <class F>
  void each(F f) noexcept {
    for (std::uint32_t i = 0; i != used_; ++i) {
      if (find(all_[i].name()) == i) f(all_[i]);
    }
  }

 private:
  [[nodiscard]] static constexpr std::size_t slots_for(std::size_t n) noexcept { return std::bit_ceil(2 * n + 1); }
  [[nodiscard]] std::size_t home(const key& k) const noexcept {
    return static_cast<std::size_t>(Value::hash(k)) & mask_;
  }
  /// Where it is, or would be.
  [[nodiscard]] std::size_t slot_of(const key& k) const noexcept {
    std::size_t at = home(k);
    while (slots_[at] != no_index && !(all_[slots_[at]].name() == k)) at = (at + 1) & mask_;
    return at;
  }

  Value* all_;
  std::uint32_t* slots_;  // At most half of them are taken.
  std::size_t capacity_;
  std::size_t mask_;
  std::size_t size_ = 0;
  std::uint32_t used_ = 0;
  std::uint32_t free_ = no_index;  // Linked through `next_free`.
};

}  // namespace fleet::detail
TESSERA_NAMESPACE_END
