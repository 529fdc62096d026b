// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The attention kernels on the emulated device, against softmax attention in double precision, and against themselves.
// A query's result must be the same bits however its sequence was cut.
#include "cuda/attention_case.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace test;
namespace emulation = cuda_decode::device::emulation;

constexpr std::size_t plenty = 4096;

/// Streams, blocks and warps in another order, and copies early or late.
struct disorder {
  explicit disorder(std::uint64_t seed) {
    emulation::order(emulation::random, seed);
    emulation::copies_arrive_late = seed % 2 == 0;
  }
  ~disorder() {
    emulation::order(emulation::lazy);
    emulation::copies_arrive_late = true;
  }
};

bool same(const std::vector<bf16>& a, const std::vector<bf16>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](bf16 x, bf16 y) { return to_float(x) == to_float(y); });
}

// The rows of a result that belong to tokens [from, from + count) of its batch.
std::vector<bf16> part(const attention_case& c, const std::vector<bf16>& out, std::int32_t from, std::int32_t count) {
  const auto width = c.query_heads() * c.shape.head_dim;
  return {out.begin() + from * width, out.begin() + (from + count) * width};
}

}  // namespace

TEST_CASE("decoding rows of every small length", "[cuda]") {
  for (const std::int32_t dim : {64, 128}) {
    for (const std::int32_t group : {1, 2, 3, 4, 8}) {
      const attention_shape shape{dim, group, 2, dim == 64 ? 16 : 32};
      std::vector<batch_row> rows;
      for (const std::int32_t length : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200}) {
        rows.push_back({length - 1, 1});
      }
      const attention_case c{shape, rows, static_cast<std::uint64_t>(dim + group)};
      const auto r = run_attention(c, {.blocks = 0}, plenty);
      INFO("dim " << dim << " group " << group);
      CHECK(attention_error(c, r.out) < 1);
      CHECK(r.counts.merges == 0);
    }
  }
}

TEST_CASE("the tolerance tells one key more or less", "[cuda]") {
  const attention_case c{{64, 3, 2, 16}, {{40, 1}, {9, 30}, {199, 1}}, 3};
  const auto r = run_attention(c, {.blocks = 0}, plenty);
  CHECK(attention_error(c, r.out) < 1);
  CHECK(attention_error(c, r.out, 1) > 4);
  CHECK(attention_error(c, r.out, -1) > 4);
}

TEST_CASE("random batches: prefill and decode, split and whole, in any order", "[cuda]") {
  std::mt19937_64 random{20};
  const auto below = [&](int n) { return static_cast<std::int32_t>(random() % static_cast<unsigned>(n)); };
  std::size_t merged = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const std::int32_t groups[]{1, 2, 3, 4, 8, 5};
    const std::int32_t block_sizes[]{16, 32, 48};
    const attention_shape shape{seed % 2 == 0 ? 128 : 64, groups[seed % 6], 1 + below(2), block_sizes[seed % 3]};
    std::vector<batch_row> rows;
    for (std::int32_t n = 1 + below(5); n-- != 0;) {
      const bool decodes = below(3) == 0;
      rows.push_back({below(2) * below(300), decodes ? 1 : below(below(3) == 0 ? 100 : 20)});
    }
    rows.push_back({below(400), 1});
    const attention_case c{shape, rows, seed};
    const disorder now{seed};
    const attention_settings settings{.split = seed % 3 == 0 ? split_policy::uniform : split_policy::balanced,
                                      .blocks = 1 + below(40),
                                      .chunk = 64 * (1 + below(3))};
    const auto r = run_attention(c, settings, seed % 4 == 0 ? static_cast<std::size_t>(below(12)) : plenty, seed);
    INFO("seed " << seed);
    CHECK(attention_error(c, r.out) < 1);
    merged += static_cast<std::size_t>(r.counts.merges);
  }
  CHECK(merged > 20);
}

TEST_CASE("only decoding rows, split in both ways", "[cuda]") {
  for (const split_policy split : {split_policy::balanced, split_policy::uniform}) {
    const attention_case c{{128, 3, 2, 16}, {{699, 1}, {3, 1}, {64, 1}, {127, 1}}, 5};
    const auto r = run_attention(c, {.split = split, .blocks = 100, .chunk = 128}, plenty, 9);
    CHECK(attention_error(c, r.out) < 1);
    CHECK(r.counts.merges > 0);
  }
}

