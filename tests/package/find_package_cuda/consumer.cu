// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// nvcc reads a whole composition, and a kernel the block table that its plans hold.
#include <tessera/compose/pascal.hpp>

#include <cuda_runtime_api.h>
#include <cstdint>
#include <cub/version.cuh>

struct request : tessera::pascal_request {};

__global__ void first_blocks(const std::int32_t* indptr, const std::int32_t* indices, std::int32_t* first, int rows) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row < rows) first[row] = indices[indptr[row]];
}

std::size_t step(tessera::pascal<request>& scheduler, tessera::time_point now) {
  return scheduler.plan(now, {.max_batch = 4, .token_budget = tessera::tokens{64}}).tables.indptr.size();
}
