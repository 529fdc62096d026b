// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Each small kernel against a plain loop, on the emulated device.

#include <device/device.hpp>
#include <kernels/argmax.cuh>
#include <kernels/embed.cuh>
#include <kernels/random.cuh>
#include <kernels/rms_norm.cuh>
#include <kernels/rope.cuh>
#include <kernels/silu.cuh>

#include <support/catch.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <vector>

namespace {

using namespace cuda_decode;

/// Memory of the device with the host's numbers in it, and back.
template <class T>
class array {
 public:
  array(device::stream& s, const std::vector<T>& values) : stream_{s}, memory_{values.size()} {
    device::copy(s, memory_.data(), values.data(), values.size() * sizeof(T));
    s.synchronize();
  }
  array(device::stream& s, std::size_t n) : stream_{s}, memory_{n} {}
  [[nodiscard]] T* data() const { return memory_.data(); }
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> out(memory_.size());
    device::copy(stream_, out.data(), memory_.data(), out.size() * sizeof(T));
    stream_.synchronize();
    return out;
  }

 private:
  device::stream& stream_;
  device::buffer<T> memory_;
};

std::vector<bf16> numbers(std::mt19937& random, std::size_t n, float spread = 2) {
  std::uniform_real_distribution<float> u{-spread, spread};
  std::vector<bf16> out(n);
  for (bf16& x : out) x = from_float(u(random));
  return out;
}

/// Whether a stored number is what it should be, except for one rounding.
bool near(bf16 stored, double expected) {
  return std::abs(to_float(stored) - expected) <= std::abs(expected) * (1.0 / 256 + 1e-4) + 1e-30;
}

constexpr std::uint16_t untouched = 0xffff;

}  // namespace

TEST_CASE("embed: rows of the table") {
  std::mt19937 random{1};
  device::stream s;
  for (const int hidden : {8, 128, 3072}) {
    CAPTURE(hidden);
    const auto width = static_cast<std::size_t>(hidden);
    const std::vector<bf16> table = numbers(random, 7 * width);
    const std::vector<std::int32_t> tokens{6, 0, 3, 3};
    const array<bf16> t{s, table};
    // Two of them are where the step before has sampled them.
    const array<std::int32_t> ids{s, {6, -1, 3, -3}};
    const array<std::int32_t> sampled{s, {0, 5, 3}};
    const array<bf16> out{s, 4 * width};
    device::launch(s, embed<std::int32_t>, 4, 128, t.data(), ids.data(), sampled.data(), out.data(), hidden);
    const auto result = out.read();
    bool same = true;
    for (std::size_t i = 0; i != result.size(); ++i) {
      same &= result[i].bits == table[static_cast<std::size_t>(tokens[i / width]) * width + i % width].bits;
    }
    CHECK(same);
  }
}

