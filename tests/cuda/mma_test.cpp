// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What stands for PTX on the emulated device, against plain loops, with the operands laid out as the PTX manual says.
#include <kernels/mma.cuh>

#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace {

using namespace cuda_decode;

__global__ void product(const bf16* a, const bf16* b, float* c) {  // [16][16], [16][8], [16][8]
  const int group = static_cast<int>(threadIdx.x) / 4;
  const int in_group = static_cast<int>(threadIdx.x) % 4;
  const auto pair = [](bf16 low, bf16 high) {
    return static_cast<std::uint32_t>(high.bits) << 16 | static_cast<std::uint32_t>(low.bits);
  };
  // Two neighbours of a row in a register: first 8 rows, last 8 rows, and both again 8 columns on.
  std::uint32_t x[4];
  for (int r = 0; r < 4; ++r) {
    const int row = group + (r % 2 == 0 ? 0 : 8);
    const int column = in_group * 2 + (r < 2 ? 0 : 8);
    x[r] = pair(a[row * 16 + column], a[row * 16 + column + 1]);
  }
  // Two neighbours of a column in a register, and two that are 8 rows on.
  std::uint32_t y[2];
  for (int r = 0; r < 2; ++r) {
    const int row = in_group * 2 + 8 * r;
    y[r] = pair(b[row * 8 + group], b[(row + 1) * 8 + group]);
  }
  // Two neighbours of a row, and two that are 8 rows on.
  float z[4];
  for (int i = 0; i < 4; ++i) z[i] = c[(group + (i < 2 ? 0 : 8)) * 8 + in_group * 2 + i % 2];
  multiply_add(z, x, y[0], y[1]);
  for (int i = 0; i < 4; ++i) c[(group + (i < 2 ? 0 : 8)) * 8 + in_group * 2 + i % 2] = z[i];
}

__global__ void matrices(const std::uint16_t* from, std::uint32_t* plain, std::uint32_t* transposed) {  // [4][8][8]
  struct alignas(16) memory {
    std::uint16_t rows[4][8][24];  // rows apart from each other
  };
  __shared__ memory m;
  for (unsigned i = threadIdx.x; i < 256; i += 32) m.rows[i / 64][i / 8 % 8][i % 8] = from[i];
  __syncthreads();
  std::uint32_t r[4];
  load_matrices(r, m.rows[threadIdx.x / 8][threadIdx.x % 8]);
  for (unsigned i = 0; i < 4; ++i) plain[threadIdx.x * 4 + i] = r[i];
  load_matrices_transposed(r, m.rows[threadIdx.x / 8][threadIdx.x % 8]);
  for (unsigned i = 0; i < 4; ++i) transposed[threadIdx.x * 4 + i] = r[i];
}

__global__ void copying(const std::uint32_t* from, std::uint32_t* seen) {  // three groups of 4 words
  struct alignas(16) memory {
    std::uint32_t words[3][4];
  };
  __shared__ memory m;
  const auto look = [&](std::uint32_t* to) { std::memcpy(to, m.words, sizeof m.words); };
  std::memset(m.words, 0x55, sizeof m.words);
  async_copies copies;
  for (int i = 0; i < 3; ++i) {
    copies.copy(m.words[i], from + 4 * i, i != 1);
    copies.commit();
  }
  look(seen);
  copies.wait<2>();
  look(seen + 12);
  copies.wait<0>();
  look(seen + 24);
}

__global__ void misaligned(const std::uint32_t* from, int what) {
  struct alignas(16) memory {
    std::uint32_t words[64];
  };
  __shared__ memory m;
  for (unsigned i = threadIdx.x; i < 64; i += 32) m.words[i] = i;
  __syncthreads();
  std::uint32_t r[4];
  async_copies copies;
  if (what == 0) load_matrices(r, m.words + 4 * (threadIdx.x % 8));
  if (what == 1) load_matrices(r, m.words + 2 * (threadIdx.x % 8));
  if (what == 2) load_matrices_transposed(r, m.words + 2 * (threadIdx.x % 8));
  if (what == 3) copies.copy(m.words, from + 1, true);
  if (what == 4) copies.copy(m.words + 2, from, true);
}

