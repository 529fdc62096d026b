// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/kv/row_tables.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace {

using namespace tessera;
using kv::block_id;
using kv::block_table;
using kv::row_tables;

static_assert(row_tables::required_bytes({.rows = 1000, .blocks_per_row = 1000}) == 0);

}  // namespace

TEST_CASE("row_tables: shows the rows where they lie, as they are at any moment, and keeps nothing") {
  const block_table::limits limits{.rows = 3, .blocks_per_row = 4};
  std::vector<std::byte> memory(block_table::required_bytes(limits));
  const tessera_test::no_allocation guard;
  arena a{memory};
  block_table table{a, limits};
  row_tables rows{a, limits};
  const auto fill = [&](std::uint32_t row, std::initializer_list<block_id> ids) {
    std::copy(ids.begin(), ids.end(), table.extend(row, ids.size()).begin());
  };
  const std::uint32_t one = table.acquire_row();
  const std::uint32_t two = table.acquire_row();
  fill(two, {5, 6});
  fill(one, {7});
  rows.begin();
  rows.add(table, two, tokens{20}, 2);
  rows.add(table, one, tokens{3}, 1);
  const kv::row_view view = rows.view(table);
  bool right = view.matrix == table.matrix() && view.blocks_per_row == 4;
  right = right && view[one].data() == table.row(one).data() && view[one].size() == 4 && view[one][0] == 7;
  right = right && view[two].data() == table.row(two).data() && view[two][0] == 5 && view[two][1] == 6;
  table.replace(two, 1, 9);
  right = right && view[two][1] == 9;
  const std::size_t allocations = guard.allocations();
  CHECK(right);
  CHECK(allocations == 0);
}
