// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <kernels/vector.cuh>

#include <cstddef>

namespace cuda_decode {

/// out[i] = table[tokens[i]]: a block for each token. A token that the host does not know yet is -1 - j, and read where
/// the step before has sampled it, from sampled[j].
/// @tparam Id of tokens
/// @param table [vocabulary][hidden]; hidden is a multiple of 8
/// @param out [tokens][hidden]
template <class Id>
__global__ void embed(const bf16* table, const Id* tokens, const Id* sampled, bf16* out, int hidden) {
  const std::size_t row = blockIdx.x;
  const Id id = tokens[row];
  const Id token = id >= 0 ? id : sampled[-1 - id];
  const bf16* const from = table + static_cast<std::size_t>(token) * static_cast<std::size_t>(hidden);
  bf16* const to = out + row * static_cast<std::size_t>(hidden);
  for (int i = static_cast<int>(threadIdx.x) * vector_size; i < hidden;
       i += static_cast<int>(blockDim.x) * vector_size) {
    store(to + i, load(from + i));
  }
}

}  // namespace cuda_decode
