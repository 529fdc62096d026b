// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What unchecked builds do with a row that is not in use and a block size of 0: nothing is read or written.

#undef TESSERA_CHECKED
#define TESSERA_CHECKED 0

#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/block_table.hpp>
#include <tessera/kv/hash_chain.hpp>

#include "support/catch.hpp"

#include <array>
#include <cstdint>

namespace {

using namespace tessera;
using namespace tessera::literals;

}  // namespace

TEST_CASE("unchecked, a block table ignores a row that is not in use") {
  auto storage = storage_for<kv::block_table>({.rows = 1, .blocks_per_row = 4, .block_size = 16_tok});
  arena memory{storage.memory()};
  kv::block_table table{memory, {.rows = 1, .blocks_per_row = 4, .block_size = 16_tok}};
  const std::uint32_t row = table.acquire_row();
  REQUIRE(table.extend(row, 2).size() == 2);
  const std::uint32_t none = table.acquire_row();
  REQUIRE(none == no_index);
  for (const std::uint32_t r : {none, std::uint32_t{1}}) {
    CHECK(table.row(r).empty());
    CHECK(table.size(r) == 0);
    CHECK(table.extend(r, 1).empty());
    CHECK(table.sent(r) == 0);
    CHECK(table.sent_size(r) == 0);
    CHECK(table.unread_from(r) == 0);
    CHECK_FALSE(table.is_cut(r));
    table.truncate(r, 0);
    table.replace(r, 0, kv::block_id{7});
    table.mark_sent(r);
  }
  // Nor does one reach past the end of a row in use.
  table.replace(row, 2, kv::block_id{7});
  table.truncate(row, 3);
  CHECK(table.size(row) == 2);
  CHECK(ok(table.release_row(row)));
  CHECK(table.row(row).empty());
}

TEST_CASE("unchecked, blocks of no tokens have no hashes") {
  const std::array<std::int32_t, 4> token{1, 2, 3, 4};
  std::array<std::uint64_t, 4> short_hashes{};
  std::array<kv::hash128, 4> long_hashes{};
  CHECK(kv::hash_chain(token, 0, short_hashes) == 0);
  CHECK(kv::hash_chain(token, 0, long_hashes, kv::hash128{}) == 0);
}
