// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/storage.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

TESSERA_NAMESPACE_BEGIN
namespace headroom {

/// An exact quantile of the last `window` values.
///
/// The values are split into a max-heap of the smallest ceil(q n) and a min-heap of the rest. The quantile, by nearest
/// rank, is on top of the first. Each value knows its place, so the one that falls out of the window is replaced in
/// place. `push` is O(log window), `value` O(1); nothing allocates. 8 bytes and a value for each value in the window.
///
/// @tparam T ordered and trivially copyable; not NaN.
template <std::totally_ordered T>
  requires std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>
class window_quantile {
 public:
  /// Capacities; fixed at construction.
  struct limits {
    std::size_t window = 1024;  ///< Values that count. At least 1, below 2^31.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    storage_layout layout;
    layout.add<T>(l.window);
    layout.add<std::uint32_t>(l.window);
    layout.add<std::uint32_t>(l.window);
    return layout.bytes_unaligned();
  }

  /// @param quantile above 0, at most 1 (the largest). 0.5 is the lower median.
  window_quantile(arena& memory, const limits& l, double quantile) noexcept
      : values_{memory.take<T>(l.window)},
        heap_{memory.take<std::uint32_t>(l.window)},
        place_{memory.take<std::uint32_t>(l.window)},
        window_{l.window},
        quantile_{quantile} {
    TESSERA_ASSERT(l.window >= 1 && l.window < (std::size_t{1} << 31), "a window of 1 to 2^31 - 1 values");
    TESSERA_ASSERT(quantile > 0 && quantile <= 1, "a quantile above 0 and at most 1");
  }
  window_quantile(const window_quantile&) = delete;
  window_quantile& operator=(const window_quantile&) = delete;

  /// How many there are. O(1).
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// The size of the window.
  [[nodiscard]] std::size_t window() const noexcept { return window_; }
  /// Whether there is none. O(1).
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

  /// The value of rank ceil(q n), counted from 1. Requires `!empty()`.
  [[nodiscard]] const T& value() const noexcept {
    TESSERA_ASSERT(!empty(), "no value has been seen");
    return values_[heap_[0]];
  }

  /// Adds a value; the oldest goes if the window is full.
  void push(const T& value) noexcept {
    if (size_ < window_) {
      grow(value);
    } else {
      replace(value);
    }
  }

 private:
  // The low heap lies at the front of heap_, with its root at 0. The high heap lies at the back, with its root at
  // window_ - 1, and grows downwards. So a heap of any size needs no room of its own.
  [[nodiscard]] std::uint32_t& low(std::size_t i) noexcept { return heap_[i]; }
  [[nodiscard]] std::uint32_t& high(std::size_t i) noexcept { return heap_[window_ - 1 - i]; }
  [[nodiscard]] std::size_t high_size() const noexcept { return size_ - low_size_; }

  /// ceil(q n), at least 1. The product may be off by a rounding: 0.95 * 20 must be 19, not 20.
  [[nodiscard]] std::size_t rank(std::size_t n) const noexcept {
    const double exact = quantile_ * static_cast<double>(n);
    auto r = static_cast<std::size_t>(exact);
    if (exact - static_cast<double>(r) > 1e-12 * exact) ++r;
    return r == 0 ? 1 : (r > n ? n : r);
  }

  /// One of the two heaps, as an array from its root.
  template <bool IsLow>
  struct side {
    window_quantile& q;
    [[nodiscard]] std::uint32_t& at(std::size_t i) const noexcept {
      if constexpr (IsLow) {
        return q.low(i);
      } else {
        return q.high(i);
      }
    }
    [[nodiscard]] std::size_t size() const noexcept { return IsLow ? q.low_size_ : q.high_size(); }
    /// Whether slot `a` belongs nearer to the root than slot `b`.
    [[nodiscard]] bool above(std::uint32_t a, std::uint32_t b) const noexcept {
      return IsLow ? q.values_[b] < q.values_[a] : q.values_[a] < q.values_[b];
    }
    void put(std::size_t i, std::uint32_t slot) const noexcept {
      at(i) = slot;
      q.place_[slot] = static_cast<std::uint32_t>(i << 1U) | (IsLow ? 0U : 1U);
    }
    void up(std::size_t i, std::uint32_t slot) const noexcept {
      while (i != 0 && above(slot, at((i - 1) / 2))) {
        put(i, at((i - 1) / 2));
        i = (i - 1) / 2;
      }
      put(i, slot);
    }
    void down(std::size_t i, std::uint32_t slot) const noexcept {
      const std::size_t n = size();
      for (std::size_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && above(at(child + 1), at(child))) ++child;
        if (!above(at(child), slot)) break;
        put(i, at(child));
        i = child;
      }
      put(i, slot);
    }
    /// The value of the slot at `i` has changed.
    void settle(std::size_t i) const noexcept {
      const std::uint32_t slot = at(i);
      if (i != 0 && above(slot, at((i - 1) / 2))) {
        up(i, slot);
      } else {
        down(i, slot);
      }
    }
  };
  [[nodiscard]] side<true> lower() noexcept { return {*this}; }
  [[nodiscard]] side<false> upper() noexcept { return {*this}; }

  void grow(const T& value) noexcept {
    const auto slot = static_cast<std::uint32_t>(size_);
    values_[slot] = value;
    const std::size_t wanted = rank(size_ + 1);
    // rank(n + 1) is rank(n) or one more: the new value goes to the side that grows, through the other's root.
    if (wanted > low_size_) {
      std::uint32_t joins = slot;
      if (high_size() != 0 && values_[high(0)] < value) {
        joins = high(0);
        upper().down(0, slot);
      }
      ++size_;
      ++low_size_;
      lower().up(low_size_ - 1, joins);
    } else {
      std::uint32_t joins = slot;
      if (value < values_[low(0)]) {
        joins = low(0);
        lower().down(0, slot);
      }
      ++size_;
      upper().up(high_size() - 1, joins);
    }
  }

  void replace(const T& value) noexcept {
    const auto slot = static_cast<std::uint32_t>(oldest_);
    oldest_ = oldest_ + 1 == window_ ? 0 : oldest_ + 1;
    values_[slot] = value;
    const std::size_t at = place_[slot] >> 1U;
    if ((place_[slot] & 1U) == 0) {
      lower().settle(at);
    } else {
      upper().settle(at);
    }
    if (high_size() == 0) return;
    const std::uint32_t largest = low(0);
    const std::uint32_t smallest = high(0);
    if (values_[smallest] < values_[largest]) {
      lower().down(0, smallest);
      upper().down(0, largest);
    }
  }

  T* values_;             // By slot: a ring, once the window is full.
  std::uint32_t* heap_;   // Slots.
  std::uint32_t* place_;  // By slot: index in its heap, times two, plus one in the high heap.
  std::size_t window_;
  std::size_t size_ = 0;
  std::size_t low_size_ = 0;
  std::size_t oldest_ = 0;
  double quantile_;
};

}  // namespace headroom
TESSERA_NAMESPACE_END
