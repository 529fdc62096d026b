// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/catch.hpp"

#include <tessera/gpu/sort_key.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace {

using namespace tessera::gpu;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float tiny = std::numeric_limits<float>::denorm_min();
constexpr float greatest = std::numeric_limits<float>::max();

static_assert(ordered_bits(-inf) < ordered_bits(-greatest));
static_assert(ordered_bits(-greatest) < ordered_bits(-1));
static_assert(ordered_bits(-1) < ordered_bits(-tiny));
static_assert(ordered_bits(-tiny) < ordered_bits(-0.0F));
static_assert(ordered_bits(-0.0F) == ordered_bits(0));
static_assert(ordered_bits(0) < ordered_bits(tiny));
static_assert(ordered_bits(1) < ordered_bits(greatest));
static_assert(ordered_bits(greatest) < ordered_bits(inf));
static_assert(ordered_bits(inf) < ordered_bits(nan));
static_assert(ordered_bits(nan) == ordered_bits(-nan));
static_assert(ordered_bits(std::bit_cast<float>(0xFF80'0001U)) == ordered_bits(nan));

static_assert(saturate<0>(5) == 0);
static_assert(saturate<3>(6) == 6);
static_assert(saturate<3>(8) == 7);
static_assert(saturate<32>(0xFFFF'FFFFU) == 0xFFFF'FFFFU);
static_assert(longest_first<20>(0) == 0xFFFFF);
static_assert(longest_first<20>(5) < longest_first<20>(4));
static_assert(longest_first<20>(0xFFFFF) == 0);
static_assert(longest_first<20>(0xFFFF'FFFFU) == 0);
static_assert(longest_first<32>(1) == 0xFFFF'FFFEU);
static_assert(longest_first<0>(1) == 0);

// Each field where the layout says, and nowhere else.
using layout = key_layout<4, 32, 20, 8>;
static_assert(layout::bits == 64);
static_assert(layout::pack({}) == std::uint64_t{0x8000'0000} << 28);
static_assert((layout::pack({.group = 9}) ^ layout::pack({})) == std::uint64_t{9} << 60);
static_assert((layout::pack({.length = 9}) ^ layout::pack({})) == 9 << 8);
static_assert((layout::pack({.arrival = 9}) ^ layout::pack({})) == 9);
static_assert(layout::pack({.value = nan}) == std::uint64_t{0xFFFF'FFFF} << 28);
static_assert(layout::pack({.group = 99, .value = nan, .length = 1 << 20, .arrival = 256}) == ~std::uint64_t{});
static_assert(key_layout<>::bits == 64);
static_assert(key_layout<0, 0, 0, 0>::pack({1, 2, 3, 4}) == 0);
static_assert(key_layout<0, 0, 32, 0>::pack({.value = nan, .length = 0xFFFF'FFFFU}) == 0xFFFF'FFFFU);
static_assert(key_layout<32, 32, 0, 0>::pack({.group = 0xFFFF'FFFFU, .value = nan}) == ~std::uint64_t{});
static_assert(key_layout<0, 16, 0, 0>::pack({.value = inf}) < key_layout<0, 16, 0, 0>::pack({.value = nan}));

TEST_CASE("the image of a float is ordered as floats are", "[gpu]") {
  std::mt19937 random{7};
  for (int i = 0; i != 200'000; ++i) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    // A neighbour, or any other.
    const auto y = i % 2 == 0 ? std::nextafter(x, 0.0F) : std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    const bool before = std::isnan(y) ? !std::isnan(x) : x < y;
    const bool narrow = key_layout<0, 16, 0, 0>::pack({.value = x}) <= key_layout<0, 16, 0, 0>::pack({.value = y});
    if ((ordered_bits(x) < ordered_bits(y)) != before || (before && !narrow)) FAIL(x << " and " << y);
  }
}

}  // namespace