TEST_CASE("long sequences that are not split", "[cuda]") {
  for (const std::int32_t chunk : {64, 512}) {
    const attention_case c{{64, 3, 1, 16}, {{1662, 1}, {1540, 70}, {1024, 5}}, 14};
    const auto r = run_attention(c, {.blocks = 1, .chunk = chunk}, 0);
    CHECK(r.counts.merges == 0);
    CHECK(attention_error(c, r.out) < 1);
  }
  const attention_case decoding{{128, 4, 1, 32}, {{1662, 1}, {1023, 1}}, 15};
  CHECK(attention_error(decoding, run_attention(decoding, {.blocks = 1}, 0).out) < 1);
}

TEST_CASE("a query's bits depend on nothing but its sequence", "[cuda]") {
  for (const std::int32_t dim : {64, 128}) {
    for (const std::int32_t group : {1, 3, 4}) {
      const std::int32_t length = 150;
      const attention_settings settings{.blocks = 1, .chunk = 64};
      const attention_case whole{{dim, group, 1, 16}, {{0, length}}, 11};
      const auto expected = run_attention(whole, settings, 0);  // one prompt, in one piece, nothing split
      REQUIRE(expected.counts.merges == 0);
      REQUIRE(attention_error(whole, expected.out) < 1);

      // In pieces: parts of wide tiles, narrow tiles of some queries, single queries; with and without partials.
      std::int32_t first = 0;
      for (const std::int32_t count : {1, 2, 61, 1, 17, 5, 1, 40, 21, 1}) {
        attention_case piece = whole;
        piece.rows = {{first, count}};
        piece.indptr[1] = (first + count + 15) / 16;
        piece.q.assign(whole.q.begin() + first * whole.q_stride, whole.q.begin() + (first + count) * whole.q_stride);
        for (const std::int32_t blocks : {1, 1000}) {
          for (const std::size_t partials : {std::size_t{0}, plenty}) {
            attention_settings cut = settings;
            cut.blocks = blocks;
            const auto got = run_attention(piece, cut, partials);
            INFO("dim " << dim << " group " << group << " first " << first << " count " << count);
            CHECK(same(got.out, part(whole, expected.out, first, count)));
          }
        }
        first += count;
      }
      REQUIRE(first == length);
    }
  }
}

TEST_CASE("company changes nothing", "[cuda]") {
  const attention_settings settings{.blocks = 0, .chunk = 64};
  const std::vector<batch_row> rows{{300, 1}, {5, 1}, {0, 40}, {100, 33}, {129, 1}};
  const attention_case all{{64, 4, 2, 16}, rows, 6};
  const auto together = run_attention(all, settings, plenty, 4);
  std::int32_t token = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    attention_case alone = all;
    alone.rows = {rows[i]};
    alone.indptr = {0, all.indptr[i + 1] - all.indptr[i]};
    alone.indices.assign(all.indices.begin() + all.indptr[i], all.indices.begin() + all.indptr[i + 1]);
    alone.q.assign(all.q.begin() + token * all.q_stride, all.q.begin() + (token + rows[i].count) * all.q_stride);
    CHECK(same(run_attention(alone, settings, plenty).out, part(all, together.out, token, rows[i].count)));
    token += rows[i].count;
  }
}

TEST_CASE("great scores", "[cuda]") {
  // One key takes it all; differences of scores are far beyond what exp can hold.
  for (const double sharpness : {100.0, 1e4, 1e12, 1e30}) {
    const attention_case c{{64, 3, 1, 16}, {{90, 1}, {20, 30}, {199, 1}}, 8, sharpness};
    const auto r = run_attention(c, {.blocks = 50, .chunk = 64}, plenty);
    INFO(sharpness);
    CHECK(std::all_of(r.out.begin(), r.out.end(), [](bf16 x) { return std::abs(to_float(x)) < 10; }));
    if (sharpness < 1e6) CHECK(attention_error(c, r.out) < 1);
  }
}

TEST_CASE("nothing to do", "[cuda]") {
  const attention_case c{{64, 3, 1, 16}, {{20, 0}, {20, 1}, {0, 0}}, 8};
  CHECK(attention_error(c, run_attention(c, {.blocks = 1}, plenty).out) < 1);
  const attention_case none{{64, 3, 1, 16}, {}, 8};
  CHECK(run_attention(none, {.blocks = 1}, plenty).counts.items == 0);
  CHECK_THROWS_AS(cuda_decode::attention{96}, cuda_decode::device_error);
}
