// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/storage.hpp>

/// @file
/// `storage_for<Component>(limits)`: the one allocation, made before a component exists, for callers without a
/// buffer of their own. The only part of the library that uses the heap.

TESSERA_NAMESPACE_BEGIN

/// A heap buffer sized for one component, and the limits it was sized for. Moves, does not copy.
/// (Not a `std::unique_ptr`: `<memory>` would cost more to include than the rest of a scheduler.)
template <class Limits>
class owned_storage {
 public:
  /// Throws `std::bad_alloc`.
  owned_storage(std::size_t size, const Limits& limits)
      : first_{static_cast<std::byte*>(::operator new(size))}, size_{size}, limits_{limits} {}
  ~owned_storage() { ::operator delete(first_); }

  /// Takes the buffer over; its address stays the same.
  owned_storage(owned_storage&& other) noexcept : first_{other.first_}, size_{other.size_}, limits_{other.limits_} {
    other.first_ = nullptr;
    other.size_ = 0;
  }
  /// Frees its own buffer and takes over the other's.
  owned_storage& operator=(owned_storage&& other) noexcept {
    if (this != &other) {
      ::operator delete(first_);
      first_ = other.first_;
      size_ = other.size_;
      limits_ = other.limits_;
      other.first_ = nullptr;
      other.size_ = 0;
    }
    return *this;
  }

  /// The buffer.
  [[nodiscard]] std::span<std::byte> memory() noexcept { return {first_, size_}; }
  /// Capacities; fixed at construction.
  [[nodiscard]] const Limits& limits() const noexcept { return limits_; }

 private:
  std::byte* first_;
  std::size_t size_;
  Limits limits_;
};

/// Allocates what `Component::required_bytes(limits)` says. Throws `std::bad_alloc`; nothing later does.
/// The memory is not touched here: untouched pages of a large block table cost nothing.
template <class Component>
[[nodiscard]] owned_storage<typename Component::limits> storage_for(const typename Component::limits& limits) {
  return {Component::required_bytes(limits), limits};
}

TESSERA_NAMESPACE_END