TEST_CASE("rms_norm: plain, added, gathered") {
  std::mt19937 random{2};
  device::stream s;
  for (const int hidden : {8, 128, 264, 3072, 4096, 8192}) {
    CAPTURE(hidden);
    const auto width = static_cast<std::size_t>(hidden);
    const std::size_t rows = 3;
    const std::vector<bf16> x = numbers(random, rows * width);
    const std::vector<bf16> d = numbers(random, rows * width);
    const std::vector<bf16> w = numbers(random, width);
    const std::vector<std::int32_t> chosen{2, 0, 2, 1};
    const array<bf16> delta{s, d};
    const array<bf16> weight{s, w};
    const array<std::int32_t> list{s, chosen};
    const float epsilon = 0.5F;
    const auto expect = [&](std::size_t row, bool adds, const bf16* out) {
      std::vector<double> sum(width);
      double squares = 0;
      for (std::size_t i = 0; i != width; ++i) {
        sum[i] = to_float(x[row * width + i]);
        if (adds) sum[i] = to_float(from_float(static_cast<float>(sum[i]) + to_float(d[row * width + i])));
        squares += sum[i] * sum[i];
      }
      bool good = true;
      for (std::size_t i = 0; i != width; ++i) {
        good &= near(out[i], sum[i] / std::sqrt(squares / hidden + epsilon) * to_float(w[i]));
      }
      return good;
    };
    const auto threads = static_cast<unsigned>(rms_norm_threads(hidden));
    {
      const array<bf16> residual{s, x};
      const array<bf16> out{s, rows * width};
      const rms_norm_arrays a{residual.data(), nullptr, nullptr, weight.data(), out.data()};
      device::launch(s, rms_norm<norm_input::plain>, rows, threads, a, hidden, epsilon);
      const auto y = out.read();
      for (std::size_t r = 0; r != rows; ++r) CHECK(expect(r, false, y.data() + r * width));
    }
    {
      const array<bf16> residual{s, x};
      const array<bf16> out{s, rows * width};
      const rms_norm_arrays a{residual.data(), delta.data(), nullptr, weight.data(), out.data()};
      device::launch(s, rms_norm<norm_input::added>, rows, threads, a, hidden, epsilon);
      const auto y = out.read();
      for (std::size_t r = 0; r != rows; ++r) CHECK(expect(r, true, y.data() + r * width));
      const auto sum = residual.read();
      bool good = true;
      for (std::size_t i = 0; i != sum.size(); ++i) {
        good &= sum[i].bits == from_float(to_float(x[i]) + to_float(d[i])).bits;
      }
      CHECK(good);
    }
    {
      const array<bf16> residual{s, x};
      const array<bf16> out{s, chosen.size() * width};
      const rms_norm_arrays a{residual.data(), delta.data(), list.data(), weight.data(), out.data()};
      device::launch(s, rms_norm<norm_input::added_gathered>, static_cast<unsigned>(chosen.size()), threads, a, hidden,
                     epsilon);
      const auto y = out.read();
      for (std::size_t r = 0; r != chosen.size(); ++r) {
        CHECK(expect(static_cast<std::size_t>(chosen[r]), true, y.data() + r * width));
      }
      const auto same = residual.read();
      bool good = true;
      for (std::size_t i = 0; i != same.size(); ++i) good &= same[i].bits == x[i].bits;
      CHECK(good);
    }
  }
}

namespace {

template <int HeadDim>
void test_rope(std::int32_t query_heads, std::int32_t kv_heads, std::int32_t block_size, unsigned seed) {
  CAPTURE(HeadDim, query_heads, kv_heads, block_size);
  std::mt19937 random{seed};
  device::stream s;
  const auto dim = static_cast<std::size_t>(HeadDim);
  const auto heads = static_cast<std::size_t>(query_heads + 2 * kv_heads);
  const std::int32_t layers = 3;
  const std::int32_t layer = 1;
  const std::int32_t blocks = 4;
  const std::vector<std::int32_t> slots{3 * block_size + 5, -1, 0, 2 * block_size - 1};
  const std::vector<std::int32_t> positions{5, 0, 0, 30011};
  std::vector<float> frequencies;
  for (int i = 0; i != HeadDim / 2; ++i)
    frequencies.push_back(std::pow(500000.0F, -2.0F * static_cast<float>(i) / HeadDim));
  const std::vector<bf16> before = numbers(random, slots.size() * heads * dim);
  const array<bf16> qkv{s, before};
  const array<std::int32_t> position_array{s, positions};
  const array<std::int32_t> slot_array{s, slots};
  const array<float> frequency_array{s, frequencies};
  const kv_layout layout = make_kv_layout(layers, kv_heads, HeadDim, block_size);
  const array<bf16> pool{s, static_cast<std::size_t>(layout.block * blocks)};
  const rope_arrays a{
      qkv.data(), position_array.data(), slot_array.data(), frequency_array.data(), pool.data() + layout.layer * layer,
      layout};
  device::launch(s, rope_append<HeadDim>, static_cast<unsigned>(slots.size()), static_cast<unsigned>(rope_threads), a,
                 query_heads, kv_heads);
  const auto after = qkv.read();
  const auto kv = pool.read();

  // The pool as the design has it: [block][layer][key, value][head][token][dimension].
  const auto page = [&](std::int32_t slot, std::int32_t value, std::size_t head, std::size_t i) {
    const std::int32_t at =
        ((slot / block_size * layers + layer) * 2 + value) * kv_heads + static_cast<std::int32_t>(head);
    return kv[(static_cast<std::size_t>(at) * static_cast<std::size_t>(block_size) +
               static_cast<std::size_t>(slot % block_size)) *
                  dim +
              i];
  };
  bool queries = true, keys = true, values = true;
  for (std::size_t t = 0; t != slots.size(); ++t) {
    for (std::size_t h = 0; h != heads; ++h) {
      for (std::size_t i = 0; i != dim; ++i) {
        const std::size_t row = (t * heads + h) * dim;
        const std::size_t pair = i % (dim / 2);
        // In float, as positions times frequencies are: at 30,000 radians the rounding of the angle is visible.
        const double angle = static_cast<float>(positions[t]) * frequencies[pair];
        const double low = to_float(before[row + pair]);
        const double high = to_float(before[row + dim / 2 + pair]);
        const double turned = i < dim / 2 ? low * std::cos(angle) - high * std::sin(angle)
                                          : high * std::cos(angle) + low * std::sin(angle);
        const auto close = [&](bf16 x) {
          return std::abs(to_float(x) - turned) <= std::abs(turned) * (1.0 / 256 + 1e-4) + 1e-5;
        };
        const auto q = static_cast<std::size_t>(query_heads);
        const auto k = static_cast<std::size_t>(kv_heads);
        if (slots[t] < 0) {
          queries &= after[row + i].bits == before[row + i].bits;
        } else if (h < q) {
          queries &= close(after[row + i]);
        } else if (h < q + k) {
          keys &= close(page(slots[t], 0, h - q, i));
        } else {
          values &= page(slots[t], 1, h - q - k, i).bits == before[row + i].bits;
        }
      }
    }
  }
  CHECK(queries);
  CHECK(keys);
  CHECK(values);
  std::size_t written = 0;
  for (const bf16 x : kv) written += x.bits != untouched;
  CHECK(written == 3 * 2 * static_cast<std::size_t>(kv_heads) * dim);  // three tokens, nothing else
}

}  // namespace

