// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/core/units.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>

namespace {

using namespace tessera::literals;
using tessera::blocks;
using tessera::tokens;

static_assert(sizeof(tokens) == 8 && std::is_trivially_copyable_v<tokens>);
static_assert(tokens{}.count() == 0);
static_assert((500_tok).count() == 500 && (3_blk).count() == 3 && (64_B).count() == 64);
static_assert(std::is_same_v<decltype(7_tok / 2_tok), std::int64_t>);
static_assert(std::is_same_v<decltype(7_tok / 2), tokens>);

TEST_CASE("quantities add, compare and scale within their unit", "[core]") {
  CHECK(3_tok + 4_tok == 7_tok);
  CHECK(3_tok - 4_tok == tokens{-1});
  CHECK(3_tok * 4 == 12_tok);
  CHECK(4 * 3_tok == 12_tok);
  CHECK(7_tok / 2 == 3_tok);
  CHECK(7_tok / 2_tok == 3);
  CHECK(7_tok % 2_tok == 1_tok);
  CHECK(3_tok < 4_tok);
  CHECK(4_tok >= 4_tok);
  CHECK(3_tok != 4_tok);

  tokens t = 10_tok;
  t += 5_tok;
  CHECK(t == 15_tok);
  t -= 20_tok;
  CHECK(t == tokens{-5});
  CHECK(&(t += 1_tok) == &t);
}

TEST_CASE("min and max of quantities", "[core]") {
  CHECK(tessera::min(3_tok, 4_tok) == 3_tok);
  CHECK(tessera::min(4_tok, 3_tok) == 3_tok);
  CHECK(tessera::max(3_tok, 4_tok) == 4_tok);
  CHECK(tessera::max(4_tok, 3_tok) == 4_tok);
  CHECK(tessera::min(tokens{-1}, 0_tok) == tokens{-1});
}

TEST_CASE("quantities follow 64-bit integers", "[core]") {
  std::mt19937_64 random{1};
  std::uniform_int_distribution<std::int64_t> any{-1'000'000'000, 1'000'000'000};
  for (int i = 0; i != 1000; ++i) {
    const std::int64_t a = any(random);
    const std::int64_t b = any(random);
    REQUIRE((tokens{a} + tokens{b}).count() == a + b);
    REQUIRE((tokens{a} - tokens{b}).count() == a - b);
    REQUIRE((tokens{a} * b).count() == a * b);
    REQUIRE((tokens{a} < tokens{b}) == (a < b));
    REQUIRE((tokens{a} == tokens{b}) == (a == b));
    if (b != 0) {
      REQUIRE(tokens{a} / tokens{b} == a / b);
      REQUIRE((tokens{a} % tokens{b}).count() == a % b);
    }
  }
}

TEST_CASE("blocks_for rounds up", "[core]") {
  CHECK(tessera::blocks_for(0_tok, 16_tok) == 0_blk);
  CHECK(tessera::blocks_for(1_tok, 16_tok) == 1_blk);
  CHECK(tessera::blocks_for(15_tok, 16_tok) == 1_blk);
  CHECK(tessera::blocks_for(16_tok, 16_tok) == 1_blk);
  CHECK(tessera::blocks_for(17_tok, 16_tok) == 2_blk);
  CHECK(tessera::blocks_for(17_tok, 1_tok) == 17_blk);
  for (std::int64_t size = 1; size != 20; ++size) {
    for (std::int64_t length = 0; length != 100; ++length) {
      std::int64_t need = 0;
      while (need * size < length) ++need;
      REQUIRE(tessera::blocks_for(tokens{length}, tokens{size}) == blocks{need});
    }
  }
}

}  // namespace
