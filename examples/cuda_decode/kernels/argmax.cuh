// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <kernels/reduce.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace cuda_decode {

/// A number and where it was.
struct candidate {
  float value;
  std::int32_t index;
};

/// The greater one, of equals the earlier one; `best` if the other is NaN. `best` is not NaN.
__device__ inline candidate first_of(const candidate& best, const candidate& other) {
  return other.value > best.value || (other.value == best.value && other.index < best.index) ? other : best;
}

__device__ inline candidate warp_best(candidate c) {
  for (int step = warp_size / 2; step != 0; step /= 2) {
    c = first_of(c, {__shfl_xor_sync(all_lanes, c.value, step), __shfl_xor_sync(all_lanes, c.index, step)});
  }
  return c;
}

/// The index of each row's greatest number, the first one of equals; NaN is never chosen, and of nothing but NaN it is
/// 0. A block of `Threads` for each row.
/// @param values [blocks][n]; n is a multiple of 4
/// @param out [blocks]
template <int Threads>
__global__ void argmax(const float* values, std::int32_t* out, int n) {
  static_assert(Threads % warp_size == 0 && Threads <= warp_size * warp_size);
  constexpr int loads = 4;  // in flight
  constexpr candidate none{-INFINITY, 0x7FFF'FFFF};
  __shared__ candidate partial[std::size_t{Threads} / warp_size];
  const float* const row = values + blockIdx.x * static_cast<std::size_t>(n);
  const int thread = static_cast<int>(threadIdx.x);
  candidate best = none;
  for (int first = thread * 4; first < n; first += Threads * 4 * loads) {
    float4 v[loads];
    CUDA_DECODE_UNROLL
    for (int k = 0; k < loads; ++k) {
      const int i = first + k * Threads * 4;
      v[k] = i < n ? *reinterpret_cast<const float4*>(row + i) : make_float4(NAN, NAN, NAN, NAN);
    }
    CUDA_DECODE_UNROLL
    for (int k = 0; k < loads; ++k) {
      const int i = first + k * Threads * 4;
      best = first_of(best, {v[k].x, i});
      best = first_of(best, {v[k].y, i + 1});
      best = first_of(best, {v[k].z, i + 2});
      best = first_of(best, {v[k].w, i + 3});
    }
  }
  best = warp_best(best);
  if (thread % warp_size == 0) partial[thread / warp_size] = best;
  __syncthreads();
  if (thread >= warp_size) return;
  best = warp_best(thread < Threads / warp_size ? partial[thread] : none);
  if (thread == 0) out[blockIdx.x] = best.index == none.index ? 0 : best.index;
}

}  // namespace cuda_decode
