// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <kernels/vector.cuh>

#include <cstddef>
#include <cstdint>

/// @file
/// Random weights: a number depends on the seed, the tensor and its index only, and is the same on host and device.

namespace cuda_decode {

/// A bijection in which every bit of the input changes half of the output's.
__host__ __device__ constexpr std::uint64_t scramble(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58'476D'1CE4'E5B9U;
  x ^= x >> 27;
  x *= 0x94D0'49BB'1331'11EBU;
  return x ^ x >> 31;
}

/// The numbers of one tensor: evenly spread in (mean - spread, mean + spread), rounded to bf16.
struct random_numbers {
  std::uint64_t key;
  float mean;
  float spread;

  /// Four consecutive numbers are of one scrambled counter, 16 bits each.
  [[nodiscard]] __host__ __device__ std::uint64_t bits(std::uint64_t i) const { return scramble(key + i / 4); }
  [[nodiscard]] __host__ __device__ float number(std::uint64_t four, std::uint64_t i) const {
    const auto sixteen = static_cast<std::int32_t>(four >> 16 * (i % 4) & 0xFFFFU);
    // In this order there is nothing that a compiler could contract to another result.
    const float unit = static_cast<float>(2 * sixteen - 0xFFFF) * (1.0F / 65536);
    return add(mean, unit * spread);
  }
  /// The i-th number.
  [[nodiscard]] __host__ __device__ bf16 operator()(std::uint64_t i) const { return from_float(number(bits(i), i)); }

 private:
  __host__ __device__ static float add(float a, float b) {
#ifdef __CUDA_ARCH__
    return __fadd_rn(a, b);
#else
    return a + b;
#endif
  }
};

[[nodiscard]] inline random_numbers random_tensor(std::uint64_t seed, std::uint64_t tensor, float mean, float spread) {
  return {scramble(scramble(seed) + tensor), mean, spread};
}

/// A thread for every 8 numbers, again and again.
/// @tparam Numbers `random_numbers`
/// @param n a multiple of 8
template <class Numbers>
__global__ void fill_random(bf16* out, std::size_t n, Numbers random) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x * vector_size;
  for (std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) * vector_size; i < n; i += stride) {
    const std::uint64_t four[2] = {random.bits(i), random.bits(i + 4)};
    float x[vector_size];
    CUDA_DECODE_UNROLL
    for (unsigned k = 0; k < vector_size; ++k) x[k] = random.number(four[k / 4], k);
    store(out + i, pack(x));
  }
}

}  // namespace cuda_decode
