// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/migration/live_migration.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using migration::block_range;
using migration::live_migration;
using migration::next;

struct wire {
  std::vector<block_range> copies{};
  wire() { copies.reserve(1000); }
  void copy(const block_range& r) noexcept { copies.push_back(r); }
};

TEST_CASE("live migration: snapshot, dirty blocks, last blocks") {
  live_migration m{{.block_size = 16_tok, .stop_below = 1_blk}};
  wire w;
  CHECK(m.state() == next::over);
  REQUIRE(m.begin(1000_tok, 100_blk, w) == next::copying);
  CHECK(w.copies.back() == block_range{0_blk, 63_blk});
  // 1000 = 62 blocks and 8 tokens: block 62 was partly filled and is dirty, 63 and 64 are new.
  REQUIRE(m.copied(1040_tok, w) == next::copying);
  CHECK(w.copies.back() == block_range{62_blk, 65_blk});
  // 1040 = 65 full blocks: none of them is dirty.
  REQUIRE(m.copied(1041_tok, w) == next::stop);
  CHECK(w.copies.size() == 2);
  REQUIRE(m.stopped(1042_tok, w) == next::copying);
  CHECK(w.copies.back() == block_range{65_blk, 66_blk});
  REQUIRE(m.copied(1042_tok, w) == next::hand_over);
  CHECK(m.rounds() == 2);
  CHECK(m.sent() == 67_blk);
  CHECK(m.sent_stopped() == 1_blk);
  m.handed_over();
  CHECK(m.state() == next::over);
}

TEST_CASE("live migration: nothing dirty, nothing copied while stopped") {
  live_migration m;
  wire w;
  REQUIRE(m.begin(100_tok, 10_blk, w) == next::copying);
  REQUIRE(m.copied(100_tok, w) == next::stop);
  REQUIRE(m.stopped(100_tok, w) == next::hand_over);
  CHECK(w.copies.size() == 1);
  CHECK(m.sent_stopped() == 0_blk);
}

TEST_CASE("live migration: decoding as fast as the link ends the rounds") {
  // Each round finds as many dirty blocks as the one before had to send.
  live_migration m{{.stop_below = 0_blk, .most_rounds = 100}};
  wire w;
  REQUIRE(m.begin(160_tok, 1000_blk, w) == next::copying);
  REQUIRE(m.copied(320_tok, w) == next::stop);  // 10 blocks and 10 blocks
  CHECK(m.rounds() == 1);
}

