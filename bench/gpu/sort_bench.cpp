// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/gpu/batch_sort.cuh>
#include <tessera/gpu/host_sorter.hpp>
#include <tessera/gpu/sort_key.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>
#include <vector>

// sort_bench [--quick]
//
// Orders batches of 1,000 to 1,000,000 requests by class, score and length, in one run with std::stable_sort,
// gpu::host_sorter and gpu::device_sorter. Prints the median time of each, and how many times faster than
// std::stable_sort the latter is. Keys, order and workspace are where each computes; a time ends when the order is
// there. Compiled by nvcc for a GPU (exits 77 where there is none), or by any compiler for a back end of Thrust on the
// host.

namespace {

namespace gpu = tessera::gpu;
using layout = gpu::key_layout<4, 32, 28, 0>;

#if THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_CUDA

void must(cudaError_t e) {
  if (e == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(e));
  std::exit(1);
}

struct device {
  gpu::stream_type stream{};

  bool open() {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return false;
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaDeviceProp p{};
    must(cudaGetDeviceProperties(&p, 0));
    std::printf("device: %s\n", p.name);
    return true;
  }
  std::byte* allocate(std::size_t bytes) {
    void* p = nullptr;
    must(cudaMalloc(&p, bytes));
    return static_cast<std::byte*>(p);
  }
  void release(std::byte* p) { must(cudaFree(p)); }
  void copy(void* to, const void* from, std::size_t bytes) { must(cudaMemcpy(to, from, bytes, cudaMemcpyDefault)); }
  void finish() { must(cudaStreamSynchronize(stream)); }
  std::size_t free_bytes() {
    std::size_t free = 0, total = 0;
    must(cudaMemGetInfo(&free, &total));
    return free;
  }
};

#else

struct device {
  gpu::stream_type stream{};

  bool open() {
    std::puts("device: a back end of Thrust on the host");
    return true;
  }
  std::byte* allocate(std::size_t bytes) {
    return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{gpu::workspace_alignment}));
  }
  void release(std::byte* p) { ::operator delete(p, std::align_val_t{gpu::workspace_alignment}); }
  void copy(void* to, const void* from, std::size_t bytes) {
    std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
  }
  void finish() {}
  std::size_t free_bytes() { return 0; }
};

#endif

struct pair {
  std::uint64_t key;
  std::uint32_t index;
};

/// Median of `times` runs in microseconds. Only `work` is timed.
template <class Prepare, class Work>
double median_us(std::size_t times, Prepare prepare, Work work) {
  std::vector<double> all;
  for (std::size_t i = 0; i != times; ++i) {
    prepare();
    const auto start = std::chrono::steady_clock::now();
    work();
    all.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(times / 2), all.end());
  return all[times / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view{argv[1]} == "--quick";
  device d;
  if (!d.open()) {
    std::puts("skipped: there is no GPU");
    return 77;
  }
  std::printf("%10s %20s %18s %20s %8s\n", "requests", "std::stable_sort us", "host_sorter us", "device_sorter us",
              "ratio");
  std::mt19937_64 random{1};
  bool right = true;
  for (const std::size_t n : {std::size_t{1'000}, std::size_t{10'000}, std::size_t{100'000}, std::size_t{1'000'000}}) {
    const std::size_t times = quick ? 3 : std::max<std::size_t>(11, 3'000'000 / n);
    std::vector<std::uint64_t> keys(n);
    for (auto& k : keys) {
      k = layout::pack({.group = static_cast<std::uint32_t>(random() % 3),
                        .value = static_cast<float>(random() % 100'000) / 100.0F,
                        .length = static_cast<std::uint32_t>(random() % 8'192)});
    }

    std::vector<pair> pairs(n);
    const double standard = median_us(
        times,
        [&] {
          for (std::uint32_t i = 0; i != n; ++i) pairs[i] = {keys[i], i};
        },
        [&] {
          std::stable_sort(pairs.begin(), pairs.end(), [](const pair& a, const pair& b) { return a.key < b.key; });
        });

    std::vector<std::uint32_t> order(n);
    std::vector<std::byte> memory(gpu::host_sorter::required_bytes(n) + gpu::workspace_alignment);
    const double host = median_us(
        times, [] {}, [&] { right &= ok(gpu::host_sorter{}.sort(keys, 64, order, gpu::workspace{memory})); });
    for (std::size_t i = 0; i != n; ++i) right &= order[i] == pairs[i].index;

    const std::size_t bytes = gpu::device_sorter::required_bytes(n);
    std::byte* const scratch = d.allocate(bytes);
    std::byte* const device_keys = d.allocate(n * sizeof(std::uint64_t));
    std::byte* const device_order = d.allocate(n * sizeof(std::uint32_t));
    d.copy(device_keys, keys.data(), n * sizeof(std::uint64_t));
    const gpu::device_sorter sorter{d.stream};
    const auto sort = [&] {
      right &= ok(sorter.sort({reinterpret_cast<const std::uint64_t*>(device_keys), n}, 64,
                              {reinterpret_cast<std::uint32_t*>(device_order), n}, gpu::workspace{{scratch, bytes}}));
      d.finish();
    };
    sort();  // loads the kernels
    const std::size_t before = d.free_bytes();
    const double on_device = median_us(
        times, [] {}, sort);
    if (d.free_bytes() != before) std::puts("sorting took memory of the device"), right = false;
    d.copy(order.data(), device_order, n * sizeof(std::uint32_t));
    for (std::size_t i = 0; i != n; ++i) right &= order[i] == pairs[i].index;
    d.release(scratch), d.release(device_keys), d.release(device_order);

    std::printf("%10zu %20.1f %18.1f %20.1f %8.2f\n", n, standard, host, on_device, standard / on_device);
  }
  if (!right) std::puts("WRONG: the orders differ, or a call was refused");
  return right ? 0 : 1;
}
