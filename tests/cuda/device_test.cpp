// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "device_case.hpp"
#include "device_memory.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

// The emulated device: numbers, kernels, matrix products. What runs on a GPU is in gpu_device.cu.

namespace {

using namespace cuda_decode;
using cuda_decode_test::error_of;
using cuda_decode_test::has;
using cuda_decode_test::read;
using cuda_decode_test::scheduled;
using cuda_decode_test::write;
namespace emulation = device::emulation;

// bf16

// The nearest bf16, ties to even, found among all of them.
std::uint16_t nearest(float x) {
  static const std::vector<long double> finite = [] {  // the positive ones, and what infinity stands for
    std::vector<long double> out;
    for (std::uint32_t i = 0; i < 0x7f80; ++i) {
      out.push_back(static_cast<long double>(std::bit_cast<float>(i << 16)));
    }
    out.push_back(std::ldexp(1.0L, 128));
    return out;
  }();
  const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
  const long double size = std::abs(static_cast<long double>(x));
  if (std::isinf(x)) return static_cast<std::uint16_t>(sign | 0x7f80);
  const auto above = std::lower_bound(finite.begin(), finite.end(), size);
  auto i = static_cast<std::size_t>(above - finite.begin());
  if (*above != size) {
    const long double up = finite[i] - size;
    const long double down = size - finite[i - 1];
    if (down < up || (down == up && (i - 1) % 2 == 0)) --i;
  }
  return static_cast<std::uint16_t>(sign | i);
}

TEST_CASE("every bf16 becomes a float and the same bf16 again") {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const bf16 x{static_cast<std::uint16_t>(i)};
    const float wide = to_float(x);
    if ((i & 0x7fffU) > 0x7f80) {
      REQUIRE(std::isnan(wide));
      REQUIRE(from_float(wide).bits == 0x7fff);
    } else {
      REQUIRE(std::bit_cast<std::uint32_t>(wide) == i << 16);
      REQUIRE(from_float(wide).bits == i);
    }
  }
  CHECK(to_float({0x3f80}) == 1.0F);
  CHECK(to_float({0xc2f7}) == -123.5F);
}

