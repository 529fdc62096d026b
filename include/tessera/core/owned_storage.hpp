// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/storage.hpp>

#include <memory>

/// @file
/// `storage_for<Component>(limits)`: the one allocation, made before a component exists, for callers without a
/// buffer of their own. The only header of the library that names the heap.

TESSERA_NAMESPACE_BEGIN

/// A heap buffer sized for one component, and the limits it was sized for. Moves, does not copy.
template <class Limits>
class owned_storage {
 public:
  owned_storage(std::size_t size, const Limits& limits)
      : buffer_{new std::byte[size]}, size_{size}, limits_{limits} {}

  [[nodiscard]] std::span<std::byte> memory() noexcept { return {buffer_.get(), size_}; }
  [[nodiscard]] const Limits& limits() const noexcept { return limits_; }

 private:
  std::unique_ptr<std::byte[]> buffer_;
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
