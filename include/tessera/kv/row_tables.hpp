// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/table_view.hpp>

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// The block tables as the rows of one dense matrix, which exists anyway. An entry's row is its `scheduled::row`. The
/// first ceil(KV length / block size) entries of a row are the request's; the entries behind them are unspecified.
struct row_view {
  const block_id* matrix = nullptr;  ///< [rows][blocks_per_row].
  std::size_t blocks_per_row = 0;    ///< Distance between two rows.

  /// The entries of a row, up to its capacity.
  [[nodiscard]] std::span<const block_id> operator[](std::uint32_t row) const noexcept {
    return {matrix + row * blocks_per_row, blocks_per_row};
  }
};

/// Shows rows as they lie in memory. A step costs nothing.
/// When to use: kernels take a padded table and the row of each entry; or the matrix is copied to the device as it is.
class row_tables {
 public:
  using limits = block_table::limits;  ///< Capacities; fixed at construction.
  using view_type = row_view;          ///< The view of a plan.

  /// Takes no memory.
  [[nodiscard]] static constexpr std::size_t required_bytes(const block_table::limits& /*l*/) noexcept { return 0; }
  /// Takes nothing from `memory`.
  row_tables(arena& /*memory*/, const block_table::limits& /*l*/) noexcept {}

  /// Starts a batch.
  void begin() noexcept {}
  /// Appends an entry. O(1).
  void add(block_table& /*table*/, std::uint32_t /*row*/, tokens /*kv_length*/, std::size_t /*new_blocks*/) noexcept {}
  /// The matrix. O(1).
  [[nodiscard]] row_view view(const block_table& table) const noexcept {
    return {.matrix = table.matrix(), .blocks_per_row = table.blocks_per_row()};
  }
};

static_assert(table_policy<row_tables>);

}  // namespace kv
TESSERA_NAMESPACE_END
