// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <device/bf16.hpp>
#include <device/device.hpp>

#include <cstdint>

/// @file
/// Eight bf16 numbers, which a thread reads or writes at once.

namespace cuda_decode {

/// 16 bytes. The lower half of a word is the earlier number.
struct [[gnu::may_alias]] alignas(16) bf16x8 {
  std::uint32_t words[4];
};

inline constexpr int vector_size = 8;  ///< Numbers in a `bf16x8`.

/// Requires: `p` is aligned to 16 bytes.
__device__ inline bf16x8 load(const bf16* p) { return *reinterpret_cast<const bf16x8*>(p); }
/// Requires: `p` is aligned to 16 bytes.
__device__ inline void store(bf16* p, const bf16x8& v) { *reinterpret_cast<bf16x8*>(p) = v; }

__device__ inline void unpack(const bf16x8& v, float (&x)[vector_size]) {
  CUDA_DECODE_UNROLL
  for (int i = 0; i < 4; ++i) {
    x[2 * i] = low_bf16(v.words[i]);
    x[2 * i + 1] = high_bf16(v.words[i]);
  }
}

__device__ inline bf16x8 pack(const float (&x)[vector_size]) {
  bf16x8 v;
  CUDA_DECODE_UNROLL
  for (int i = 0; i < 4; ++i) v.words[i] = pack_bf16(x[2 * i], x[2 * i + 1]);
  return v;
}

}  // namespace cuda_decode
