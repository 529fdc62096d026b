// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Block tables: rows of block ids, joined for the attention kernels of one step.

#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/block_table.hpp>

#include <cstdio>
#include <initializer_list>
#include <span>

namespace {

using tessera::kv::block_table;

void append(block_table& table, std::uint32_t row, std::initializer_list<tessera::kv::block_id> ids) {
  const auto room = table.extend(row, ids.size());
  for (std::size_t i = 0; i != room.size(); ++i) room[i] = ids.begin()[i];
}

void print(const char* name, std::span<const std::int32_t> values) {
  std::printf("%-14s", name);
  for (const auto v : values) std::printf(" %d", v);
  std::printf("\n");
}

void print(const tessera::kv::csr_view& batch) {
  print("indptr", batch.indptr);
  print("indices", batch.indices);
  print("last_page_len", batch.last_page_len);
}

}  // namespace

int main() {
  using namespace tessera::literals;

  auto storage = tessera::storage_for<block_table>({.rows = 4, .blocks_per_row = 8, .block_size = 16_tok});
  tessera::arena memory{storage.memory()};
  block_table table{memory, storage.limits()};

  const auto a = table.acquire_row();
  const auto b = table.acquire_row();
  append(table, a, {10, 11});
  append(table, b, {20, 21, 22});

  table.begin_batch();
  table.add(a, 32_tok);
  table.add(b, 33_tok);
  print(table.view());

  // One step later, a has outgrown its second block; b only moves.
  append(table, a, {12});
  table.begin_batch();
  table.add(a, 33_tok);
  table.add(b, 34_tok);
  print(table.view());
}

/* output:
indptr         0 2 5
indices        10 11 20 21 22
last_page_len  16 1
indptr         0 3 6
indices        10 11 12 20 21 22
last_page_len  1 2
*/
