// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <kernels/reduce.cuh>
#include <kernels/vector.cuh>

#include <cstddef>
#include <cstdint>

namespace cuda_decode {

/// What `rms_norm` normalises.
enum class norm_input {
  plain,          ///< Row i of `residual`.
  added,          ///< Row i of `residual` + `delta`, rounded to bf16; the sum is left in `residual`.
  added_gathered  ///< Row rows[i] of that sum; `residual` stays as it is.
};

/// The arrays of `rms_norm`. Rows are of `hidden` numbers, a multiple of 8 and at most `max_hidden`.
struct rms_norm_arrays {
  bf16* residual;
  const bf16* delta;         ///< Not read if `plain`.
  const std::int32_t* rows;  ///< [blocks]; read only if `added_gathered`
  const bf16* weight;        ///< [hidden]
  bf16* out;                 ///< [blocks][hidden]
};

inline constexpr int max_hidden = 1024 * vector_size;

/// Threads of a block of `rms_norm`: one for every 16 bytes, so that a row is read once and stays in registers.
[[nodiscard]] constexpr int rms_norm_threads(int hidden) {
  return (hidden / vector_size + warp_size - 1) / warp_size * warp_size;
}

/// out = x / sqrt(mean(x^2) + epsilon) * weight: a block for each row.
template <norm_input Input>
__global__ void rms_norm(rms_norm_arrays a, int hidden, float epsilon) {
  __shared__ float partial[warp_size];
  const std::size_t width = static_cast<std::size_t>(hidden);
  const std::size_t row =
      Input == norm_input::added_gathered ? static_cast<std::size_t>(a.rows[blockIdx.x]) : std::size_t{blockIdx.x};
  const std::size_t column = threadIdx.x * std::size_t{vector_size};
  const bool live = column < width;
  float x[vector_size] = {};
  bf16x8 weight{};
  float squares = 0;
  if (live) {
    weight = load(a.weight + column);  // is on its way while the sum is made
    unpack(load(a.residual + row * width + column), x);
    if constexpr (Input != norm_input::plain) {
      float d[vector_size];
      unpack(load(a.delta + row * width + column), d);
      CUDA_DECODE_UNROLL
      for (int i = 0; i < vector_size; ++i) x[i] += d[i];
      const bf16x8 sum = pack(x);
      if constexpr (Input == norm_input::added) store(a.residual + row * width + column, sum);
      unpack(sum, x);
    }
    CUDA_DECODE_UNROLL
    for (int i = 0; i < vector_size; ++i) squares += x[i] * x[i];
  }
  const float scale = 1.0F / sqrtf(block_sum(squares, partial) / static_cast<float>(hidden) + epsilon);
  if (!live) return;
  float w[vector_size];
  unpack(weight, w);
  CUDA_DECODE_UNROLL
  for (int i = 0; i < vector_size; ++i) x[i] *= scale * w[i];
  store(a.out + blockIdx.x * width + column, pack(x));
}

}  // namespace cuda_decode
