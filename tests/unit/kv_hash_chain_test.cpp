// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/kv/hash_chain.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

namespace {

using tessera::kv::hash_block;
using tessera::kv::hash_chain;
using tessera::kv::hash_root;

std::vector<std::uint64_t> chain(const std::vector<std::int32_t>& token, std::size_t block_size,
                                 std::uint64_t seed = 0) {
  std::vector<std::uint64_t> out(token.size() + 1);
  out.resize(hash_chain(token, block_size, out, seed));
  return out;
}

std::vector<std::int32_t> random_tokens(std::size_t n, std::uint32_t seed, std::int32_t vocabulary = 128'000) {
  std::mt19937 random{seed};
  std::vector<std::int32_t> token(n);
  for (auto& t : token) t = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(vocabulary));
  return token;
}

using tessera::kv::hash128;
using tessera::kv::hash_seed;

std::vector<hash128> wide_chain(const std::vector<std::int32_t>& token, std::size_t block_size, const hash128& seed) {
  std::vector<hash128> out(token.size() + 1);
  out.resize(hash_chain(token, block_size, out, seed));
  return out;
}

TEST_CASE("hash_chain: 128 bits continue block by block, at compile time, and differ in both halves", "[kv]") {
  static constexpr std::array<std::int32_t, 6> token{5, 0, -1, 7, 8, 9};
  constexpr auto both = [] {
    std::array<hash128, 2> out{};
    hash_chain(std::span<const std::int32_t>{token}, 3, out, hash_seed("tenant"));
    return out;
  }();
  static_assert(both[0] == hash_block(hash_root(hash_seed("tenant")), std::span{token}.first(3)));
  static_assert(both[1] == hash_block(both[0], std::span{token}.last(3)));
  static_assert(both[0].low != both[1].low && both[0].high != both[1].high);

  // Any one token, at any place, changes both halves, from there on; and each half half of its bits.
  const auto text = random_tokens(64, 5);
  const auto of_text = wide_chain(text, 8, {});
  std::int64_t flipped = 0;
  std::int64_t looked = 0;
  for (std::size_t i = 0; i != text.size(); ++i) {
    auto other = text;
    other[i] ^= 1 << (i % 17);
    const auto of_other = wide_chain(other, 8, {});
    for (std::size_t b = 0; b != 8; ++b) {
      CHECK((of_text[b].low == of_other[b].low) == (b < i / 8));
      CHECK((of_text[b].high == of_other[b].high) == (b < i / 8));
      if (b < i / 8) continue;
      flipped += std::popcount(of_text[b].high ^ of_other[b].high);
      looked += 64;
    }
  }
  CHECK(std::abs(static_cast<double>(flipped) / static_cast<double>(looked) - 0.5) < 0.02);
}

TEST_CASE("hash_chain: the halves of 128 bits know nothing of each other, in order and in short blocks", "[kv]") {
  // Blocks of few distinct tokens, in which order is all the difference: no half repeats.
  std::unordered_set<std::uint64_t> low;
  std::unordered_set<std::uint64_t> high;
  for (std::int32_t n = 0; n != 1 << 14; ++n) {
    std::vector<std::int32_t> block;
    for (int bit = 0; bit != 14; ++bit) block.push_back(n >> bit & 1);
    const hash128 h = wide_chain(block, 14, {})[0];
    CHECK(low.insert(h.low).second);
    CHECK(high.insert(h.high).second);
  }
}

TEST_CASE("hash_chain: salts keep apart", "[kv]") {
  const auto text = random_tokens(32, 6);
  std::unordered_set<std::uint64_t> seen;
  for (int tenant = 0; tenant != 500; ++tenant) {
    const hash128 seed = hash_seed("tenant-" + std::to_string(tenant));
    CHECK(seed == hash_seed("tenant-" + std::to_string(tenant)));
    CHECK_FALSE(seed == hash_seed("tenant-" + std::to_string(tenant), 1));
    for (const hash128& h : wide_chain(text, 8, seed)) {
      CHECK(seen.insert(h.low).second);
      CHECK(seen.insert(h.high).second);
    }
    for (const std::uint64_t h : chain(text, 8, seed.low)) CHECK(seen.insert(h).second);
  }
  CHECK_FALSE(hash_seed("") == hash_seed(std::string_view{"\0", 1}));
}

TEST_CASE("hash_chain: one hash per full block", "[kv]") {
  CHECK(chain({}, 4).empty());
  CHECK(chain({1, 2, 3}, 4).empty());
  CHECK(chain({1, 2, 3, 4}, 4).size() == 1);
  CHECK(chain({1, 2, 3, 4, 5, 6, 7}, 4).size() == 1);
  CHECK(chain({1, 2, 3, 4, 5, 6, 7, 8}, 4).size() == 2);
  CHECK(chain({1, 2, 3}, 1).size() == 3);
  std::array<std::uint64_t, 1> small{};
  const std::array<std::int32_t, 8> token{1, 2, 3, 4, 5, 6, 7, 8};
  CHECK(hash_chain(token, 4, small) == 1);
  CHECK(small[0] == chain({1, 2, 3, 4}, 4)[0]);
  CHECK(hash_chain(token, 4, {}) == 0);
}

TEST_CASE("hash_chain: continues block by block, also at compile time", "[kv]") {
  static constexpr std::array<std::int32_t, 6> token{5, 0, -1, 7, 8, 9};
  constexpr auto both = [] {
    std::array<std::uint64_t, 2> out{};
    hash_chain(std::span<const std::int32_t>{token}, 3, out, 42);
    return out;
  }();
  static_assert(both[0] == hash_block(hash_root(42), std::span{token}.first(3)));
  static_assert(both[1] == hash_block(both[0], std::span{token}.last(3)));
  CHECK(chain({token.begin(), token.end()}, 3, 42) == std::vector<std::uint64_t>{both[0], both[1]});
}

