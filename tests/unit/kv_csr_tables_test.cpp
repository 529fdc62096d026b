// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/csr_tables.hpp>

#include <algorithm>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

namespace {

using tessera::no_index;
using tessera::status;
using tessera::tokens;
using tessera::kv::block_id;
using tessera::kv::block_table;
using tessera::kv::csr_tables;
using tessera::kv::csr_view;

/// Rows, and what joins them.
struct table_on_heap {
  explicit table_on_heap(const block_table::limits& l)
      : buffer(block_table::required_bytes(l) + csr_tables::required_bytes(l) + 64),
        memory{buffer},
        table{memory, l},
        joined{memory, l} {}
  void begin_batch() { joined.begin(); }
  void add(std::uint32_t row, tokens kv_length) { joined.add(table, row, kv_length); }
  csr_view view() { return joined.view(table); }

  std::vector<std::byte> buffer;
  tessera::arena memory;
  block_table table;
  csr_tables joined;
};

std::vector<block_id> copy(std::span<const block_id> s) { return {s.begin(), s.end()}; }
std::vector<int> ints(std::span<const std::int32_t> s) { return {s.begin(), s.end()}; }

void fill(block_table& t, std::uint32_t row, std::initializer_list<block_id> ids) {
  const auto out = t.extend(row, ids.size());
  REQUIRE(out.size() == ids.size());
  std::copy(ids.begin(), ids.end(), out.begin());
}

TEST_CASE("csr_tables: the batch has the shapes of paged attention kernels", "[kv]") {
  table_on_heap t{{.rows = 4, .blocks_per_row = 4, .block_size = tokens{16}}};
  CHECK(ints(t.view().indptr) == std::vector<int>{0});
  const auto a = t.table.acquire_row();
  const auto b = t.table.acquire_row();
  const auto c = t.table.acquire_row();
  fill(t.table, a, {10, 11, 12});  // one more than the 32 tokens need: a lookahead slot
  fill(t.table, b, {20});
  fill(t.table, c, {30, 31, 32});
  t.begin_batch();
  t.add(c, tokens{33});
  t.add(a, tokens{32});
  t.add(b, tokens{1});
  const csr_view v = t.view();
  CHECK(ints(v.indptr) == std::vector<int>{0, 3, 5, 6});
  CHECK(ints(v.indices) == std::vector<int>{30, 31, 32, 10, 11, 20});
  CHECK(ints(v.last_page_len) == std::vector<int>{1, 16, 1});

  t.begin_batch();
  CHECK(t.view().indices.empty());
  CHECK(t.view().indptr.size() == 1);
  CHECK(t.view().last_page_len.empty());
}

TEST_CASE("csr_tables: last_page_len lies in 1 to block_size for every length", "[kv]") {
  for (const std::int64_t size : {1, 2, 3, 16, 24, 64}) {
    table_on_heap t{{.rows = 1, .blocks_per_row = 5, .block_size = tokens{size}}};
    const auto r = t.table.acquire_row();
    fill(t.table, r, {0, 1, 2, 3, 4});
    for (std::int64_t length = 1; length <= 5 * size; ++length) {
      t.begin_batch();
      t.add(r, tokens{length});
      const csr_view v = t.view();
      REQUIRE(v.last_page_len[0] >= 1);
      REQUIRE(v.last_page_len[0] <= size);
      REQUIRE((v.indptr[1] - 1) * size + v.last_page_len[0] == length);
    }
  }
}

// The joined array is written to behind the table's back: what a step leaves alone keeps the mark.
TEST_CASE("csr_tables: a step writes only what changed", "[kv]") {
  table_on_heap t{{.rows = 4, .blocks_per_row = 4, .block_size = tokens{16}}};
  const auto a = t.table.acquire_row();
  const auto b = t.table.acquire_row();
  const auto c = t.table.acquire_row();
  fill(t.table, a, {10, 11});
  fill(t.table, b, {20, 21});
  fill(t.table, c, {30, 31});
  const auto step = [&](std::initializer_list<std::pair<std::uint32_t, int>> entries) {
    t.begin_batch();
    for (const auto& [row, length] : entries) t.add(row, tokens{length});
    return t.view();
  };
  const auto mark = [](csr_view v) {
    for (std::size_t i = 0; i != v.indices.size(); ++i) {
      const_cast<std::int32_t&>(v.indices[i]) = 1000 + static_cast<int>(i);
    }
  };
  mark(step({{a, 20}, {b, 20}, {c, 20}}));

  SECTION("nothing, if nothing changed") {
    CHECK(ints(step({{a, 21}, {b, 32}, {c, 17}}).indices) == std::vector<int>{1000, 1001, 1002, 1003, 1004, 1005});
  }
  SECTION("the tail of the entry that grew; its followers move") {
    fill(t.table, b, {22});
    CHECK(ints(step({{a, 20}, {b, 33}, {c, 20}}).indices) == std::vector<int>{1000, 1001, 1002, 1003, 22, 1004, 1005});
  }
  SECTION("an entry that left: its followers move") {
    CHECK(ints(step({{a, 20}, {c, 20}}).indices) == std::vector<int>{1000, 1001, 1004, 1005});
    CHECK(ints(step({{a, 20}, {b, 20}, {c, 20}}).indices) == std::vector<int>{1000, 1001, 20, 21, 1004, 1005});
  }
  SECTION("from the replaced block on") {
    t.table.replace(b, 1, 77);
    CHECK(ints(step({{a, 20}, {b, 20}, {c, 20}}).indices) == std::vector<int>{1000, 1001, 1002, 77, 1004, 1005});
  }
  SECTION("all of a row that changed hands") {
    REQUIRE(t.table.release_row(b) == status::ok);
    REQUIRE(t.table.acquire_row() == b);
    fill(t.table, b, {40, 41});
    CHECK(ints(step({{a, 20}, {b, 20}, {c, 20}}).indices) == std::vector<int>{1000, 1001, 40, 41, 1004, 1005});
  }
  SECTION("from where a row was cut and grew again") {
    t.table.truncate(a, 1);
    fill(t.table, a, {50});
    CHECK(ints(step({{a, 20}, {b, 20}, {c, 20}}).indices) == std::vector<int>{1000, 50, 1002, 1003, 1004, 1005});
  }
  SECTION("what a shorter kv_length hid is written again") {
    CHECK(ints(step({{a, 16}, {b, 20}, {c, 20}}).indices) == std::vector<int>{1000, 1002, 1003, 1004, 1005});
    CHECK(ints(step({{a, 20}, {b, 20}, {c, 20}}).indices) == std::vector<int>{1000, 11, 1002, 1003, 1004, 1005});
  }
}

// Against joining the rows anew at every step.
TEST_CASE("csr_tables: agrees with a plain join through random steps", "[kv]") {
  for (const std::int64_t block_size : {16, 7}) {
    for (std::uint32_t seed = 1; seed != 7; ++seed) {
      std::mt19937 random{seed};
      const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
      constexpr std::size_t rows = 12;
      constexpr std::size_t stride = 9;
      table_on_heap t{{.rows = rows, .blocks_per_row = stride, .block_size = tokens{block_size}}};
      std::vector<std::vector<block_id>> model(rows);
      std::vector<std::uint32_t> live;  // in the order of the batch
      block_id next_id = 0;

      for (int step = 0; step != 1500; ++step) {
        // A few changes, then a batch: mostly the same rows in the same order, as in an engine; sometimes anything.
        for (std::size_t changes = below(4); changes-- != 0;) {
          const std::size_t what = below(10);
          if (what < 2 || live.empty()) {
            const std::uint32_t r = t.table.acquire_row();
            REQUIRE((r == no_index) == (live.size() == rows));
            if (r == no_index) continue;
            live.insert(
                live.begin() + static_cast<std::ptrdiff_t>(below(2) == 0 ? live.size() : below(live.size() + 1)), r);
            model[r].clear();
          }
          const std::size_t at = below(live.size());
          const std::uint32_t r = live[at];
          if (what == 2) {
            REQUIRE(t.table.release_row(r) == status::ok);
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
          } else if (what == 3) {
            const std::size_t n = below(model[r].size() + 1);
            t.table.truncate(r, n);
            model[r].resize(n);
          } else if (what == 4 && !model[r].empty()) {
            const std::size_t i = below(model[r].size());
            t.table.replace(r, i, next_id);
            model[r][i] = next_id++;
          } else if (what == 5) {
            std::shuffle(live.begin(), live.end(), random);
          } else {
            const std::size_t n = below(4);
            const auto out = t.table.extend(r, n);
            REQUIRE(out.size() == (model[r].size() + n <= stride ? n : 0));
            for (block_id& id : out) {
              id = next_id;
              model[r].push_back(next_id++);
            }
          }
          for (const std::uint32_t row : live) REQUIRE(copy(t.table.row(row)) == model[row]);
        }

        t.begin_batch();
        std::vector<int> indptr{0};
        std::vector<int> indices;
        std::vector<int> last;
        const auto add = [&](std::uint32_t r) {
          if (model[r].empty() || last.size() == rows) return;
          const std::size_t used = below(4) == 0 ? 1 + below(model[r].size()) : model[r].size();
          const auto in_last = static_cast<int>(1 + below(static_cast<std::size_t>(block_size)));
          t.add(r, tokens{static_cast<std::int64_t>(used - 1) * block_size + in_last});
          for (std::size_t i = 0; i != used; ++i) indices.push_back(static_cast<int>(model[r][i]));
          indptr.push_back(static_cast<int>(indices.size()));
          last.push_back(in_last);
        };
        for (const std::uint32_t r : live) {
          if (below(12) != 0) add(r);
          if (below(40) == 0) add(r);  // twice in one batch
        }
        if (below(10) == 0) continue;  // dropped before it was joined
        const csr_view v = t.view();
        REQUIRE(ints(v.indptr) == indptr);
        REQUIRE(ints(v.indices) == indices);
        REQUIRE(ints(v.last_page_len) == last);
        REQUIRE(t.view().indices.data() == v.indices.data());
      }
    }
  }
}

TEST_CASE("csr_tables: works in unaligned memory of exactly required_bytes", "[kv]") {
  const block_table::limits limits{.rows = 5, .blocks_per_row = 3};
  std::vector<std::byte> rows(block_table::required_bytes(limits));
  for (std::size_t offset = 0; offset != 65; ++offset) {
    tessera::arena of_rows{rows};
    block_table table{of_rows, limits};
    // An arena is aligned by what takes it: the bytes of all that are in one are added up.
    const std::size_t bytes = tessera::storage_layout{}.add_bytes(csr_tables::required_bytes(limits)).bytes_unaligned();
    std::vector<std::byte> buffer(bytes + offset);
    tessera::arena memory{std::span{buffer}.subspan(offset)};
    csr_tables joined{memory, limits};
    joined.begin();
    for (std::uint32_t i = 0; i != 5; ++i) {
      REQUIRE(table.acquire_row() == i);
      fill(table, i, {i, i, i});
      joined.add(table, i, tokens{48});
    }
    CHECK(joined.view(table).indices.size() == 15);
  }
}

TEST_CASE("csr_tables: no call allocates", "[kv]") {
  table_on_heap t{{.rows = 4, .blocks_per_row = 4}};
  const auto a = t.table.acquire_row();
  const auto b = t.table.acquire_row();
  for (block_id& id : t.table.extend(a, 3)) id = 1;
  for (block_id& id : t.table.extend(b, 4)) id = 2;
  bool fits = true;
  tessera_test::no_allocation guard;
  for (int step = 0; step != 3; ++step) {
    t.begin_batch();
    if (step != 1) t.add(b, tokens{64});
    t.add(a, tokens{16 + step * 16});
    fits &= !t.view().indices.empty();
  }
  const std::size_t allocations = guard.allocations();
  CHECK(allocations == 0);
  CHECK(fits);
}

}  // namespace