TEST_CASE("rope_append: queries in place, keys and values in their pages") {
  test_rope<64>(6, 2, 16, 3);
  test_rope<64>(8, 8, 32, 4);
  test_rope<128>(24, 8, 16, 5);
  test_rope<128>(32, 8, 48, 6);
  test_rope<128>(1, 1, 16, 7);
}

TEST_CASE("rope: frequencies of known models") {
  const auto shape = [](const char* name) {
    for (const model_shape& s : model_shapes()) {
      if (s.name == name) return s;
    }
    throw std::runtime_error{name};
  };
  const auto tiny = rope_frequencies(shape("tiny"));
  REQUIRE(tiny.size() == 32);
  CHECK(tiny[0] == 1);
  CHECK(tiny[16] == tessera_test::approx(0.01));
  const auto f = rope_frequencies(shape("llama-3.1-8b"));
  REQUIRE(f.size() == 64);
  // Waves of fewer than 8192 / 4 positions stay, of more than 8192 are 8 times as long.
  for (std::size_t i = 0; i != f.size(); ++i) {
    CAPTURE(i);
    const double plain = std::pow(500000.0, -static_cast<double>(i) / 64);
    const double wave = 6.283185307179586 / plain;
    if (wave < 2048) {
      CHECK(f[i] == tessera_test::approx(plain));
    } else if (wave > 8192) {
      CHECK(f[i] == tessera_test::approx(plain / 8));
    } else {
      CHECK(f[i] < plain * 0.999);
      CHECK(f[i] > plain / 8 * 1.001);
      CHECK(f[i] < f[i - 1]);
    }
  }
  // One between them: 500000^(-31/64) = 0.00173605; 8192 of it are 2.263453 turns, 0.421151 of the way from 1 to 4.
  CHECK(f[31] == tessera_test::approx(0.421151 * 0.00173605 + 0.578849 * 0.00173605 / 8).epsilon(1e-4));
}

TEST_CASE("activate_multiply: silu(gate) * up") {
  std::mt19937 random{8};
  device::stream s;
  for (const int width : {8, 256, 2056, 8192}) {
    CAPTURE(width);
    const auto n = static_cast<std::size_t>(width);
    const std::size_t rows = 3;
    std::vector<bf16> in = numbers(random, rows * 2 * n, 6);
    in[0] = from_float(-200);  // e^200 is infinite
    in[1] = from_float(200);
    const array<bf16> gate_up{s, in};
    const array<bf16> out{s, rows * n};
    constexpr unsigned threads = 256;
    const dim3 grid{static_cast<unsigned>(rows), (static_cast<unsigned>(width) / 8 + threads - 1) / threads};
    device::launch(s, activate_multiply<silu>, grid, threads, gate_up.data(), out.data(), width);
    const auto y = out.read();
    bool good = true;
    for (std::size_t r = 0; r != rows; ++r) {
      for (std::size_t i = 0; i != n; ++i) {
        const double gate = to_float(in[r * 2 * n + i]);
        good &= near(y[r * n + i], gate / (1 + std::exp(-gate)) * to_float(in[r * 2 * n + n + i]));
      }
    }
    CHECK(good);
  }
}

