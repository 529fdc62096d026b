// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>

/// @file
/// Where keys and values of a token are in the pool of blocks. Plain C++, for the host and the device.

namespace cuda_decode {

/// Tokens with keys that lie in one block for certain: block sizes are multiples of it.
inline constexpr int kv_tile = 16;

/// Distances, in numbers (not bytes). Another order of the pool's dimensions is a change of `make_kv_layout` alone;
/// only the numbers of one head of one token must be consecutive.
struct kv_layout {
  std::int64_t block = 0;  ///< From a block to the next.
  std::int64_t layer = 0;
  std::int64_t value = 0;  ///< From a token's keys to its values.
  std::int64_t head = 0;
  std::int64_t token = 0;  ///< Within a block.
  std::int32_t block_size = 0;
  std::uint32_t inverse = 0;  ///< For `block_of`: 2^31 / (block_size / kv_tile), rounded up or one more.

  [[nodiscard]] constexpr std::size_t block_bytes() const noexcept { return static_cast<std::size_t>(block) * 2; }
};

/// [block][layer][key, value][kv head][token][dimension]: a block of all layers is one contiguous piece, and so are a
/// block's keys of one head.
/// Requires: block_size is a positive multiple of `kv_tile`, at most 4096.
[[nodiscard]] constexpr kv_layout make_kv_layout(std::int32_t layers, std::int32_t kv_heads, std::int32_t head_dim,
                                                 std::int32_t block_size) noexcept {
  kv_layout l;
  l.token = head_dim;
  l.head = l.token * block_size;
  l.value = l.head * kv_heads;
  l.layer = l.value * 2;
  l.block = l.layer * layers;
  l.block_size = block_size;
  l.inverse = 0x8000'0000U / static_cast<std::uint32_t>(block_size / kv_tile) + 1;
  return l;
}

}  // namespace cuda_decode