template <class T>
std::vector<T> read(device::stream& s, const device::buffer<T>& b) {
  const device::pinned<T> back(b.size());
  device::copy(s, back.data(), b.data(), b.size() * sizeof(T));
  s.synchronize();
  return {back.data(), back.data() + b.size()};
}

template <class T>
device::buffer<T> upload(device::stream& s, const std::vector<T>& v) {
  const device::pinned<T> staging(v.size());
  std::copy(v.begin(), v.end(), staging.data());
  device::buffer<T> to(v.size());
  device::copy(s, to.data(), staging.data(), v.size() * sizeof(T));
  s.synchronize();
  return to;
}

}  // namespace

TEST_CASE("the tensor cores' product", "[cuda]") {
  device::stream s;
  std::mt19937 random{3};
  std::vector<bf16> a(256);
  std::vector<bf16> b(128);
  std::vector<float> c(128);
  // Small integers: every sum is exact.
  for (bf16& x : a) x = from_float(static_cast<float>(random() % 17) - 8);
  for (bf16& x : b) x = from_float(static_cast<float>(random() % 17) - 8);
  for (float& x : c) x = static_cast<float>(random() % 100);
  const auto da = upload(s, a);
  const auto db = upload(s, b);
  const auto dc = upload(s, c);
  device::launch(s, product, 1, 32, da.data(), db.data(), dc.data());
  const auto got = read(s, dc);
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      float want = c[row * 8 + column];
      for (std::size_t k = 0; k < 16; ++k) want += to_float(a[row * 16 + k]) * to_float(b[k * 8 + column]);
      CHECK(got[row * 8 + column] == want);
    }
  }
}

TEST_CASE("matrices from shared memory", "[cuda]") {
  device::stream s;
  std::vector<std::uint16_t> from(256);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint16_t>(i * 37);
  const auto d = upload(s, from);
  const device::buffer<std::uint32_t> plain(128);
  const device::buffer<std::uint32_t> transposed(128);
  device::launch(s, matrices, 1, 32, d.data(), plain.data(), transposed.data());
  const auto p = read(s, plain);
  const auto t = read(s, transposed);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    for (std::size_t m = 0; m < 4; ++m) {
      const auto at = [&](std::size_t row, std::size_t column) {
        return std::uint32_t{from[m * 64 + row * 8 + column]};
      };
      CHECK(p[lane * 4 + m] == (at(lane / 4, lane % 4 * 2 + 1) << 16 | at(lane / 4, lane % 4 * 2)));
      CHECK(t[lane * 4 + m] == (at(lane % 4 * 2 + 1, lane / 4) << 16 | at(lane % 4 * 2, lane / 4)));
    }
  }
}

TEST_CASE("copies come when they are waited for, or at once", "[cuda]") {
  for (const bool late : {true, false}) {
    device::emulation::copies_arrive_late = late;
    device::stream s;
    std::vector<std::uint32_t> from(12);
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint32_t>(i + 1);
    const auto d = upload(s, from);
    const device::buffer<std::uint32_t> seen(36);
    device::launch(s, copying, 1, 1, d.data(), seen.data());
    const auto got = read(s, seen);
    for (std::size_t i = 0; i < 12; ++i) {
      const std::uint32_t want = i / 4 == 1 ? 0 : from[i];
      CHECK(got[i] == (late ? 0x55555555U : want));
      CHECK(got[12 + i] == (late && i >= 4 ? 0x55555555U : want));
      CHECK(got[24 + i] == want);
    }
  }
  device::emulation::copies_arrive_late = true;
}

TEST_CASE("what a device would not take: addresses that are no multiples of 16", "[cuda]") {
  device::stream s;
  const auto from = upload(s, std::vector<std::uint32_t>(16));
  for (int what = 0; what != 5; ++what) {
    CAPTURE(what);
    device::launch(s, misaligned, 1, 32, from.data(), what);
    if (what == 0) {
      CHECK_NOTHROW(s.synchronize());
    } else {
      CHECK_THROWS_WITH(s.synchronize(), Catch::Contains("multiple of 16"));
    }
  }
}

TEST_CASE("powers of two", "[cuda]") {
  CHECK(exp2_fast(0) == 1);
  CHECK(exp2_fast(-3) == 0.125F);
  CHECK(exp2_fast(-INFINITY) == 0);
}
