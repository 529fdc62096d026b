// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The device layer on a GPU: a plain program, for nvcc. Exits with 77 where there is no GPU.

#include "device_memory.hpp"
#include "gpu_program.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

using namespace cuda_decode;
using cuda_decode_test::read;
using cuda_decode_test::write;

int failures = 0;

void expect(bool holds, const char* what, int line) {
  if (holds) return;
  std::fprintf(stderr, "gpu_device.cu:%d: %s\n", line, what);
  ++failures;
}
#define EXPECT(...) expect((__VA_ARGS__), #__VA_ARGS__, __LINE__)

__global__ void widen(const std::uint16_t* in, float* out, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = to_float(bf16{in[i]});
}

__global__ void narrow(const float* in, std::uint16_t* one, std::uint32_t* two, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  one[i] = from_float(in[i]).bits;
  two[i] = pack_bf16(in[i], in[n - 1 - i]);
}

// Both back ends have the same bits.
void conversions(device::stream& s) {
  constexpr unsigned n = 65536;
  std::vector<std::uint16_t> all(n);
  for (unsigned i = 0; i < n; ++i) all[i] = static_cast<std::uint16_t>(i);
  const auto in = write(s, all);
  const device::buffer<float> wide(n);
  device::launch(s, widen, n / 256, 256, in.data(), wide.data(), n);
  const auto widened = read(s, wide);
  bool same = true;
  for (unsigned i = 0; i < n; ++i) {
    same = same && std::bit_cast<std::uint32_t>(widened[i]) == std::bit_cast<std::uint32_t>(to_float(bf16{all[i]}));
  }
  EXPECT(same);

  std::vector<float> values(1 << 22);
  std::uint32_t bits = 1;
  for (float& v : values) {
    bits = bits * 1664525U + 1013904223U;
    // A half of them in the middle between two bf16 numbers or next to it.
    v = std::bit_cast<float>((bits & 4U) != 0 ? bits : (bits & 0xffff'0000U) + 0x7fffU + (bits >> 4 & 3U));
  }
  const auto count = static_cast<unsigned>(values.size());
  const auto floats = write(s, values);
  const device::buffer<std::uint16_t> one(count);
  const device::buffer<std::uint32_t> two(count);
  device::launch(s, narrow, count / 256, 256, floats.data(), one.data(), two.data(), count);
  const auto ones = read(s, one);
  const auto twos = read(s, two);
  bool same_one = true;
  bool same_two = true;
  for (unsigned i = 0; i < count; ++i) {
    same_one = same_one && ones[i] == from_float(values[i]).bits;
    same_two = same_two && twos[i] == pack_bf16(values[i], values[count - 1 - i]);
  }
  EXPECT(same_one);
  EXPECT(same_two);
}

__global__ void add(const int* by, int* to, int times) { to[threadIdx.x] += *by * times; }

void graphs(device::stream& s) {
  const auto by = write(s, std::vector<int>{3});
  const auto to = write(s, std::vector<int>(32, 0));
  int times = 2;
  device::graph g = device::graph::capture(s, [&] {
    device::launch(s, add, 1, 32, by.data(), to.data(), times);
    device::launch(s, add, 1, 32, by.data(), to.data(), 1);
  });
  times = 100;  // too late
  EXPECT(read(s, to)[5] == 0);
  g.launch(s);
  g.launch(s);
  EXPECT(read(s, to)[31] == 18);
  device::clear(s, to.data(), 32 * sizeof(int));
  const auto more = write(s, std::vector<int>{5});
  device::copy(s, by.data(), more.data(), sizeof(int));
  g.launch(s);
  EXPECT(read(s, to)[0] == 15);
}

__global__ void wait_a_little(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

void streams(device::stream& a) {
  device::stream b;
  device::event begin;
  device::event end;
  const auto by = write(a, std::vector<int>{1});
  const auto to = write(a, std::vector<int>(32, 0));
  begin.record(a);
  device::launch(a, wait_a_little, 1, 1, 50'000'000LL);
  device::launch(a, add, 1, 32, by.data(), to.data(), 4);
  end.record(a);
  b.wait(end);
  EXPECT(read(b, to)[7] == 4);
  EXPECT(device::seconds_between(begin, end) > 0.005);
}

void products(device::stream& s) {
  device::blas blas{s};
  for (const auto& [m, n, k] : {std::array{1, 40, 64}, std::array{5, 128, 256}, std::array{64, 512, 4096}}) {
    const auto rows = static_cast<std::size_t>(m);
    const auto columns = static_cast<std::size_t>(n);
    const auto depth = static_cast<std::size_t>(k);
    std::uint32_t bits = 7;
    const auto random = [&](std::size_t count) {
      std::vector<bf16> out(count);
      for (bf16& v : out) {
        bits = bits * 1664525U + 1013904223U;
        v = from_float(static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-31F);
      }
      return out;
    };
    const auto x = random(rows * depth);
    const auto w = random(columns * depth);
    const auto dx = write(s, x);
    const auto dw = write(s, w);
    const device::buffer<float> y(rows * columns);
    const device::buffer<bf16> narrow_y(rows * columns);
    blas.multiply(s, dx.data(), dw.data(), y.data(), m, n, k);
    blas.multiply(s, dx.data(), dw.data(), narrow_y.data(), m, n, k);
    const auto first = read(s, y);
    const auto narrowed = read(s, narrow_y);
    blas.multiply(s, dx.data(), dw.data(), y.data(), m, n, k);
    EXPECT(read(s, y) == first);
    bool close = true;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) {
        double sum = 0;
        double size = 0;
        for (std::size_t i = 0; i < depth; ++i) {
          const double term = static_cast<double>(to_float(x[r * depth + i])) * to_float(w[c * depth + i]);
          sum += term;
          size += std::abs(term);
        }
        close = close && std::abs(first[r * columns + c] - sum) <= 1e-5 * size;
        close = close && std::abs(to_float(narrowed[r * columns + c]) - sum) <= 0x1p-8 * std::abs(sum) + 1e-5 * size;
      }
    }
    EXPECT(close);
  }
}

__global__ void nothing() {}

void refusals(device::stream& s) {
  const auto throws = [](const auto& f) {
    try {
      f();
    } catch (const device_error&) {
      return true;
    }
    return false;
  };
  EXPECT(throws([&] { device::launch(s, nothing, 1, 1025); }));
  EXPECT(throws([&] { device::launch(s, nothing, 0, 32); }));
  EXPECT(throws([&] { (void)device::graph::capture(s, [&] { s.synchronize(); }); }));
  EXPECT(throws([&] { const device::buffer<char> b(std::size_t{1} << 60); }));
  // An error that a library has left behind is not taken for that of what is enqueued.
  void* none = nullptr;
  EXPECT(cudaMalloc(&none, std::size_t{1} << 60) != cudaSuccess);
  EXPECT(!throws([&] { device::enqueue(s, [](cudaStream_t) {}); }));
  device::launch(s, nothing, 1, 1024);
  s.synchronize();
  EXPECT(device::resident_blocks(nothing, 128) >= device::query().multiprocessors);
}

}  // namespace

int main() {
  return cuda_decode_test::run_on_gpu("gpu_device.cu", failures, [] {
    const auto facts = device::query();
    std::printf("%s: %d multiprocessors, %.1f of %.1f GB free\n", facts.name.c_str(), facts.multiprocessors,
                static_cast<double>(facts.free_bytes) / 1e9, static_cast<double>(facts.memory_bytes) / 1e9);
    device::stream s;
    conversions(s);
    graphs(s);
    streams(s);
    products(s);
    refusals(s);
  });
}
