// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/split_mix.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

/// @file
/// Random numbers that are the same on every machine. The standard leaves the algorithms of its distributions to the
/// library, and libraries' `log` and `exp` differ in the last bit. So both are done here, with operations that IEEE 754
/// rounds exactly: + - * /, `sqrt` and `fma`. A product that feeds a sum is always an explicit `fma`. A sampler's last
/// operation is never a bare product. So no compiler can choose to fuse or not.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// xoshiro256** (Blackman and Vigna): 256 bits of state, period 2^256 - 1. A uniform random bit generator.
/// Generators with different `stream` of one seed are independent for every practical purpose.
class random_engine {
 public:
  using result_type = std::uint64_t;  ///< 64 bits.

  /// Streams of one seed are independent of each other.
  constexpr explicit random_engine(std::uint64_t seed = 1, std::uint64_t stream = 0) noexcept {
    // splitmix64 fills the state, as the authors advise; the odd multiplier keeps (seed, stream) pairs apart.
    std::uint64_t x = seed ^ (stream * 0xd1342543de82ef95U);
    for (std::uint64_t& word : state_) {
      x += tessera::detail::split_mix_step;
      word = tessera::detail::split_mix(x);
    }
  }

  /// 0.
  [[nodiscard]] static constexpr result_type min() noexcept { return 0; }
  /// 2^64 - 1.
  [[nodiscard]] static constexpr result_type max() noexcept { return std::numeric_limits<result_type>::max(); }

  /// The next 64 bits.
  constexpr result_type operator()() noexcept {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

 private:
  std::uint64_t state_[4]{};
};

namespace detail {

inline constexpr double ln2_high = 0x1.62e42fee00000p-1;
inline constexpr double ln2_low = 0x1.a39ef35793c76p-33;

/// Natural logarithm, within 2 units in the last place, the same everywhere. Requires a positive normal number.
[[nodiscard]] inline double exact_log(double x) noexcept {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // In [0.5, 1).
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  // log m = 2 atanh(s), |s| < 0.172: the series in s^2.
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  double sum = 1.0 / 23;
  for (int k = 21; k >= 3; k -= 2) sum = std::fma(sum, z, 1.0 / k);
  const double tail = std::fma(2 * s * z, sum, static_cast<double>(exponent) * ln2_low);
  return std::fma(static_cast<double>(exponent), ln2_high, std::fma(2.0, s, tail));
}

/// e to the power x, the same everywhere; 0 below -700. Requires x <= 700.
[[nodiscard]] inline double exact_exp(double x) noexcept {
  if (x < -700) return 0;
  const double k = std::floor(std::fma(x, 1.4426950408889634, 0.5));
  const double r = std::fma(-k, ln2_low, std::fma(-k, ln2_high, x));  // |r| < 0.35.
  double sum = 1;
  for (int i = 16; i >= 1; --i) sum = std::fma(sum, r / i, 1.0);
  return std::ldexp(sum, static_cast<int>(k));
}

}  // namespace detail

/// Uniform in [0, 1), a multiple of 2^-53.
[[nodiscard]] constexpr double uniform(random_engine& rng) noexcept {
  return static_cast<double>(rng() >> 11) * 0x1p-53;
}

/// Uniform in (0, 1): never an end.
[[nodiscard]] constexpr double uniform_open(random_engine& rng) noexcept {
  return (static_cast<double>(rng() >> 12) + 0.5) * 0x1p-52;
}

/// Uniform in {0, ..., n - 1}, without bias. Requires `n > 0` (asserted).
[[nodiscard]] constexpr std::uint64_t uniform_below(random_engine& rng, std::uint64_t n) noexcept {
  TESSERA_ASSERT(n > 0, "nothing is below zero");
  const std::uint64_t mask = n == 1 ? 0 : ~std::uint64_t{0} >> std::countl_zero(n - 1);
  std::uint64_t x = rng() & mask;
  while (x >= n) x = rng() & mask;
  return x;
}

/// Exponential with mean 1 / `rate`. Requires `rate > 0`.
[[nodiscard]] inline double exponential(random_engine& rng, double rate = 1) noexcept {
  return -detail::exact_log(uniform_open(rng)) / rate;
}

/// Normal (Marsaglia's polar method).
[[nodiscard]] inline double normal(random_engine& rng, double mean = 0, double deviation = 1) noexcept {
  for (;;) {
    const double u = 2 * uniform(rng) - 1;
    const double v = 2 * uniform(rng) - 1;
    const double s = std::fma(u, u, v * v);
    if (s >= 1 || s == 0) continue;
    return std::fma(deviation, u * std::sqrt(-2 * detail::exact_log(s) / s), mean);
  }
}

/// Gamma with mean `shape / rate` and coefficient of variation `1 / sqrt(shape)` (Marsaglia and Tsang). Requires both
/// positive.
[[nodiscard]] inline double gamma(random_engine& rng, double shape, double rate = 1) noexcept {
  // Below 1 the method needs a detour: gamma(shape) = gamma(shape + 1) u^(1 / shape).
  double factor = 1;
  if (shape < 1) {
    factor = detail::exact_exp(detail::exact_log(uniform_open(rng)) / shape);
    shape += 1;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(rng);
    const double t = std::fma(c, x, 1.0);
    if (t <= 0) continue;
    const double v = t * t * t;
    const double log_u = detail::exact_log(uniform_open(rng));
    // log u < x^2 / 2 + d - d v + d log v
    if (log_u < std::fma(d, detail::exact_log(v), std::fma(-d, v, std::fma(x * 0.5, x, d))))
      return factor * d * v / rate;
  }
}

/// The quantile function given by `values[i]` at `levels[i]`, linear in between. `levels` rises from 0 to 1.
/// O(log n). Requires equal sizes of at least 2 and `u` in [0, 1].
[[nodiscard]] inline double interpolate_quantile(std::span<const double> levels, std::span<const double> values,
                                                 double u) noexcept {
  std::size_t low = 0;
  std::size_t high = levels.size() - 1;
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (levels[middle] <= u ? low : high) = middle;
  }
  const double part = (u - levels[low]) / (levels[high] - levels[low]);
  return std::fma(part, values[high] - values[low], values[low]);
}

}  // namespace sim
TESSERA_NAMESPACE_END
