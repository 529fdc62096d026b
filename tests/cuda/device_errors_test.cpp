// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "device_case.hpp"
#include "device_memory.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// What the emulated device says of kernels and calls that are wrong.

namespace {

using namespace cuda_decode;
using cuda_decode_test::error_of;
using cuda_decode_test::has;
using cuda_decode_test::read;
using cuda_decode_test::scheduled;
using cuda_decode_test::write;
namespace emulation = device::emulation;

__global__ void leaves_early(int* out) {
  if (threadIdx.x >= 40) return;
  __syncthreads();
  __syncwarp();
  atomicAdd(out, 1);
}

__global__ void leaves_others_waiting(int* out) {
  if (threadIdx.x % 32 >= 8) return;
  __syncwarp();
  atomicAdd(out, 1);
}

// Ways to go wrong.
enum class mistake {
  barrier_in_branch,
  two_barriers,
  warp_in_branch,
  masks_differ,
  collectives_differ,
  wrong_mask,
  absent_source,
  exchange_of_few,
  throws
};

template <mistake M>
__global__ void wrong() {
  [[maybe_unused]] int x = static_cast<int>(threadIdx.x);
  if constexpr (M == mistake::barrier_in_branch) {
    if (threadIdx.x < 32) {
      __syncthreads();
    } else {
      x = __shfl_sync(0xffff'ffffU, x, 0);
      __syncthreads();
      __syncthreads();
    }
    __syncthreads();
  } else if constexpr (M == mistake::two_barriers) {
    if (threadIdx.x < 32) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  } else if constexpr (M == mistake::warp_in_branch) {
    if (threadIdx.x % 2 == 0) x = __shfl_xor_sync(0xffff'ffffU, x, 2);
    __syncthreads();
  } else if constexpr (M == mistake::masks_differ) {
    x = __shfl_sync(threadIdx.x % 32 < 16 ? 0xffff'ffffU : 0xffff'0001U, x, 0);
  } else if constexpr (M == mistake::collectives_differ) {
    if (threadIdx.x % 32 < 16) {
      x = __shfl_sync(0xffff'ffffU, x, 0);
    } else {
      __syncwarp();
    }
  } else if constexpr (M == mistake::wrong_mask) {
    x = __shfl_sync(0xffffU, x, 0);
  } else if constexpr (M == mistake::absent_source) {
    if (threadIdx.x < 16) x = __shfl_sync(0xffffU, x, 20);
  } else if constexpr (M == mistake::exchange_of_few) {
    if (threadIdx.x < 20) return;
    (void)emulation::warp_exchange(x);
  } else if (threadIdx.x == 5) {
    throw device_error{"thrown by a thread"};
  } else {
    __syncthreads();
  }
}

template <mistake M>
std::string error_of_kernel() {
  device::stream s;
  device::launch(s, wrong<M>, 2, 64);
  return error_of([&] { s.synchronize(); });
}

TEST_CASE("divergent flow is reported, and the next kernel runs") {
  for (const auto order : {emulation::lazy, emulation::random}) {
    const scheduled now{order};
    const auto barrier = error_of_kernel<mistake::barrier_in_branch>();
    CHECK(has(barrier, "barrier"));
    CHECK(has(barrier, "device_errors_test.cpp"));
    CHECK(has(error_of_kernel<mistake::two_barriers>(), "different barriers"));
    const auto warp = error_of_kernel<mistake::warp_in_branch>();
    CHECK(has(warp, "of 64 live threads of a block, 32 wait at __syncthreads"));
    CHECK(has(warp, "32 wait in warp collectives"));
    CHECK(has(error_of_kernel<mistake::masks_differ>(), "64 wait in warp collectives"));
    CHECK(has(error_of_kernel<mistake::collectives_differ>(), "64 wait in warp collectives"));
    CHECK(has(error_of_kernel<mistake::wrong_mask>(), "not in the mask"));
    CHECK(has(error_of_kernel<mistake::absent_source>(), "takes no part"));
    CHECK(has(error_of_kernel<mistake::exchange_of_few>(), "all 32 lanes"));
    CHECK(error_of_kernel<mistake::throws>() == "thrown by a thread");

    device::stream s;
    const auto count = write(s, std::vector<int>{0});
    device::launch(s, leaves_early, 1, 64, count.data());
    CHECK(read(s, count)[0] == 40);
    device::launch(s, leaves_others_waiting, 1, 64, count.data());
    CHECK(read(s, count)[0] == 40 + 16);
  }
}

TEST_CASE("misuse is an error that says what is wrong") {
  device::stream s;
  const auto launched = [&](dim3 grid, dim3 block) {
    return error_of([&] { device::launch(s, leaves_early, grid, block, nullptr); });
  };
  CHECK(has(launched(1, 1025), "1025"));
  CHECK(has(launched(1, dim3(32, 33)), "block"));
  CHECK(has(launched(1, dim3(1, 1, 65)), "block"));
  CHECK(has(launched(1, 0), "block"));
  CHECK(has(launched(0, 32), "grid"));
  CHECK(has(launched(dim3(1, 65536), 32), "grid"));
  CHECK(has(error_of([] { __syncthreads(); }), "outside of a kernel"));
  CHECK(has(error_of([] { const device::buffer<double> b(std::size_t{1} << 61); }), "out of memory"));
  CHECK(has(error_of([] { const device::buffer<char> b(device::query().free_bytes + 1); }), "out of memory"));
  device::enqueue(s, [&](auto) { device::clear(s, nullptr, 1); });
  CHECK(has(error_of([&] { s.synchronize(); }), "while a stream runs"));

  device::event e;
  e.synchronize();  // nothing was recorded
  CHECK(has(error_of([&] { (void)device::seconds_between(e, e); }), "not recorded"));
  e.record(s);
  CHECK(has(error_of([&] { (void)device::seconds_between(e, e); }), "not reached"));
  CHECK(has(error_of([&] { device::graph{}.launch(s); }), "empty graph"));
  CHECK(has(error_of([&] { device::graph::capture(s, [&] { s.synchronize(); }); }), "graph"));
  CHECK(has(error_of([&] { device::graph::capture(s, [&] { e.record(s); }); }), "graph"));
  CHECK(has(error_of([&] { device::graph::capture(s, [&] { s.wait(e); }); }), "graph"));
  CHECK(has(error_of([&] { device::graph::capture(s, [] { const device::buffer<int> b(1); }); }), "graph"));
  CHECK(has(error_of([&] { device::graph::capture(s, [] { const device::pinned<int> b(1); }); }), "graph"));
  s.synchronize();  // no capture is left
}

TEST_CASE("an error does not get lost in a destructor") {
  {
    device::stream s;
    device::launch(s, wrong<mistake::throws>, 1, 64);
  }
  device::stream s;
  CHECK(error_of([&] { s.synchronize(); }) == "thrown by a thread");
  s.synchronize();
}

TEST_CASE("what a failure has dropped is not waited for") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const scheduled now{seed == 0 ? emulation::lazy : seed == 1 ? emulation::eager : emulation::random, seed};
    device::stream a;
    device::stream b;
    const auto x = write(a, std::vector<int>{1});
    device::event e;
    device::launch(a, wrong<mistake::throws>, 1, 64);
    e.record(a);
    b.wait(e);
    CHECK(error_of([&] { b.synchronize(); }) == "thrown by a thread");
    e.synchronize();
    b.wait(e);
    CHECK(read(b, x)[0] == 1);
  }
}

}  // namespace
