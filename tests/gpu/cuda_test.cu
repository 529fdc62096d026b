// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// On a GPU: the suite, the memory that CUB wants, no allocation, no waiting. Exits 77 where there is no GPU. Needs a
// CUDA toolkit and nothing else.
#include "gpu/sorter_suite.hpp"

#include <tessera/gpu/batch_sort.cuh>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace {

namespace gpu = tessera::gpu;
using tessera::status;

int failures = 0;

void expect(bool held, const char* what) {
  if (held) return;
  ++failures;
  std::fprintf(stderr, "failed: %s\n", what);
}

void must(cudaError_t e) {
  if (e == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(e));
  std::exit(1);
}

/// Memory that the host reads once the stream is done.
struct managed_memory {
  cudaStream_t stream;
  std::byte* allocate(std::size_t bytes) {
    void* p = nullptr;
    must(cudaMallocManaged(&p, bytes));
    return static_cast<std::byte*>(p);
  }
  void release(std::byte* p) { must(cudaFree(p)); }
  void finish() { must(cudaStreamSynchronize(stream)); }
};

template <class T>
T* device_array(std::size_t n) {
  void* p = nullptr;
  must(cudaMalloc(&p, n * sizeof(T)));
  return static_cast<T*>(p);
}

__global__ void make_keys(const std::uint32_t* lengths, std::uint64_t* keys, std::uint32_t n) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) keys[i] = gpu::longest_first<20>(lengths[i]);
}

// The rows of a batch, longest first, for an attention kernel that begins with what takes longest. All on the device.
status order_rows(cudaStream_t stream, std::span<const std::uint32_t> lengths, std::span<std::uint32_t> order,
                  gpu::workspace space) {
  const auto n = static_cast<std::uint32_t>(lengths.size());
  if (n == 0) return status::ok;
  auto* const keys = space.take<std::uint64_t>(n);
  if (keys == nullptr) return status::exhausted;
  make_keys<<<(n + 255) / 256, 256, 0, stream>>>(lengths.data(), keys, n);
  return gpu::device_sorter{stream}.sort({keys, n}, 20, order, space);
}

// Holds up the stream until the host says so, or for a few seconds.
__global__ void hold(volatile int* released) {
  const long long start = clock64();
  while (*released == 0 && clock64() - start < 10'000'000'000LL) {
  }
}

void keys_from_the_device(cudaStream_t stream) {
  constexpr std::uint32_t n = 5000;
  std::vector<std::uint32_t> lengths(n);
  for (std::uint32_t i = 0; i != n; ++i) lengths[i] = i * 2654435761U >> 12;
  std::vector<std::uint32_t> expected(n);
  std::iota(expected.begin(), expected.end(), 0U);
  std::stable_sort(expected.begin(), expected.end(), [&](auto a, auto b) { return lengths[a] > lengths[b]; });

  const std::size_t bytes = gpu::workspace_bytes<std::uint64_t>(n) + gpu::device_sorter::required_bytes(n);
  const gpu::workspace space{{device_array<std::byte>(bytes), bytes}};
  auto* const in = device_array<std::uint32_t>(n);
  auto* const order = device_array<std::uint32_t>(n);
  must(cudaMemcpyAsync(in, lengths.data(), n * sizeof(std::uint32_t), cudaMemcpyHostToDevice, stream));
  expect(order_rows(stream, {in, n}, {order, n}, {}) == status::exhausted, "keys from the device: no workspace");
  expect(ok(order_rows(stream, {in, n}, {order, n}, space)), "keys from the device: status");
  std::vector<std::uint32_t> got(n);
  must(cudaMemcpyAsync(got.data(), order, n * sizeof(std::uint32_t), cudaMemcpyDeviceToHost, stream));
  must(cudaStreamSynchronize(stream));
  expect(got == expected, "keys from the device: order");
}

void neither_allocates_nor_waits(cudaStream_t stream) {
  constexpr std::uint32_t n = 1 << 20;
  const std::size_t bytes = gpu::device_sorter::required_bytes(n);
  const gpu::workspace space{{device_array<std::byte>(bytes), bytes}};
  const std::span<const std::uint64_t> keys{device_array<std::uint64_t>(n), n};
  const std::span<const std::uint32_t> in{device_array<std::uint32_t>(n), n};
  const std::span<std::uint32_t> order{device_array<std::uint32_t>(n), n};
  const std::span<std::uint32_t> few{device_array<std::uint32_t>(64), 64};
  must(cudaMemset(const_cast<std::uint64_t*>(keys.data()), 0x3C, keys.size_bytes()));
  must(cudaMemset(const_cast<std::uint32_t*>(in.data()), 0, in.size_bytes()));
  must(cudaMemset(few.data(), 0, few.size_bytes()));
  const gpu::device_sorter sorter{stream};
  const auto all = [&] {
    return ok(sorter.sort(keys, 64, order, space)) && ok(sorter.sort_segments(keys, 40, few, order, space)) &&
           ok(sorter.bucket(in, few.first(20), order, few.first(22), space)) &&
           ok(sorter.admit(in, order, few.first(2), few.first(1), few.last(1), space));
  };
  // The first calls of a program load the kernels.
  expect(all(), "the calls before");
  must(cudaStreamSynchronize(stream));

  int* released = nullptr;
  must(cudaHostAlloc(&released, sizeof(int), cudaHostAllocMapped));
  *released = 0;
  hold<<<1, 1, 0, stream>>>(released);
  must(cudaPeekAtLastError());
  std::size_t before = 0, after = 0, total = 0;
  must(cudaMemGetInfo(&before, &total));
  bool worked = true;
  for (int i = 0; i != 5; ++i) worked = all() && worked;
  const bool still_held = cudaStreamQuery(stream) == cudaErrorNotReady;
  must(cudaMemGetInfo(&after, &total));
  *static_cast<volatile int*>(released) = 1;
  must(cudaStreamSynchronize(stream));
  expect(worked, "the calls behind a kernel that does not end");
  expect(still_held, "a call waited for the stream");
  expect(before == after, "a call took memory of the device");
}

void cub_fits_the_bound() {
  using backend = gpu::thrust_backend<THRUST_DEVICE_SYSTEM>;
  for (std::size_t n = 1; n <= gpu::device_sorter::max_batch; n += n / 7 + 1) {
    const auto count = static_cast<std::uint32_t>(n);
    std::size_t sort = 0, scan = 0;
    must(cub::DeviceRadixSort::SortPairs(nullptr, sort, static_cast<const std::uint64_t*>(nullptr),
                                         static_cast<std::uint64_t*>(nullptr), static_cast<std::uint32_t*>(nullptr),
                                         static_cast<std::uint32_t*>(nullptr), count, 0, 64));
    must(cub::DeviceScan::InclusiveSum(nullptr, scan, static_cast<std::uint64_t*>(nullptr),
                                       static_cast<std::uint64_t*>(nullptr), count));
    expect(sort + gpu::workspace_bytes<std::uint32_t>(n) <= backend::scratch_bytes(n), "CUB's sort wants more");
    expect(scan <= backend::scratch_bytes(n), "CUB's scan wants more");
  }
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("skipped: there is no GPU");
    return 77;
  }
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cub_fits_the_bound();
  keys_from_the_device(stream);
  neither_allocates_nor_waits(stream);
  failures +=
      tessera_test::sorter_suite<gpu::device_sorter, managed_memory>{gpu::device_sorter{stream}, {stream}}.all();
  must(cudaStreamSynchronize(stream));
  std::printf("%s\n", failures == 0 ? "passed" : "FAILED");
  return failures == 0 ? 0 : 1;
}
