// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <device/device.hpp>

namespace cuda_decode {

inline constexpr int warp_size = 32;
inline constexpr unsigned all_lanes = 0xFFFF'FFFFU;

/// The sum over a block of whole warps, in every thread, in an order that depends on nothing but the block's size.
/// @param partial shared memory for one number of each warp; may be used again after a barrier
__device__ inline float block_sum(float x, float* partial) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int step = warp_size / 2; step != 0; step /= 2) x += __shfl_xor_sync(all_lanes, x, step);
  if (thread % warp_size == 0) partial[thread / warp_size] = x;
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  x = thread % warp_size < warps ? partial[thread % warp_size] : 0.0F;
  for (int step = warp_size / 2; step != 0; step /= 2) x += __shfl_xor_sync(all_lanes, x, step);
  return x;
}

}  // namespace cuda_decode
