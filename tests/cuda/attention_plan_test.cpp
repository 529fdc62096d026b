// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The work list of attention: every query meets every key that it sees once, and the arrays are large enough.
#include <kernels/attention_plan.hpp>
#include <kernels/kv_layout.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <vector>

namespace {

using namespace cuda_decode;

struct plan {
  attention_counts n;
  std::vector<attention_item> items;
  std::vector<attention_merge> merges;
};

plan make(const attention_settings& s, const std::vector<batch_row>& rows, std::size_t partials) {
  std::vector<std::int32_t> indptr{0};
  std::size_t tokens = 0;
  std::int32_t longest = 1;
  for (const batch_row& r : rows) {
    indptr.push_back(indptr.back() + (r.first + r.count + 15) / 16);
    tokens += static_cast<std::size_t>(r.count);
    longest = std::max(longest, r.first + r.count);
  }
  const auto most = attention_bounds(s, rows.size(), tokens, static_cast<std::size_t>(longest), partials);
  plan p{{}, std::vector<attention_item>(most.items), std::vector<attention_merge>(most.merges)};
  {
    const tessera_test::no_allocation guard;
    p.n = plan_attention(s, rows, indptr, p.items, p.merges, most.partials);
    const std::size_t allocations = guard.allocations();
    REQUIRE(allocations == 0);
  }
  REQUIRE(static_cast<std::size_t>(p.n.items) <= most.items);
  REQUIRE(static_cast<std::size_t>(p.n.merges) <= most.merges);
  REQUIRE(static_cast<std::size_t>(p.n.partials) <= most.partials);
  p.items.resize(static_cast<std::size_t>(p.n.items));
  p.merges.resize(static_cast<std::size_t>(p.n.merges));

  // Each (token, key) once, and each sum where a merge looks for it.
  std::vector<std::set<std::int32_t>> parts(tokens);  // partials of each token
  std::vector<std::int64_t> keys(tokens);
  std::set<std::int32_t> slots;
  for (const attention_item& i : p.items) {
    const auto next = std::upper_bound(indptr.begin(), indptr.end(), i.table);
    // Rows of the same place in the table have no blocks, so no items.
    const auto row = static_cast<std::size_t>(next - indptr.begin() - 1);
    std::int32_t first_token = 0;
    for (std::size_t r = 0; r < row; ++r) first_token += rows[r].count;
    REQUIRE(i.queries > 0);
    REQUIRE(i.queries * s.group <= wide_rows);
    REQUIRE(i.token - first_token == i.position - rows[row].first);
    REQUIRE(i.token >= first_token);
    REQUIRE(i.token + i.queries <= first_token + rows[row].count);
    REQUIRE(i.begin < i.end);
    REQUIRE(i.begin % attention_stage == 0);
    REQUIRE(i.chunk % attention_stage == 0);
    const std::int32_t last = i.position + i.queries;
    REQUIRE((i.end == last || (i.end < last && i.end % attention_stage == 0)));
    for (std::int32_t q = 0; q < i.queries; ++q) {
      const auto token = static_cast<std::size_t>(i.token + q);
      keys[token] += i.end - i.begin;
      if (i.partial < 0) {
        REQUIRE(i.begin == 0);
        REQUIRE(i.end == last);
        REQUIRE(parts[token].empty());
      } else {
        REQUIRE(i.end - i.begin <= i.chunk);
        REQUIRE(i.begin % i.chunk == 0);
        REQUIRE(slots.insert(i.partial + q).second);
        parts[token].insert(i.partial + q);
      }
    }
  }
  std::set<std::int32_t> merged;
  for (const attention_merge& m : p.merges) {
    REQUIRE(merged.insert(m.token).second);
    std::set<std::int32_t> expected;
    for (std::int32_t c = 0; c < m.chunks; ++c) expected.insert(m.partial + c * m.stride);
    REQUIRE(m.chunks > 1);
    REQUIRE(expected == parts[static_cast<std::size_t>(m.token)]);
  }
  std::size_t token = 0;
  for (const batch_row& r : rows) {
    for (std::int32_t c = 0; c < r.count; ++c, ++token) {
      // No more than its tile sees, and all that it sees itself: counted once, for parts do not overlap.
      REQUIRE(keys[token] > r.first + c);
      REQUIRE(keys[token] <= r.first + r.count);
      REQUIRE(parts[token].empty() == (merged.count(static_cast<std::int32_t>(token)) == 0));
    }
  }
  REQUIRE(static_cast<std::int32_t>(slots.size()) == p.n.partials);
  if (!slots.empty()) REQUIRE(*slots.rbegin() == p.n.partials - 1);
  return p;
}

}  // namespace