TEST_CASE("argmax: the first of the greatest, never NaN") {
  std::mt19937 random{9};
  device::stream s;
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto run = [&](const std::vector<float>& values, int n) {
    const auto rows = static_cast<unsigned>(values.size() / static_cast<std::size_t>(n));
    const array<float> in{s, values};
    const array<std::int32_t> a{s, rows};
    const array<std::int32_t> b{s, rows};
    device::launch(s, argmax<1024>, rows, 1024, in.data(), a.data(), n);
    device::launch(s, argmax<32>, rows, 32, in.data(), b.data(), n);
    CHECK(a.read() == b.read());
    return a.read();
  };
  CHECK(run({1, 2, 3, 2}, 4) == std::vector<std::int32_t>{2});
  CHECK(run({3, 3, 3, 3, 1, 3, 3, 1}, 4) == std::vector<std::int32_t>{0, 1});
  CHECK(run({nan, 1, nan, 2, nan, nan, nan, nan}, 4) == std::vector<std::int32_t>{3, 0});
  CHECK(run({-infinity, -infinity, -infinity, -infinity, nan, -infinity, nan, nan}, 4) ==
        std::vector<std::int32_t>{0, 1});
  CHECK(run({nan, infinity, infinity, 1}, 4) == std::vector<std::int32_t>{1});
  CHECK(run({-0.0F, 0.0F, -1, -1, -2, -1, -1, -3}, 4) == std::vector<std::int32_t>{0, 1});
  for (const int n : {512, 4100, 20000}) {
    // Few values, so that there are many equals.
    for (const int values : {3, 1000, 1000000}) {
      CAPTURE(n, values);
      std::vector<float> in(4 * static_cast<std::size_t>(n));
      for (float& x : in) {
        x = static_cast<float>(random() % static_cast<unsigned>(values)) - 500;
        if (random() % 50 == 0) x = nan;
      }
      std::vector<std::int32_t> expected;
      for (std::size_t r = 0; r != 4; ++r) {
        std::int32_t best = -1;
        for (std::int32_t i = 0; i != n; ++i) {
          const float x = in[r * static_cast<std::size_t>(n) + static_cast<std::size_t>(i)];
          if (std::isnan(x)) continue;
          if (best < 0 || x > in[r * static_cast<std::size_t>(n) + static_cast<std::size_t>(best)]) best = i;
        }
        expected.push_back(best);
      }
      CHECK(run(in, n) == expected);
    }
  }
}

TEST_CASE("fill_random: the same on the device and the host, and spread as it should be") {
  device::stream s;
  const std::size_t n = 100000;
  const array<bf16> out{s, n + 8};
  const random_numbers generator = random_tensor(5, 7, 0.25F, 2.0F);
  device::launch(s, fill_random<random_numbers>, 3, 64, out.data(), n, generator);
  const auto y = out.read();
  bool same = true;
  double sum = 0;
  double squares = 0;
  double neighbours = 0;
  double greatest = 0;
  for (std::size_t i = 0; i != n; ++i) {
    same &= y[i].bits == generator(i).bits;
    const double x = to_float(y[i]) - 0.25;
    sum += x;
    squares += x * x;
    if (i != 0) neighbours += x * (to_float(y[i - 1]) - 0.25);
    greatest = std::max(greatest, std::abs(x));
  }
  CHECK(same);
  for (std::size_t i = n; i != n + 8; ++i) CHECK(y[i].bits == untouched);
  const auto count = static_cast<double>(n);
  CHECK(std::abs(sum / count) < 0.02);                // 2 / sqrt(3 n) is a standard deviation: 0.0037
  CHECK(std::abs(squares / count - 4.0 / 3) < 0.03);  // uniform
  CHECK(std::abs(neighbours / count) < 0.03);         // independent
  CHECK(greatest <= 2.0 + 1.0 / 64);                  // rounded to bf16
  CHECK(greatest > 1.99);
  // Other seeds and other tensors have other numbers.
  std::set<std::uint32_t> different;
  for (std::uint64_t seed = 0; seed != 20; ++seed) {
    for (std::uint64_t tensor = 0; tensor != 20; ++tensor) {
      const auto g = random_tensor(seed, tensor, 0, 1);
      different.insert(static_cast<std::uint32_t>(g(0).bits) << 16 | g(1).bits);
    }
  }
  CHECK(different.size() > 390);
}
