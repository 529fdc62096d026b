// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/fleet/kv_transfer.hpp>
#include <tessera/fleet/retry.hpp>
#include <tessera/fleet/stitch.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::fleet;

static_assert(plan_export(20_tok, 16_tok).generates == 1_tok);
static_assert(plan_export(32_tok, 16_tok).generates == 2_tok);

TEST_CASE("plan_export: what is exported is what the target asks for, at every length and block size") {
  for (std::int64_t size = 2; size != 40; ++size) {
    for (std::int64_t length = 1; length != 200; ++length) {
      const kv_export e = plan_export(tokens{length}, tokens{size});
      // Block by block: the KV of all tokens but the last, and the blocks of all tokens.
      const std::int64_t known = length + e.generates.count();
      REQUIRE(e.covers.count() == known - 1);
      std::int64_t with_kv = 0;
      std::int64_t needed = 0;
      for (std::int64_t i = 0; i != known; ++i) {
        if (i % size == 0) ++needed;
        if (i % size == 0 && i != known - 1) ++with_kv;
      }
      REQUIRE(e.size.count() == with_kv);
      REQUIRE(with_kv == needed);
      REQUIRE(e.whole);
      // The target never goes on with the first token of a block that it alone has.
      REQUIRE(known % size != 1);
      REQUIRE(takes(e.size, tokens{known}, tokens{size}));
      REQUIRE_FALSE(takes(e.size + 1_blk, tokens{known}, tokens{size}));
    }
  }
  CHECK_FALSE(plan_export(5_tok, 1_tok).whole);
  CHECK(shared_prefix(47_tok, 16_tok) == 32_tok);
  CHECK(shared_prefix(48_tok, 16_tok) == 48_tok);
}

TEST_CASE("stitch: overlaps are skipped, holes are seen, and nothing comes after the end") {
  stitch s;
  CHECK(s.on(0_tok, 3_tok).take == 3_tok);
  const stitch::piece overlap = s.on(1_tok, 4_tok);
  CHECK((overlap.skip == 2_tok && overlap.take == 2_tok));
  const stitch::piece seen = s.on(0_tok, 2_tok);
  CHECK((seen.skip == 2_tok && seen.take == 0_tok && !seen.hole));
  CHECK(s.on(6_tok, 1_tok).hole);
  CHECK_FALSE(s.on(6_tok, 0_tok).hole);
  CHECK(s.delivered() == 5_tok);
  CHECK(s.end(7_tok));
  CHECK_FALSE(s.ended());
  CHECK_FALSE(s.end(6_tok));
  CHECK_FALSE(s.end(4_tok));
  CHECK(s.on(5_tok, 9_tok).take == 2_tok);
  CHECK(s.ended());
  CHECK(s.on(5_tok, 9_tok).take == 0_tok);
}

TEST_CASE("stitch: engines that die, continue, and race give the client every token once, in order") {
  std::mt19937_64 random{1};
  for (int trial = 0; trial != 2000; ++trial) {
    const auto length = static_cast<std::int64_t>(1 + random() % 40);
    std::vector<std::int64_t> got;  // the token at position p is p
    stitch s;
    // Each engine continues from what the client had when it began, or from before that.
    std::vector<std::int64_t> at(2, 0);
    while (!s.ended()) {
      const std::size_t engine = random() % 2;
      if (random() % 5 == 0) {
        const std::uint64_t back = random() % (static_cast<std::uint64_t>(s.delivered().count()) + 1);
        at[engine] = s.delivered().count() - static_cast<std::int64_t>(back);
      }
      const auto count = static_cast<std::int64_t>(random() % 5);
      const std::int64_t from = at[engine];
      const std::int64_t n = std::min(count, length - from);
      if (from + n == length) REQUIRE(s.end(tokens{length}));
      const stitch::piece p = s.on(tokens{from}, tokens{n});
      REQUIRE_FALSE(p.hole);
      for (std::int64_t k = 0; k != p.take.count(); ++k) got.push_back(from + p.skip.count() + k);
      at[engine] = from + n;
    }
    REQUIRE(static_cast<std::int64_t>(got.size()) == length);
    for (std::int64_t i = 0; i != length; ++i) REQUIRE(got[static_cast<std::size_t>(i)] == i);
  }
}

TEST_CASE("retries: bounded by the engines that died with it, and never again when it is at fault") {
  retries killer;
  CHECK(killer.after(failure::refused));
  CHECK(killer.after(failure::died));
  CHECK(killer.after(failure::unreachable));
  CHECK_FALSE(killer.after(failure::died));
  CHECK(killer.deaths() == 2);
  CHECK_FALSE(killer.after(failure::refused));

  retries wrong;
  CHECK_FALSE(wrong.after(failure::at_fault));
  retries gone;
  CHECK_FALSE(gone.after(failure::cancelled));
  CHECK(gone.over());

  retries unlucky{{.deaths = 2, .tries = 3}};
  CHECK(unlucky.after(failure::refused));
  CHECK(unlucky.after(failure::refused));
  CHECK_FALSE(unlucky.after(failure::refused));
}

}  // namespace
