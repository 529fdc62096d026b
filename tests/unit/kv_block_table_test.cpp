// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/block_table.hpp>

#include <algorithm>
#include <span>
#include <vector>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

namespace {

using tessera::no_index;
using tessera::status;
using tessera::tokens;
using tessera::kv::block_id;
using tessera::kv::block_table;

struct table_on_heap {
  explicit table_on_heap(const block_table::limits& l) : storage{tessera::storage_for<block_table>(l)} {}
  tessera::owned_storage<block_table::limits> storage;
  tessera::arena memory{storage.memory()};
  block_table table{memory, storage.limits()};
};

std::vector<block_id> copy(std::span<const block_id> s) { return {s.begin(), s.end()}; }

void fill(block_table& t, std::uint32_t row, std::initializer_list<block_id> ids) {
  const auto out = t.extend(row, ids.size());
  REQUIRE(out.size() == ids.size());
  std::copy(ids.begin(), ids.end(), out.begin());
}

TEST_CASE("block_table: rows are handed out last in, first out, each once", "[kv]") {
  table_on_heap t{{.rows = 3, .blocks_per_row = 2}};
  CHECK(t.table.free_rows() == 3);
  CHECK(t.table.acquire_row() == 0);
  CHECK(t.table.acquire_row() == 1);
  CHECK(t.table.acquire_row() == 2);
  CHECK(t.table.acquire_row() == no_index);
  CHECK(t.table.release_row(3) == status::foreign);
  CHECK(t.table.release_row(1) == status::ok);
  CHECK(t.table.release_row(1) == status::not_allocated);
  CHECK(t.table.release_row(0) == status::ok);
  CHECK(t.table.free_rows() == 2);
  CHECK(t.table.acquire_row() == 0);
  CHECK(t.table.acquire_row() == 1);
}

TEST_CASE("block_table: a row grows to blocks_per_row and not beyond", "[kv]") {
  table_on_heap t{{.rows = 2, .blocks_per_row = 4}};
  const auto r = t.table.acquire_row();
  fill(t.table, r, {5, 6, 7});
  CHECK(t.table.extend(r, 2).empty());
  CHECK(copy(t.table.row(r)) == std::vector<block_id>{5, 6, 7});
  CHECK(t.table.extend(r, 0).empty());
  fill(t.table, r, {8});
  CHECK(copy(t.table.row(r)) == std::vector<block_id>{5, 6, 7, 8});
  CHECK(t.table.extend(r, 1).empty());
  t.table.replace(r, 2, 99);
  t.table.truncate(r, 3);
  CHECK(copy(t.table.row(r)) == std::vector<block_id>{5, 6, 99});
}

TEST_CASE("block_table: opposites in reverse order restore a row", "[kv]") {
  table_on_heap t{{.rows = 3, .blocks_per_row = 4}};
  const auto a = t.table.acquire_row();
  const auto b = t.table.acquire_row();
  fill(t.table, a, {1, 2, 3});
  fill(t.table, b, {4});
  t.table.truncate(a, 1);
  CHECK(t.table.extend(a, 2).size() == 2);
  CHECK(copy(t.table.row(a)) == std::vector<block_id>{1, 2, 3});
  REQUIRE(t.table.release_row(a) == status::ok);
  CHECK(t.table.acquire_row() == a);
  CHECK(t.table.row(a).empty());
  CHECK(t.table.extend(a, 3).size() == 3);
  CHECK(copy(t.table.row(a)) == std::vector<block_id>{1, 2, 3});
}

TEST_CASE("block_table: the matrix is the rows, one behind the other", "[kv]") {
  table_on_heap t{{.rows = 3, .blocks_per_row = 4}};
  const auto a = t.table.acquire_row();
  const auto b = t.table.acquire_row();
  fill(t.table, b, {4, 5});
  fill(t.table, a, {1, 2, 3});
  CHECK(t.table.blocks_per_row() == 4);
  for (const std::uint32_t r : {a, b}) {
    CHECK(t.table.row(r).data() == t.table.matrix() + r * t.table.blocks_per_row());
  }
}

TEST_CASE("block_table: what was told stays told as long as it stays as it was", "[kv]") {
  table_on_heap t{{.rows = 2, .blocks_per_row = 6}};
  const auto r = t.table.acquire_row();
  CHECK(t.table.sent(r) == 0);
  fill(t.table, r, {1, 2, 3});
  CHECK(t.table.sent(r) == 0);
  t.table.mark_sent(r);
  CHECK(t.table.sent(r) == 3);
  fill(t.table, r, {4});
  CHECK(t.table.sent(r) == 3);
  SECTION("growth that is taken back was never told") {
    t.table.truncate(r, 3);
    CHECK(t.table.sent(r) == 3);
  }
  SECTION("what comes where a row was cut is news, whatever was there before") {
    t.table.truncate(r, 1);
    CHECK(t.table.sent(r) == 1);
    fill(t.table, r, {8, 9});
    CHECK(t.table.sent(r) == 1);
  }
  SECTION("another block is news from there on") {
    t.table.replace(r, 1, 9);
    CHECK(t.table.sent(r) == 1);
  }
  SECTION("another owner of the row knows nothing") {
    REQUIRE(t.table.release_row(r) == status::ok);
    REQUIRE(t.table.acquire_row() == r);
    fill(t.table, r, {1, 2, 3});
    CHECK(t.table.sent(r) == 0);
  }
}

TEST_CASE("block_table: works in unaligned memory of exactly required_bytes", "[kv]") {
  const block_table::limits limits{.rows = 5, .blocks_per_row = 3};
  for (std::size_t offset = 0; offset != 65; ++offset) {
    std::vector<std::byte> buffer(block_table::required_bytes(limits) + offset);
    tessera::arena memory{std::span{buffer}.subspan(offset)};
    block_table table{memory, limits};
    for (std::uint32_t i = 0; i != 5; ++i) {
      REQUIRE(table.acquire_row() == i);
      fill(table, i, {i, i, i});
    }
    for (std::uint32_t i = 0; i != 5; ++i) CHECK(copy(table.row(i)) == std::vector<block_id>{i, i, i});
  }
}

TEST_CASE("block_table: no call allocates", "[kv]") {
  table_on_heap t{{.rows = 4, .blocks_per_row = 4}};
  tessera_test::no_allocation guard;
  const auto a = t.table.acquire_row();
  const auto b = t.table.acquire_row();
  bool fits = true;
  for (block_id& id : t.table.extend(a, 3)) id = 1;
  for (block_id& id : t.table.extend(b, 4)) id = 2;
  fits &= t.table.extend(b, 1).empty();
  t.table.mark_sent(a);
  t.table.truncate(a, 1);
  t.table.replace(a, 0, 7);
  fits &= t.table.sent(a) == 0;
  fits &= t.table.release_row(a) == status::ok;
  const std::size_t allocations = guard.allocations();
  CHECK(allocations == 0);
  CHECK(fits);
}

}  // namespace
