// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/block_table.hpp>

#include <concepts>

/// @file
/// The form in which an engine gets the block tables of a batch.

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// Shows the rows of a batch to an engine, in the form of its kernels.
///
/// Requires, all calls `noexcept`: (1) `T::required_bytes(limits)` for a `block_table::limits`, `T(arena&, limits)`;
/// (2) `t.begin()` starts a batch. (3) `t.add(table, row, kv_length, new_blocks)` appends an entry with `kv_length`
/// tokens of KV once the step has run. The last `new_blocks` blocks of the row have not been shown yet.
/// (4) `t.view(table) -> T::view_type`, a regular type of spans and pointers, valid until the next `begin`.
/// Not checked: rows do not change between `add` and `view`; an entry's row holds `kv_length` tokens.
/// Models: `csr_tables`, `row_tables`, `changed_tables`.
template <class T>
concept table_policy = std::constructible_from<T, arena&, const block_table::limits&> &&
                       requires(T& t, block_table& table, const block_table::limits& l, std::uint32_t row, tokens n,
                                std::size_t new_blocks) {
                         { T::required_bytes(l) } noexcept -> std::same_as<std::size_t>;
                         { t.begin() } noexcept;
                         { t.add(table, row, n, new_blocks) } noexcept;
                         { t.view(table) } noexcept -> std::same_as<typename T::view_type>;
                       };

}  // namespace kv
TESSERA_NAMESPACE_END