TEST_CASE("hash_chain: a changed token changes its block and all that follow, and nothing before", "[kv]") {
  for (const std::size_t block_size : {std::size_t{1}, std::size_t{3}, std::size_t{16}}) {
    const auto token = random_tokens(block_size * 5, 7);
    const auto before = chain(token, block_size);
    for (std::size_t i = 0; i != token.size(); ++i) {
      for (const std::int32_t change : {1, 2, 1 << 16, std::numeric_limits<std::int32_t>::min()}) {
        auto other = token;
        other[i] ^= change;
        const auto after = chain(other, block_size);
        for (std::size_t b = 0; b != 5; ++b) REQUIRE((after[b] == before[b]) == (b < i / block_size));
      }
    }
  }
}

TEST_CASE("hash_chain: order counts, within a block and between blocks", "[kv]") {
  CHECK(chain({1, 2, 3, 4}, 4) != chain({2, 1, 3, 4}, 4));
  CHECK(chain({1, 2, 3, 4}, 4) != chain({3, 4, 1, 2}, 4));
  CHECK(chain({1, 2, 3, 4}, 2).back() != chain({3, 4, 1, 2}, 2).back());
  CHECK(chain({1, 1, 1, 1}, 2)[0] != chain({1, 1, 1, 1}, 2)[1]);
}

TEST_CASE("hash_chain: seeds share nothing", "[kv]") {
  const auto token = random_tokens(16 * 64, 3);
  std::unordered_set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed != 200; ++seed) {
    for (const std::uint64_t h : chain(token, 16, seed)) REQUIRE(seen.insert(h).second);
  }
}

TEST_CASE("hash_chain: similar blocks do not collide", "[kv]") {
  std::unordered_set<std::uint64_t> seen;
  // All pairs of small tokens, all places of one odd token, runs of one token, long random text.
  for (std::int32_t a = 0; a != 300; ++a) {
    for (std::int32_t b = 0; b != 300; ++b) REQUIRE(seen.insert(chain({a, b, 0, 0}, 4)[0]).second);
  }
  seen.clear();
  for (std::size_t i = 0; i != 64; ++i) {
    for (std::int32_t t = 1; t != 1000; ++t) {
      std::vector<std::int32_t> token(64, 0);
      token[i] = t;
      REQUIRE(seen.insert(chain(token, 64)[0]).second);
    }
  }
  seen.clear();
  for (const std::uint64_t h : chain(random_tokens(1'600'000, 5), 16)) REQUIRE(seen.insert(h).second);
}

// Flipping any input bit flips each output bit about half of the time. With 4096 samples the standard error of a
// frequency is 0.008: a band of 6 of them on either side.
TEST_CASE("hash_chain: every input bit reaches every output bit", "[kv]") {
  constexpr int samples = 4096;
  constexpr double band = 6 * 0.5 / 64;
  std::mt19937_64 random{11};
  const std::array<int, 6> flipped_bits{0, 1, 15, 16, 30, 31};
  for (const std::size_t position : {std::size_t{0}, std::size_t{7}, std::size_t{15}}) {
    for (const int bit : flipped_bits) {
      std::array<int, 64> flips{};
      for (int s = 0; s != samples; ++s) {
        std::array<std::int32_t, 16> token{};
        for (auto& t : token) t = static_cast<std::int32_t>(random() & 0x1ffff);
        const std::uint64_t previous = random();
        const std::uint64_t before = hash_block(previous, token);
        token[position] = static_cast<std::int32_t>(static_cast<std::uint32_t>(token[position]) ^ (1U << bit));
        std::uint64_t difference = before ^ hash_block(previous, token);
        for (; difference != 0; difference &= difference - 1)
          ++flips[static_cast<std::size_t>(std::countr_zero(difference))];
      }
      for (const int f : flips) REQUIRE(std::abs(static_cast<double>(f) / samples - 0.5) < band);
    }
  }
}

// Low and high bits as a table would use them: 65,536 hashes into 256 bins, 256 +- 16 each.
TEST_CASE("hash_chain: hashes of ordinary text fill bins evenly", "[kv]") {
  const auto hashes = chain(random_tokens(65'536 * 4, 13, 500), 4);
  std::array<int, 256> low{};
  std::array<int, 256> high{};
  for (const std::uint64_t h : hashes) {
    ++low[h & 255];
    ++high[h >> 56];
  }
  const auto chi_squared = [](const std::array<int, 256>& bins) {
    double sum = 0;
    for (const int b : bins) sum += (b - 256.0) * (b - 256.0) / 256.0;
    return sum;
  };
  // Mean 255, standard deviation 22.6.
  CHECK(chi_squared(low) < 255 + 6 * 22.6);
  CHECK(chi_squared(low) > 255 - 6 * 22.6);
  CHECK(chi_squared(high) < 255 + 6 * 22.6);
  CHECK(chi_squared(high) > 255 - 6 * 22.6);
}

TEST_CASE("hash_chain: does not allocate", "[kv]") {
  const auto token = random_tokens(160, 1);
  std::array<std::uint64_t, 10> out{};
  tessera_test::no_allocation guard;
  const std::size_t n = hash_chain(token, 16, out, 1);
  const std::size_t allocations = guard.allocations();
  CHECK(allocations == 0);
  CHECK(n == 10);
}

}  // namespace
