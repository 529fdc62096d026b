// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <type_traits>

/// @file
/// Fixed-capacity storage over memory that the caller owns.
///
/// A component states its memory by `constexpr std::size_t required_bytes(limits)`, computed with a `storage_layout`.
/// Its constructor takes exactly the same arrays in the same order from an `arena`. Nothing is given back earlier: the
/// memory is the caller's again when the component is destroyed.

TESSERA_NAMESPACE_BEGIN

/// Every array starts on its own cache line.
inline constexpr std::size_t storage_alignment = 64;

/// Adds up the bytes of the arrays that a component will take.
class storage_layout {
 public:
  /// Room for `count` objects of type `T`.
  template <class T>
  constexpr storage_layout& add(std::size_t count) noexcept {
    static_assert(alignof(T) <= storage_alignment);
    return add_bytes(count * sizeof(T));
  }
  /// Room for a nested component's `required_bytes`.
  constexpr storage_layout& add_bytes(std::size_t n) noexcept {
    bytes_ += (n + storage_alignment - 1) / storage_alignment * storage_alignment;
    return *this;
  }
  /// The sum so far, each array on its own cache line.
  [[nodiscard]] constexpr std::size_t bytes() const noexcept { return bytes_; }
  /// `bytes()` plus what aligning an arbitrary first byte can cost.
  [[nodiscard]] constexpr std::size_t bytes_unaligned() const noexcept { return bytes_ + storage_alignment; }

 private:
  std::size_t bytes_ = 0;
};

/// Hands out arrays from a caller's buffer, front to back.
class arena {
 public:
  /// Does not own `memory`, which must outlive every array taken. Any alignment will do.
  explicit arena(std::span<std::byte> memory) noexcept : next_{memory.data()}, end_{memory.data() + memory.size()} {
    const auto misaligned = reinterpret_cast<std::uintptr_t>(next_) % storage_alignment;
    if (misaligned != 0 && memory.size() >= storage_alignment - misaligned) next_ += storage_alignment - misaligned;
  }

  /// An array of `count` value-initialised objects. O(count).
  /// Requires: the buffer is as large as the component's `required_bytes` said (checked in every build).
  template <class T>
  [[nodiscard]] T* take(std::size_t count) noexcept {
    T* const first = take_uninitialised<T>(count);
    for (std::size_t i = 0; i != count; ++i) ::new (static_cast<void*>(first + i)) T{};
    return first;
  }

  /// As `take`, but the objects of an implicit-lifetime `T` are left uninitialised. So unused pages of a large table
  /// are never touched. O(1).
  template <class T>
  [[nodiscard]] T* take_uninitialised(std::size_t count) noexcept {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= storage_alignment);
    // A division, so that a count larger than any memory does not wrap around.
    const auto left = static_cast<std::size_t>(end_ - next_);
    TESSERA_REQUIRE(count <= left / sizeof(T), "the storage is smaller than required_bytes()");
    const std::size_t need = (count * sizeof(T) + storage_alignment - 1) / storage_alignment * storage_alignment;
    TESSERA_REQUIRE(need <= left, "the storage is smaller than required_bytes()");
    T* const first = reinterpret_cast<T*>(next_);
    next_ += need;
    return first;
  }

 private:
  std::byte* next_;
  std::byte* end_;
};

/// A vector of at most `capacity()` trivially copyable objects over arena memory. Never grows. Converts to `std::span`.
template <class T>
class fixed_vector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  constexpr fixed_vector() noexcept = default;
  /// Takes room for `capacity` elements from `memory`.
  fixed_vector(arena& memory, std::size_t capacity) noexcept
      : data_{memory.take_uninitialised<T>(capacity)}, capacity_{capacity} {}

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(std::size_t capacity) noexcept {
    return storage_layout{}.add<T>(capacity).bytes();
  }

  /// Iterators are pointers, valid as long as the memory is.
  [[nodiscard]] T* begin() noexcept { return data_; }
  /// One past the last element.
  [[nodiscard]] T* end() noexcept { return data_ + size_; }
  /// Iterators are pointers, valid as long as the memory is.
  [[nodiscard]] const T* begin() const noexcept { return data_; }
  /// One past the last element.
  [[nodiscard]] const T* end() const noexcept { return data_ + size_; }
  /// The first element's address.
  [[nodiscard]] T* data() noexcept { return data_; }
  /// The first element's address.
  [[nodiscard]] const T* data() const noexcept { return data_; }
  /// How many there are. O(1).
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// How many there is room for. O(1).
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// Whether there is none. O(1).
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// Whether there is no room left. O(1).
  [[nodiscard]] bool full() const noexcept { return size_ == capacity_; }

  /// Requires `i < size()`.
  [[nodiscard]] T& operator[](std::size_t i) noexcept {
    TESSERA_ASSERT(i < size_, "index out of range");
    return data_[i];
  }
  /// Requires `i < size()` (asserted).
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept {
    TESSERA_ASSERT(i < size_, "index out of range");
    return data_[i];
  }
  /// The last element. Requires that there is one (asserted).
  [[nodiscard]] T& back() noexcept { return (*this)[size_ - 1]; }
  /// The last element. Requires that there is one (asserted).
  [[nodiscard]] const T& back() const noexcept { return (*this)[size_ - 1]; }

  /// Requires `!full()`.
  void push_back(const T& value) noexcept {
    TESSERA_ASSERT(!full(), "fixed_vector is full");
    ::new (static_cast<void*>(data_ + size_)) T(value);
    ++size_;
  }
  /// Appends `n` elements for the caller to write, and returns the first. Requires room for them (asserted).
  [[nodiscard]] T* extend(std::size_t n) noexcept {
    TESSERA_ASSERT(n <= capacity_ - size_, "fixed_vector is full");
    T* const first = data_ + size_;
    size_ += n;
    return first;
  }
  /// Keeps the first `n` elements. Requires that there are as many (asserted).
  void truncate(std::size_t n) noexcept {
    TESSERA_ASSERT(n <= size_, "fixed_vector has fewer");
    size_ = n;
  }
  /// Removes the last element. Requires that there is one (asserted).
  void pop_back() noexcept {
    TESSERA_ASSERT(!empty(), "fixed_vector is empty");
    --size_;
  }
  /// Removes all elements. O(1).
  void clear() noexcept { size_ = 0; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

TESSERA_NAMESPACE_END