TEST_CASE("random batches are covered", "[cuda]") {
  std::mt19937 random{1};
  const auto below = [&](unsigned n) { return static_cast<std::int32_t>(random() % n); };
  std::int64_t split = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<batch_row> rows;
    for (std::int32_t n = below(12); n != 0; --n) {
      rows.push_back({below(2) * below(1U << below(13)), below(3) == 0 ? below(1U << below(9)) : 1});
    }
    const attention_settings s{.split = below(2) == 0 ? split_policy::uniform : split_policy::balanced,
                               .group = 1 + below(8),
                               .kv_heads = 1 + below(8),
                               .blocks = 1 + below(600),
                               .chunk = 64 * (1 + below(8))};
    split += make(s, rows, below(3) == 0 ? static_cast<std::size_t>(below(20)) : SIZE_MAX).n.merges;
  }
  CHECK(split > 1000);
}

TEST_CASE("balanced chunks have one length, uniform ones one number", "[cuda]") {
  const std::vector<batch_row> rows{{8191, 1}, {511, 1}, {512, 1}, {99, 1}};
  attention_settings s{.group = 4, .kv_heads = 1, .blocks = 64};
  const plan balanced = make(s, rows, SIZE_MAX);
  CHECK(balanced.n.items == 16 + 1 + 2 + 1);
  CHECK(balanced.n.merges == 2);
  CHECK(balanced.n.partials == 18);

  s.split = split_policy::uniform;
  const plan uniform = make(s, rows, SIZE_MAX);
  const auto of_first = std::count_if(uniform.items.begin(), uniform.items.end(), [](auto& i) { return i.token == 0; });
  // 14 chunks for each of 4 rows are 87 percent of 64 blocks; of whole stages they are 640 long, and 13.
  CHECK(of_first == 13);
  CHECK(uniform.items.front().end - uniform.items.front().begin == 640);
  for (const attention_item& i : uniform.items) {
    if (i.token == 1) CHECK(i.chunk == 64);
  }
}

TEST_CASE("a full device is not split further by uniform", "[cuda]") {
  const std::vector<batch_row> rows(66, {2047, 1});
  CHECK(make({.split = split_policy::uniform, .group = 3, .kv_heads = 8, .blocks = 528}, rows, SIZE_MAX).n.items == 66);
}

TEST_CASE("without room for partials sequences stay whole", "[cuda]") {
  const std::vector<batch_row> rows{{4095, 1}, {4095, 1}, {100, 1}};
  const plan p = make({.group = 4, .kv_heads = 8, .blocks = 528}, rows, 12);
  CHECK(p.n.partials == 8);
  CHECK(p.n.items == 8 + 1 + 1);
  CHECK(make({.group = 4, .kv_heads = 8, .blocks = 528}, rows, 0).n.items == 3);
}

TEST_CASE("a short prompt on a long context goes in parts, a long one does not", "[cuda]") {
  const attention_settings s{.group = 4, .kv_heads = 8, .blocks = 264};
  std::vector<batch_row> rows(64);
  rows[3] = {8192, 32};
  CHECK(make(s, rows, SIZE_MAX).n.items == 2 * 17);
  rows[3].count = 4096;
  CHECK(make(s, rows, SIZE_MAX).n.items == 256);
}

TEST_CASE("the block of a token without a division", "[cuda]") {
  for (std::int32_t size = 16; size <= 4096; size += 16) {
    const kv_layout l = make_kv_layout(2, 2, 64, size);
    const auto tiles = static_cast<std::uint32_t>(size / kv_tile);
    for (std::uint32_t tile = 0; tile < 1U << 20; tile += 1 + tile / 97) {
      REQUIRE((std::uint64_t{tile} * l.inverse >> 31) == tile / tiles);
    }
    for (std::uint32_t block = 1; block * tiles < 1U << 20; block += 1 + block / 53) {
      REQUIRE((std::uint64_t{block * tiles - 1} * l.inverse >> 31) == block - 1);
      REQUIRE((std::uint64_t{block * tiles} * l.inverse >> 31) == block);
    }
  }
}
