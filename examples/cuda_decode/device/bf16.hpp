// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gpu/host_device.hpp>

#include <bit>
#include <cstdint>

/// @file
/// bfloat16: the upper half of a float. Plain C++, and the same bits on the host and on the device.

namespace cuda_decode {

/// One number. Arithmetic is done in float.
struct bf16 {
  std::uint16_t bits;
};

/// Exact.
[[nodiscard]] inline TESSERA_HOST_DEVICE float to_float(bf16 x) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
#else
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
#endif
}

/// Rounds to the nearest, ties to even. Every NaN becomes 0x7fff, as the device's instruction has it.
[[nodiscard]] inline TESSERA_HOST_DEVICE bf16 from_float(float x) {
#ifdef __CUDA_ARCH__
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return {bits};
#else
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fff'ffffU) > 0x7f80'0000U) return {0x7fff};
  // No carry out of the largest finite number but into infinity, which is what rounding asks for.
  return {static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16)};
#endif
}

// Pairs in one register, as tensor cores and 16-byte loads have them: the first number is in the lower half.

[[nodiscard]] inline TESSERA_HOST_DEVICE std::uint32_t pack_bf16(float low, float high) {
#ifdef __CUDA_ARCH__
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return static_cast<std::uint32_t>(from_float(high).bits) << 16 | from_float(low).bits;
#endif
}

[[nodiscard]] inline TESSERA_HOST_DEVICE float low_bf16(std::uint32_t pair) {
  return to_float({static_cast<std::uint16_t>(pair & 0xffffU)});
}

[[nodiscard]] inline TESSERA_HOST_DEVICE float high_bf16(std::uint32_t pair) {
  return to_float({static_cast<std::uint16_t>(pair >> 16)});
}

}  // namespace cuda_decode
