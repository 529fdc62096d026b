// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <kernels/vector.cuh>

#include <cstddef>

namespace cuda_decode {

/// x / (1 + e^-x)
struct silu {
  __device__ float operator()(float x) const { return x / (1.0F + expf(-x)); }
};

/// out = Activation(gate) * up: a thread for every 8 numbers; blockIdx.x is the row.
/// @param gate_up [rows][2][width]; width is a multiple of 8
/// @param out [rows][width]
template <class Activation>
__global__ void activate_multiply(const bf16* gate_up, bf16* out, int width) {
  const int column = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * vector_size;
  if (column >= width) return;
  const std::size_t row = blockIdx.x;
  const bf16* const from = gate_up + row * 2 * static_cast<std::size_t>(width) + column;
  float gate[vector_size];
  float up[vector_size];
  unpack(load(from), gate);
  unpack(load(from + width), up);
  CUDA_DECODE_UNROLL
  for (int i = 0; i < vector_size; ++i) up[i] *= Activation{}(gate[i]);
  store(out + row * static_cast<std::size_t>(width) + column, pack(up));
}

}  // namespace cuda_decode