TEST_CASE("live migration: rounds are bounded") {
  live_migration m{{.stop_below = 0_blk, .most_rounds = 3}};
  wire w;
  tokens n = 16'000_tok;
  REQUIRE(m.begin(n, 100'000_blk, w) == next::copying);
  std::int64_t growth = 8000;
  while (m.state() == next::copying) {
    n += tokens{growth};
    growth /= 2;
    static_cast<void>(m.copied(n, w));
  }
  CHECK(m.state() == next::stop);
  CHECK(m.rounds() == 3);
}

TEST_CASE("live migration: the room at the target") {
  wire w;
  live_migration too_small;
  CHECK(too_small.begin(161_tok, 10_blk, w) == next::over);
  CHECK(w.copies.empty());

  // 10 dirty blocks and room for 5 more: another round would not fit, so it stops.
  live_migration cramped;
  REQUIRE(cramped.begin(1600_tok, 115_blk, w) == next::copying);
  REQUIRE(cramped.copied(1760_tok, w) == next::stop);
  CHECK(cramped.stopped(1840_tok, w) == next::copying);
  CHECK(cramped.copied(1840_tok, w) == next::hand_over);

  live_migration outgrown;
  REQUIRE(outgrown.begin(1600_tok, 101_blk, w) == next::copying);
  REQUIRE(outgrown.copied(1616_tok, w) == next::stop);
  CHECK(outgrown.stopped(1617_tok, w) == next::over);
  // Another that does not begin has stopped nothing.
  live_migration other = outgrown;
  CHECK(outgrown.abort());  // it stands still and must go on
  CHECK(other.begin(1600_tok, 10_blk, w) == next::over);
  CHECK_FALSE(other.abort());
}

TEST_CASE("live migration: an abort at any moment says whether decoding had stopped, and another can begin") {
  wire w;
  live_migration m;
  CHECK_FALSE(m.abort());
  REQUIRE(m.begin(1000_tok, 100_blk, w) == next::copying);
  CHECK_FALSE(m.abort());
  REQUIRE(m.begin(1000_tok, 100_blk, w) == next::copying);
  CHECK(w.copies.back() == block_range{0_blk, 63_blk});
  REQUIRE(m.copied(1010_tok, w) == next::stop);
  CHECK(m.abort());  // the engine may have stopped it already
  CHECK_FALSE(m.abort());
  REQUIRE(m.begin(1010_tok, 100_blk, w) == next::copying);
  REQUIRE(m.copied(1011_tok, w) == next::stop);
  REQUIRE(m.stopped(1012_tok, w) == next::copying);
  CHECK(m.abort());
  REQUIRE(m.begin(1012_tok, 100_blk, w) == next::copying);
  REQUIRE(m.copied(1012_tok, w) == next::stop);
  REQUIRE(m.stopped(1012_tok, w) == next::hand_over);
  CHECK(m.abort());
  CHECK(m.state() == next::over);
  REQUIRE(m.begin(1012_tok, 100_blk, w) == next::copying);
  REQUIRE(m.copied(1012_tok, w) == next::stop);
  REQUIRE(m.stopped(1012_tok, w) == next::hand_over);
  m.handed_over();
  CHECK_FALSE(m.abort());  // it is another's
}

// The oracle is memory: a sequence with blocks that change under the copy, and a target that must be equal in the end.
TEST_CASE("live migration: what arrives is what was there, for any course of decoding and aborts") {
  std::mt19937 random{3};
  std::size_t moved = 0;
  std::size_t aborted = 0;
  for (int round = 0; round != 5000; ++round) {
    const auto below = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
    const std::int64_t block = 1 + below(20);
    const live_migration::config c{tokens{block}, blocks{below(4)}, static_cast<std::uint32_t>(1 + below(6))};
    live_migration m{c};
    struct memory {
      std::vector<std::int64_t> source;
      std::vector<std::int64_t> target;
      block_range under_way;
      std::int64_t block;
      void copy(const block_range& r) noexcept { under_way = r; }
      /// Only the tokens that were there when the round began are sure to be read. Tokens that follow in its last block
      /// may have come too late.
      void arrive(std::int64_t sent) {
        for (std::int64_t b = under_way.first.count(); b != under_way.last.count(); ++b) {
          for (std::int64_t i = b * block; i != (b + 1) * block && i < sent; ++i) {
            target[static_cast<std::size_t>(i)] = source[static_cast<std::size_t>(i)];
          }
        }
      }
    } kv{{}, {}, {}, block};
    const auto decode = [&](std::int64_t n) {
      for (; n != 0; --n) kv.source.push_back(static_cast<std::int64_t>(random()));
    };
    decode(1 + below(300));
    const auto size = [&] { return static_cast<std::int64_t>(kv.source.size()); };
    const std::int64_t room = (size() + block - 1) / block + below(40);
    kv.target.assign(static_cast<std::size_t>(room * block), -1);
    REQUIRE(m.begin(tokens{size()}, blocks{room}, kv) == next::copying);
    std::int64_t sent = size();
    const auto speed = static_cast<unsigned>(1 + below(60));
    while (m.state() != next::over) {
      if (random() % 40 == 0) {
        static_cast<void>(m.abort());
        ++aborted;
        break;
      }
      switch (m.state()) {
        case next::copying: {
          const bool running = m.sent_stopped() == blocks{};
          if (running) decode(below(speed));
          kv.arrive(sent);
          if (m.copied(tokens{size()}, kv) == next::copying) sent = size();
          break;
        }
        case next::stop:
          decode(below(3));
          if (m.stopped(tokens{size()}, kv) == next::copying) sent = size();
          break;
        case next::hand_over:
          REQUIRE(size() <= room * block);
          kv.target.resize(kv.source.size());
          REQUIRE(kv.target == kv.source);
          ++moved;
          m.handed_over();
          break;
        case next::over: break;
      }
    }
  }
  CHECK(moved > 2500);
  CHECK(aborted > 200);
}

/// A link and an engine: seconds that a sequence stands still, and that its migration takes.
struct course {
  double downtime = 0;
  double total = 0;
  std::uint32_t rounds = 0;
};
course migrate(std::int64_t length, double step, double link) {
  constexpr double token_bytes = 256 * 1024;  // DeepSeek-R1-Distill-Qwen-32B in bf16
  constexpr double latency = 50e-6;
  struct timed {
    double link;
    double took = 0;
    void copy(const block_range& r) noexcept {
      took = latency + static_cast<double>(r.size().count()) * 16 * token_bytes / link;
    }
  } t{link};
  live_migration m;
  course c;
  double since_step = 0;
  std::int64_t n = length;
  const auto pass = [&](double seconds) {
    c.total += seconds;
    for (since_step += seconds; since_step >= step; since_step -= step) ++n;
  };
  next what = m.begin(tokens{n}, blocks{length / 16 + 1000}, t);
  while (what == next::copying) {
    pass(t.took);
    what = m.copied(tokens{n}, t);
  }
  pass(step - since_step);  // the step that is under way ends first
  what = m.stopped(tokens{n}, t);
  if (what == next::copying) {
    c.downtime = t.took;
    c.total += t.took;
    what = m.copied(tokens{n}, t);
  }
  REQUIRE(what == next::hand_over);
  c.rounds = m.rounds();
  return c;
}

TEST_CASE("live migration: the downtime does not depend on the length of the sequence") {
  const double link = 12.5e9;  // 100 Gbit/s
  const double block = 16 * 256 * 1024 / link;
  double least = 1e9;
  double most = 0;
  for (std::int64_t length = 1024; length <= 131'072; length *= 2) {
    for (std::int64_t odd = 0; odd != 16; ++odd) {
      const course c = migrate(length + odd, 0.03, link);
      INFO(length + odd << " tokens: stopped for " << c.downtime << " s of " << c.total);
      CHECK(c.downtime <= 3 * block + 51e-6);  // stop_below and the block of the last step
      CHECK(c.rounds <= 3);
      least = std::min(least, c.downtime);
      most = std::max(most, c.downtime);
    }
  }
  CHECK(least > 0);
  CHECK(most / least < 3.0);
  // Stop and copy would grow with the length: a hundred times the downtime at 128k tokens.
  const course longest = migrate(131'072, 0.03, link);
  CHECK(131'072 / 16 * block > 100 * longest.downtime);
  // And the migration as a whole takes little longer than the bare copy.
  CHECK(longest.total < 1.05 * 131'072 / 16 * block);
}

TEST_CASE("live migration: a link that is slower than decoding still ends, with a longer stop") {
  const double slow = 256 * 1024 * 20.0;  // 20 tokens a second; the sequence grows by 33
  const course c = migrate(2048, 0.03, slow);
  CHECK(c.rounds <= 8);
  CHECK(c.downtime > 1.0);
}

TEST_CASE("live migration: no allocation") {
  wire w;
  live_migration m;
  tessera_test::no_allocation guard;
  static_cast<void>(m.begin(1000_tok, 100_blk, w));
  static_cast<void>(m.copied(1010_tok, w));
  static_cast<void>(m.stopped(1011_tok, w));
  static_cast<void>(m.copied(1011_tok, w));
  m.handed_over();
  const std::size_t allocations = guard.allocations();
  CHECK(allocations == 0);
}

}  // namespace
