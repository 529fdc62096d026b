// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/table_view.hpp>

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// An entry of a block table that the engine does not know yet: `table[row][index] = block`.
struct table_change {
  std::uint32_t row;    ///< Row of the table.
  std::uint32_t index;  ///< Block of the sequence.
  block_id block;       ///< The block with its KV.
};

/// Shows only changed entries. A step costs what changed: a decode that stays in its block costs nothing.
/// When to use: the table stays on the device and is patched, by one small kernel or copy. An abandoned plan must not
/// be applied: its changes come again. Entries that a row has given up are not reported; the KV length shows them.
class changed_tables {
 public:
  using limits = block_table::limits;               ///< Capacities; fixed at construction.
  using view_type = std::span<const table_change>;  ///< The view of a plan.

  /// Bytes that an object with these limits takes from its arena.
  [[nodiscard]] static constexpr std::size_t required_bytes(const block_table::limits& l) noexcept {
    return fixed_vector<table_change>::required_bytes(l.rows * l.blocks_per_row);
  }
  /// Room for all entries of all rows; memory is not touched before it is needed.
  changed_tables(arena& memory, const block_table::limits& l) noexcept : changes_{memory, l.rows * l.blocks_per_row} {}

  /// Starts a batch. O(1).
  void begin() noexcept { changes_.clear(); }
  /// Appends an entry. O(new_blocks).
  void add(block_table& table, std::uint32_t row, tokens /*kv_length*/, std::size_t new_blocks) noexcept {
    if (new_blocks == 0) [[likely]]
      return;
    const std::span<const block_id> ids = table.row(row);
    for (std::size_t i = ids.size() - new_blocks; i != ids.size(); ++i) {
      changes_.push_back({row, static_cast<std::uint32_t>(i), ids[i]});
    }
  }
  /// The changes, by entry and then in the order of the sequence. O(1).
  [[nodiscard]] std::span<const table_change> view(const block_table& /*table*/) const noexcept { return changes_; }

 private:
  fixed_vector<table_change> changes_;
};

static_assert(table_policy<changed_tables>);

}  // namespace kv
TESSERA_NAMESPACE_END