TEST_CASE("a float becomes the nearest bf16") {
  // Between all neighbours, both signs: the middle, next to it, a quarter.
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    if ((upper & 0x7fffU) >= 0x7f80) continue;
    for (const std::uint32_t lower : {0x0001U, 0x4000U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const auto x = std::bit_cast<float>(upper << 16 | lower);
      if (from_float(x).bits != nearest(x)) FAIL("upper " << upper << " lower " << lower);
    }
  }
  std::mt19937 random{1};
  for (int i = 0; i < 200'000; ++i) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(x)) continue;
    if (from_float(x).bits != nearest(x)) FAIL(x);
  }
  CHECK(from_float(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(from_float(-std::numeric_limits<float>::infinity()).bits == 0xff80);
  CHECK(from_float(std::numeric_limits<float>::denorm_min()).bits == 0);
  CHECK(from_float(-0.0F).bits == 0x8000);
  CHECK(from_float(1 + 0x1p-8F).bits == 0x3f80);  // a tie
  CHECK(from_float(1 + 0x3p-8F).bits == 0x3f82);  // another
  CHECK(pack_bf16(1, -2) == 0xc000'3f80U);
  CHECK(low_bf16(0xc000'3f80U) == 1);
  CHECK(high_bf16(0xc000'3f80U) == -2);
}

// Threads

__global__ void add_vectors(const float* x, const float* y, float* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = x[i] + y[i];
}

TEST_CASE("a grid covers a vector") {
  for (const auto order : {emulation::lazy, emulation::eager, emulation::random}) {
    const scheduled now{order};
    device::stream s;
    std::vector<float> x(1000);
    std::iota(x.begin(), x.end(), 0.0F);
    const auto dx = write(s, x);
    const device::buffer<float> out(1001);
    device::launch(s, add_vectors, 8, 128, dx.data(), dx.data(), out.data(), 1000);
    const auto got = read(s, out);
    for (std::size_t i = 0; i < 1000; ++i) REQUIRE(got[i] == 2 * x[i]);
    CHECK(std::isnan(got[1000]));  // memory is NaN until it is written
  }
}

// Where a thread is, in the order of CUDA.
__global__ void where_am_i(unsigned* out) {
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned lane = __shfl_sync(0xffff'ffffU, thread, 3) + 29 - thread;  // 32 - lane
  out[(block * blockDim.x * blockDim.y * blockDim.z + thread) * 2] = block * 1000 + thread;
  out[(block * blockDim.x * blockDim.y * blockDim.z + thread) * 2 + 1] = lane;
}

TEST_CASE("grids and blocks have three dimensions") {
  device::stream s;
  const device::buffer<unsigned> out(std::size_t{2} * 24 * 64);
  device::launch(s, where_am_i, dim3{2, 3, 4}, dim3{4, 8, 2}, out.data());
  const auto got = read(s, out);
  for (unsigned block = 0; block < 24; ++block) {
    for (unsigned thread = 0; thread < 64; ++thread) {
      REQUIRE(got[(block * 64 + thread) * 2] == block * 1000 + thread);
      REQUIRE(got[(block * 64 + thread) * 2 + 1] == 32 - thread % 32);
    }
  }
}

// Sums by halves, through shared memory. Without `barriers` a thread reads what no one may have written yet.
template <unsigned Threads, bool Barriers>
__global__ void sum_blocks(const long* in, long* out) {
  __shared__ long part[Threads];
  part[threadIdx.x] = in[blockIdx.x * Threads + threadIdx.x];
  for (unsigned half = Threads / 2; half != 0; half /= 2) {
    if (Barriers) __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

template <unsigned Threads, bool Barriers>
bool sums_are_right(std::uint64_t seed) {
  const scheduled now{seed == 0 ? emulation::lazy : emulation::random, seed};
  device::stream s;
  constexpr unsigned blocks = 5;
  std::mt19937 random{static_cast<std::uint32_t>(seed)};
  std::vector<long> in(std::size_t{blocks} * Threads);
  for (long& v : in) v = static_cast<long>(random() % 1000);
  const auto d = write(s, in);
  const device::buffer<long> out(blocks);
  device::launch(s, sum_blocks<Threads, Barriers>, blocks, Threads, d.data(), out.data());
  const auto got = read(s, out);
  bool right = true;
  for (std::size_t b = 0; b < blocks; ++b) {
    const auto first = in.begin() + static_cast<std::ptrdiff_t>(b * Threads);
    right = right && got[b] == std::accumulate(first, first + Threads, 0L);
  }
  return right;
}

TEST_CASE("a block sums through shared memory, with barriers only") {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    CHECK(sums_are_right<32, true>(seed));
    CHECK(sums_are_right<256, true>(seed));
    CHECK(sums_are_right<1024, true>(seed));
    CHECK_FALSE(sums_are_right<256, false>(seed));
  }
}

__global__ void stain_shared(float value, int* stained) {
  __shared__ float x[32];
  if (x[threadIdx.x] == value) atomicAdd(stained, 1);
  x[threadIdx.x] = value;
}

#ifdef CUDA_DECODE_FILLS_SHARED
TEST_CASE("shared memory does not survive its block") {
  device::stream s;
  const auto stained = write(s, std::vector<int>{0});
  device::launch(s, stain_shared, 4, 32, 1.5F, stained.data());
  CHECK(read(s, stained)[0] == 0);
  device::launch(s, stain_shared, 4, 32, 0.0F, stained.data());
  CHECK(read(s, stained)[0] == 0);
}
#else
TEST_CASE("shared memory belongs to all blocks in turn") {
  device::stream s;
  const auto stained = write(s, std::vector<int>{0});
  device::launch(s, stain_shared, 4, 32, 1.5F, stained.data());
  CHECK(read(s, stained)[0] == 96);
}
#endif

// Every shuffle of every lane, written to [operation][lane].
__global__ void shuffles(const int* values, int argument, int width, int* out) {
  const int v = values[threadIdx.x];
  out[threadIdx.x] = __shfl_sync(0xffff'ffffU, v, argument, width);
  out[32 + threadIdx.x] = __shfl_xor_sync(0xffff'ffffU, v, argument, width);
  out[64 + threadIdx.x] = __shfl_down_sync(0xffff'ffffU, v, static_cast<unsigned>(argument), width);
  out[96 + threadIdx.x] = __shfl_up_sync(0xffff'ffffU, v, static_cast<unsigned>(argument), width);
}

TEST_CASE("shuffles are what CUDA's guide says") {
  for (const auto order : {emulation::lazy, emulation::random}) {
    const scheduled now{order};
    device::stream s;
    std::vector<int> values(32);
    std::iota(values.begin(), values.end(), 1000);
    const auto in = write(s, values);
    const device::buffer<int> out(128);
    for (const int width : {32, 16, 8, 4, 2, 1}) {
      for (int argument = 0; argument < 32; ++argument) {
        device::launch(s, shuffles, 1, 32, in.data(), argument, width, out.data());
        const auto got = read(s, out);
        for (int lane = 0; lane < 32; ++lane) {
          // Parts of `width` lanes. A lane that is asked for one outside of its part gets its own value; except that
          // `xor` may read from a part before.
          const int part = lane / width * width;
          const int end = part + width;
          const int exclusive = lane ^ argument;
          const auto i = static_cast<std::size_t>(lane);
          REQUIRE(got[i] == 1000 + part + argument % width);
          REQUIRE(got[32 + i] == 1000 + (exclusive < end ? exclusive : lane));
          REQUIRE(got[64 + i] == 1000 + (lane + argument < end ? lane + argument : lane));
          REQUIRE(got[96 + i] == 1000 + (lane - argument >= part ? lane - argument : lane));
        }
      }
    }
  }
}

struct piece {
  std::array<float, 12> numbers;
  unsigned lane;
};

__global__ void exchanges(int* wrong) {
  for (unsigned round = 0; round < 5; ++round) {
    piece mine{};
    mine.lane = threadIdx.x % 32;
    mine.numbers.fill(static_cast<float>(threadIdx.x * 10 + round));
    const piece* const all = emulation::warp_exchange(mine);
    for (unsigned lane = 0; lane < 32; ++lane) {
      const auto expected = static_cast<float>((threadIdx.x / 32 * 32 + lane) * 10 + round);
      if (all[lane].lane != lane || all[lane].numbers[11] != expected) atomicAdd(wrong, 1);
    }
  }
}

__global__ void votes(unsigned* out) {
  const unsigned thread = threadIdx.x;
  const unsigned half = thread % 32 < 16 ? 0xffffU : 0xffff'0000U;
  out[thread * 4] = __ballot_sync(0xffff'ffffU, thread % 3 == 0);
  out[thread * 4 + 1] = static_cast<unsigned>(__any_sync(half, thread % 32 == 20));
  out[thread * 4 + 2] = static_cast<unsigned>(__all_sync(half, thread % 32 < 16));
  // Half of a warp on its own, more often than the other.
  unsigned sum = thread;
  for (unsigned step = 8; step != 0 && thread % 32 < 16; step /= 2) {
    sum += __shfl_xor_sync(0xffffU, sum, static_cast<int>(step));
  }
  __syncwarp();
  out[thread * 4 + 3] = sum;
}

TEST_CASE("lanes exchange pieces and votes") {
  for (const auto order : {emulation::lazy, emulation::random}) {
    const scheduled now{order};
    device::stream s;
    const auto wrong = write(s, std::vector<int>{0});
    device::launch(s, exchanges, 2, 96, wrong.data());
    CHECK(read(s, wrong)[0] == 0);
    const device::buffer<unsigned> out(256);
    device::launch(s, votes, 1, 64, out.data());
    const auto got = read(s, out);
    for (std::size_t i = 0; i < 64; ++i) {
      unsigned multiples = 0;
      for (std::size_t lane = 0; lane < 32; ++lane) multiples |= ((i / 32 * 32 + lane) % 3 == 0 ? 1U : 0U) << lane;
      REQUIRE(got[i * 4] == multiples);
      REQUIRE(got[i * 4 + 1] == (i % 32 >= 16 ? 1U : 0U));
      REQUIRE(got[i * 4 + 2] == (i % 32 < 16 ? 1U : 0U));
      REQUIRE(got[i * 4 + 3] == (i % 32 < 16 ? i / 32 * 512 + 120 : i));
    }
  }
}

__global__ void draw_tickets(unsigned* ticket, unsigned* out) { out[atomicAdd(ticket, 1U)] = blockIdx.x; }

TEST_CASE("blocks run in order, or at random") {
  const auto tickets = [](emulation::schedule order, std::uint64_t seed) {
    const scheduled now{order, seed};
    device::stream s;
    const auto ticket = write(s, std::vector<unsigned>{0});
    const device::buffer<unsigned> out(50);
    device::launch(s, draw_tickets, 50, 1, ticket.data(), out.data());
    return read(s, out);
  };
  std::vector<unsigned> sorted(50);
  std::iota(sorted.begin(), sorted.end(), 0U);
  CHECK(tickets(emulation::lazy, 1) == sorted);
  auto any = tickets(emulation::random, 1);
  CHECK(any != sorted);
  CHECK(any != tickets(emulation::random, 2));
  std::sort(any.begin(), any.end());
  CHECK(any == sorted);
}

TEST_CASE("matrix products") {
  std::mt19937 random{3};
  std::uniform_real_distribution<float> number(-1, 1);
  const auto numbers = [&](std::size_t count) {
    std::vector<bf16> out(count);
    for (bf16& v : out) v = from_float(number(random));
    return out;
  };
  device::stream s;
  device::blas blas{s};
  for (const auto& [m, n, k] :
       {std::array{1, 1, 1}, std::array{3, 5, 7}, std::array{8, 16, 128}, std::array{19, 33, 64}}) {
    const auto rows = static_cast<std::size_t>(m);
    const auto columns = static_cast<std::size_t>(n);
    const auto depth = static_cast<std::size_t>(k);
    const auto x = numbers(rows * depth);
    const auto w = numbers(columns * depth);
    const auto dx = write(s, x);
    const auto dw = write(s, w);
    const device::buffer<float> y(rows * columns);
    const device::buffer<bf16> narrow(rows * columns);
    blas.multiply(s, dx.data(), dw.data(), y.data(), m, n, k);
    blas.multiply(s, dx.data(), dw.data(), narrow.data(), m, n, k);
    const auto got = read(s, y);
    const auto narrowed = read(s, narrow);
    for (std::size_t r = 0; r < rows; ++r) {
      // A row alone has the same bits.
      blas.multiply(s, dx.data() + r * depth, dw.data(), y.data(), 1, n, k);
      const auto alone = read(s, y);
      for (std::size_t c = 0; c < columns; ++c) {
        double sum = 0;
        double size = 0;
        for (std::size_t i = 0; i < depth; ++i) {
          const double term = static_cast<double>(to_float(x[r * depth + i])) * to_float(w[c * depth + i]);
          sum += term;
          size += std::abs(term);
        }
        REQUIRE(std::abs(got[r * columns + c] - sum) <= 1e-6 * size);
        REQUIRE(narrowed[r * columns + c].bits == from_float(got[r * columns + c]).bits);
        REQUIRE(alone[c] == got[r * columns + c]);
      }
    }
  }
  device::stream other;
  CHECK(
      has(error_of([&] { blas.multiply(other, nullptr, nullptr, static_cast<float*>(nullptr), 1, 1, 1); }), "stream"));
}

#ifdef CUDA_DECODE_ASAN
__global__ void look_at(const float* p, int* poisoned) {
  poisoned[0] = __asan_address_is_poisoned(p + 9);
  poisoned[1] = __asan_address_is_poisoned(p + 10);
}

TEST_CASE("AddressSanitizer guards the device's memory") {
  device::stream s;
  const device::buffer<float> x(10);
  const device::buffer<int> poisoned(2);
  CHECK(__asan_address_is_poisoned(x.data()) != 0);  // the host must not touch it
  device::launch(s, look_at, 1, 1, x.data(), poisoned.data());
  const auto got = read(s, poisoned);
  CHECK(got[0] == 0);
  CHECK(got[1] == 1);  // past the end
}
#endif

TEST_CASE("the device has facts") {
  const auto facts = device::query();
  CHECK_FALSE(facts.name.empty());
  CHECK(facts.multiprocessors > 0);
  CHECK(facts.free_bytes <= facts.memory_bytes);
  CHECK(device::resident_blocks(add_vectors, 128) >= facts.multiprocessors);
}

}  // namespace
