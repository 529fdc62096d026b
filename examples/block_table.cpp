// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Block tables: rows of block ids, and how they are joined for the attention kernels of one step.

#include <tessera/kv/csr_tables.hpp>

#include <cstddef>
#include <cstdio>
#include <initializer_list>
#include <span>
#include <vector>

namespace {

using tessera::kv::block_table;
using tessera::kv::csr_tables;

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

  // Both take their arrays from one buffer.
  const block_table::limits limits{.rows = 4, .blocks_per_row = 8, .block_size = 16_tok};
  std::vector<std::byte> buffer(block_table::required_bytes(limits) + csr_tables::required_bytes(limits));
  tessera::arena memory{buffer};
  block_table table{memory, limits};
  csr_tables batch{memory, limits};

  const auto a = table.acquire_row();
  const auto b = table.acquire_row();
  append(table, a, {10, 11});
  append(table, b, {20, 21, 22});

  batch.begin();
  batch.add(table, a, 32_tok);
  batch.add(table, b, 33_tok);
  print(batch.view(table));

  // One step later, a has outgrown its second block; b only moves.
  append(table, a, {12});
  batch.begin();
  batch.add(table, a, 33_tok);
  batch.add(table, b, 34_tok);
  print(batch.view(table));
}

/* output:
indptr         0 2 5
indices        10 11 20 21 22
last_page_len  16 1
indptr         0 3 6
indices        10 11 12 20 21 22
last_page_len  1 2
*/
