// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Thrust's own sort, as one writes it first: it takes memory, gives it back, waits and throws.
//
// violates: U cudaMalloc
// violates: U cudaFree
// violates: U cudaStreamSynchronize
// violates: U operator new
// violates: U __cxa_throw
#include <thrust/execution_policy.h>
#include <thrust/sort.h>

#include <cstdint>

void use(cudaStream_t stream, std::uint64_t* keys, std::uint32_t* order, int n) {
  thrust::stable_sort_by_key(thrust::cuda::par.on(stream), keys, keys + n, order);
}
