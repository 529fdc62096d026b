// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gpu/batch_sorter.hpp>

#include <thrust/detail/config.h>

#include <cstddef>
#include <cstdint>

#if THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_CUDA
#  ifndef __CUDACC__
#    error "tessera: compile this with nvcc, or define THRUST_DEVICE_SYSTEM as THRUST_DEVICE_SYSTEM_CPP, _OMP or _TBB"
#  endif
#  include <cuda_runtime_api.h>
#  include <cub/device/device_radix_sort.cuh>
#  include <cub/device/device_scan.cuh>
#else
#  include <thrust/execution_policy.h>
#  include <thrust/for_each.h>
#  include <thrust/iterator/counting_iterator.h>
#  include <thrust/scan.h>
#  include <thrust/sequence.h>
#  include <thrust/sort.h>
#  include <thrust/transform.h>
#endif

/// @file
/// `device_sorter`: orders batches on Thrust's device system, which `THRUST_DEVICE_SYSTEM` selects at compile time.
///
/// With nvcc that is a GPU. With any C++ compiler it is the host's processors, with the headers of CCCL (or of Thrust
/// and CUB 1.17) and for example `-DTHRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_OMP`. One source serves both.

TESSERA_NAMESPACE_BEGIN
namespace gpu {

#if THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_CUDA

using stream_type = cudaStream_t;  ///< The constructor argument of a `device_sorter`.

namespace detail {

struct write_index {
  std::uint32_t* out;
  __device__ void operator()(std::uint32_t i) const { out[i] = i; }
};

template <class F>
__global__ void call_for_each(std::uint32_t n, F f) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) f(i);
}

}  // namespace detail

/// CUB's radix sort and scan, with all their scratch memory from the caller. (Thrust's own sort asks an allocator for
/// an amount that only the device knows, and throws if there is none.)
template <int DeviceSystem>
class thrust_backend {
 public:
  constexpr thrust_backend() noexcept = default;
  /// Enqueues on `stream`, which must be of the current device whenever it is used.
  constexpr explicit thrust_backend(stream_type stream) noexcept : stream_{stream} {}

  /// The indices, CUB's second arrays of keys and indices, and its counters. These are 4 bytes for each of 256 digits
  /// and each tile of a sort, and some fixed ones. A tile has at least 1,024 elements. CUB checks the size before it
  /// launches anything.
  [[nodiscard]] static constexpr std::size_t scratch_bytes(std::size_t n) noexcept {
    return workspace_bytes<std::uint32_t>(n) + cub_bytes(n);
  }

  /// Enqueues `f(0)` to `f(n - 1)`, in no order.
  template <class F>
  [[nodiscard]] bool for_each(std::size_t n, F f) const noexcept {
    if (n == 0) return true;
    constexpr unsigned threads = 256;
    const auto count = static_cast<std::uint32_t>(n);
    detail::call_for_each<<<(count + threads - 1) / threads, threads, 0, stream_>>>(count, f);
    return cudaPeekAtLastError() == cudaSuccess;
  }

  /// O(n) for every eight bits.
  [[nodiscard]] bool sort_pairs(const std::uint64_t* keys, std::uint64_t* sorted, std::uint32_t* order, std::size_t n,
                                unsigned bits, std::byte* scratch) const noexcept {
    workspace space{{scratch, scratch_bytes(n)}};
    auto* const indices = space.take<std::uint32_t>(n);
    std::size_t bytes = cub_bytes(n);
    return for_each(n, detail::write_index{indices}) &&
           cub::DeviceRadixSort::SortPairs(space.take<std::byte>(bytes), bytes, keys, sorted, indices, order,
                                           static_cast<std::uint32_t>(n), 0, static_cast<int>(bits),
                                           stream_) == cudaSuccess;
  }

  /// O(n).
  [[nodiscard]] bool inclusive_sum(std::uint64_t* data, std::size_t n, std::byte* scratch) const noexcept {
    std::size_t bytes = scratch_bytes(n);
    return cub::DeviceScan::InclusiveSum(scratch, bytes, data, data, static_cast<std::uint32_t>(n), stream_) ==
           cudaSuccess;
  }

 private:
  [[nodiscard]] static constexpr std::size_t cub_bytes(std::size_t n) noexcept {
    return workspace_bytes<std::uint64_t>(n) + workspace_bytes<std::uint32_t>(n) + workspace_bytes<std::byte>(n) +
           256 * 1024;
  }

  stream_type stream_ = nullptr;
};

#else

struct stream_type {};  ///< There are no streams here: a call returns when its work is done.

namespace detail {

struct lowest_bits {
  std::uint64_t mask;
  std::uint64_t operator()(std::uint64_t key) const noexcept { return key & mask; }
};

}  // namespace detail

/// Thrust's algorithms on the host. They allocate memory, and end the program if there is none. These back ends are for
/// tests, and for machines without a GPU that have cores to spare.
template <int DeviceSystem>
class thrust_backend {
 public:
  constexpr thrust_backend() noexcept = default;
  /// So that one source serves all back ends.
  constexpr explicit thrust_backend(stream_type /*stream*/) noexcept {}

  /// None of the caller's.
  [[nodiscard]] static constexpr std::size_t scratch_bytes(std::size_t /*n*/) noexcept { return 0; }

  /// Calls `f(0)` to `f(n - 1)`, in no order.
  template <class F>
  [[nodiscard]] bool for_each(std::size_t n, F f) const noexcept {
    thrust::for_each_n(thrust::device, thrust::counting_iterator<std::uint32_t>{0}, n, f);
    return true;
  }

  /// O(n) for each byte, on OMP and TBB O(n log n).
  [[nodiscard]] bool sort_pairs(const std::uint64_t* keys, std::uint64_t* sorted, std::uint32_t* order, std::size_t n,
                                unsigned bits, std::byte* /*scratch*/) const noexcept {
    thrust::transform(thrust::device, keys, keys + n, sorted, detail::lowest_bits{~std::uint64_t{} >> (64 - bits)});
    thrust::sequence(thrust::device, order, order + n);
    thrust::stable_sort_by_key(thrust::device, sorted, sorted + n, order);
    return true;
  }

  /// O(n).
  [[nodiscard]] bool inclusive_sum(std::uint64_t* data, std::size_t n, std::byte* /*scratch*/) const noexcept {
    thrust::inclusive_scan(thrust::device, data, data + n, data);
    return true;
  }
};

#endif

/// The `batch_sorter` on a stream: `device_sorter sorter{stream}`.
///
/// On a GPU a call launches kernels and returns: it takes no memory, of the device or the heap, and waits for nothing.
/// The first calls of a program are an exception, because the CUDA runtime loads the kernels: make them before the
/// loop.
using device_sorter = basic_batch_sorter<thrust_backend<THRUST_DEVICE_SYSTEM>>;

}  // namespace gpu
TESSERA_NAMESPACE_END
