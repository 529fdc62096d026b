// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

/// @file
/// Scratch memory for work on a device: the caller's, taken in pieces, never allocated. Plain C++: no CUDA header.

TESSERA_NAMESPACE_BEGIN
namespace gpu {

/// Every array of a workspace starts at a multiple of it, for coalesced access and CUB.
inline constexpr std::size_t workspace_alignment = 256;

/// Bytes that `count` objects of `T` take of a workspace.
template <class T>
[[nodiscard]] constexpr std::size_t workspace_bytes(std::size_t count) noexcept {
  return (count * sizeof(T) + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
}

/// The part of a caller's memory that is still free: a small value, like a span. It never touches the memory itself, so
/// that may be the device's.
///
/// A caller that passes a copy lends what is left, and has it back when the call returns: so a workspace needs no
/// reset. An array is in use until the enqueued work is done. Therefore one workspace serves one stream: work on a
/// stream runs in order, and the next call may overwrite what the last one left there.
class workspace {
 public:
  /// Empty: any call that needs memory returns `status::exhausted`.
  constexpr workspace() noexcept = default;
  /// Does not own `memory`. Any alignment is allowed. No `required_bytes` includes the cost of aligning, so give memory
  /// that is aligned to `workspace_alignment`, as that of `cudaMalloc` is.
  explicit workspace(std::span<std::byte> memory) noexcept : next_{memory.data()}, left_{memory.size()} {
    const std::size_t past = reinterpret_cast<std::uintptr_t>(next_) % workspace_alignment;
    skip(past == 0 ? 0 : workspace_alignment - past);
  }

  /// Bytes that are free. O(1).
  [[nodiscard]] constexpr std::size_t available() const noexcept { return left_; }

  /// An uninitialised array; null, and no change, if there is not enough memory. O(1).
  template <class T>
  [[nodiscard]] T* take(std::size_t count) noexcept {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= workspace_alignment);
    if (count > left_ / sizeof(T) || workspace_bytes<T>(count) > left_) return nullptr;
    T* const first = reinterpret_cast<T*>(next_);
    skip(workspace_bytes<T>(count));
    return first;
  }

 private:
  void skip(std::size_t n) noexcept {
    if (n > left_) n = left_;
    next_ += n;
    left_ -= n;
  }

  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
};

}  // namespace gpu
TESSERA_NAMESPACE_END
