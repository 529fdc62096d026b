// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>
#include <tessera/kv/concepts.hpp>

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// Maps requests to the blocks that hold their KV: a row of block ids per resident request. The rows form one dense
/// matrix [rows][blocks_per_row] of `block_id`, left uninitialised: rows that are never used are never touched. The
/// form in which kernels get a batch of rows is a separate policy: `csr_tables`, `row_tables`, `changed_tables`.
///
/// A row's entries stay in memory after `truncate` or `release_row`, and rows are handed out last in, first out. So
/// calls are undone by their opposites in reverse order. `extend` after `truncate` shows the same entries again;
/// `acquire_row` after `release_row` gives the same row.
class block_table {
 public:
  /// Capacities; fixed at construction.
  struct limits {
    std::size_t rows = 0;            ///< Resident requests. Fewer than 2^31.
    std::size_t blocks_per_row = 0;  ///< Blocks of the longest request.
    tokens block_size{16};           ///< Tokens per block. blocks_per_row x block_size < 2^31.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add<block_id>(l.rows * l.blocks_per_row)
        .add<row_state>(l.rows)
        .add<std::uint32_t>(l.rows)
        .add<std::uint32_t>(l.rows)
        .bytes_unaligned();
  }

  /// No row is in use. O(rows).
  block_table(arena& memory, const limits& l) noexcept
      : ids_{memory.take_uninitialised<block_id>(l.rows * l.blocks_per_row)},
        state_{memory.take<row_state>(l.rows)},
        free_rows_{memory.take_uninitialised<std::uint32_t>(l.rows)},
        cut_{memory.take_uninitialised<std::uint32_t>(l.rows)},
        rows_{l.rows},
        stride_{l.blocks_per_row},
        free_size_{l.rows},
        block_size_{l.block_size} {
    TESSERA_ASSERT(l.block_size.count() >= 1 && l.block_size.count() <= max_int32, "block_size out of range");
    TESSERA_ASSERT(l.rows <= max_int32 && l.blocks_per_row <= max_int32, "rows and their blocks have 31 bits");
    TESSERA_ASSERT(static_cast<std::int64_t>(l.blocks_per_row) * l.block_size.count() <= max_int32,
                   "positions have 31 bits");
    for (std::size_t i = 0; i != rows_; ++i) free_rows_[i] = static_cast<std::uint32_t>(rows_ - 1 - i);
  }
  block_table(const block_table&) = delete;
  block_table& operator=(const block_table&) = delete;

  /// Rows in all. O(1).
  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
  /// Rows that can be acquired. O(1).
  [[nodiscard]] std::size_t free_rows() const noexcept { return free_size_; }
  /// Longest row, in blocks: the distance between two rows of the matrix. O(1).
  [[nodiscard]] std::size_t blocks_per_row() const noexcept { return stride_; }
  /// Tokens in a block.
  [[nodiscard]] tokens block_size() const noexcept { return block_size_; }
  /// The matrix: row `r` begins at `r * blocks_per_row()` and has the length of `row(r)`. Entries behind it are
  /// unspecified.
  [[nodiscard]] const block_id* matrix() const noexcept { return ids_; }

  /// An empty row, or `no_index` when all are in use. O(1).
  [[nodiscard]] std::uint32_t acquire_row() noexcept {
    if (free_size_ == 0) return no_index;
    const std::uint32_t r = free_rows_[--free_size_];
    state_[r].used = true;
    state_[r].size = state_[r].known = 0;
    return r;
  }
  /// Gives the row up. The caller must release its blocks. O(1). `foreign`, `not_allocated`.
  status release_row(std::uint32_t r) noexcept {
    if (r >= rows_) return status::foreign;
    if (!state_[r].used) return status::not_allocated;
    state_[r].used = false;
    state_[r].size = state_[r].known = 0;
    keep(r, 0);
    free_rows_[free_size_++] = r;
    return status::ok;
  }

  // A number that names no row in use is misuse. An unchecked build then reads and writes nothing: `acquire_row`
  // returns `no_index`, and that is easily passed on.

  /// The row's blocks in sequence order. Valid until the row changes. Requires: `r` is in use (else empty).
  [[nodiscard]] std::span<const block_id> row(std::uint32_t r) const noexcept {
    TESSERA_ASSERT(in_use(r), "not a row in use");
    if (!in_use(r)) return {};
    return {ids_ + r * stride_, state_[r].size};
  }
  /// Blocks in the row. O(1). Requires: `r` is in use (else 0).
  [[nodiscard]] std::size_t size(std::uint32_t r) const noexcept {
    TESSERA_ASSERT(in_use(r), "not a row in use");
    return in_use(r) ? state_[r].size : 0;
  }

  /// Blocks of a row that the engine was told of, by `mark_sent`; 0 if it was not told of all of them. O(1). Requires:
  /// `r` is in use.
  [[nodiscard]] std::size_t sent_size(std::uint32_t r) const noexcept {
    TESSERA_ASSERT(in_use(r), "not a row in use");
    return in_use(r) && state_[r].known >= state_[r].size ? state_[r].size : 0;
  }

  /// Appends `n` entries for the caller to fill; until then they are what was there before. An empty span, and no
  /// change, if the row would be longer than `blocks_per_row`. O(1). Requires: `r` is in use (else empty).
  [[nodiscard]] std::span<block_id> extend(std::uint32_t r, std::size_t n) noexcept {
    TESSERA_ASSERT(in_use(r), "not a row in use");
    if (!in_use(r)) return {};
    const std::size_t size = state_[r].size;
    if (n > stride_ - size) return {};
    state_[r].size = static_cast<std::uint32_t>(size + n);
    return {ids_ + r * stride_ + size, n};
  }
  /// Keeps the first `n` entries. O(1). Requires: `r` is in use and has at least `n`.
  void truncate(std::uint32_t r, std::size_t n) noexcept {
    TESSERA_ASSERT(in_use(r) && n <= state_[r].size, "a row in use with at least n entries");
    if (!in_use(r) || n > state_[r].size) return;
    state_[r].size = static_cast<std::uint32_t>(n);
    keep(r, n);
    if (state_[r].known > n) state_[r].known = static_cast<std::uint32_t>(n);
  }
  /// Puts another block at index `i`. O(1). Requires: `r` is in use, `i < row(r).size()`.
  void replace(std::uint32_t r, std::size_t i, block_id id) noexcept {
    TESSERA_ASSERT(in_use(r) && i < state_[r].size, "index out of range");
    if (!in_use(r) || i >= state_[r].size) return;
    ids_[r * stride_ + i] = id;
    keep(r, i);
    if (state_[r].known > i) state_[r].known = static_cast<std::uint32_t>(i);
  }

  /// For one view of the rows that persists from step to step: rows that lost entries, or had them replaced, since the
  /// latest `mark_read`. Each occurs once.
  [[nodiscard]] std::span<const std::uint32_t> cut_rows() const noexcept { return {cut_, cut_size_}; }
  /// The leading entries of a row that are unchanged since the latest `mark_read`, or have been added since. O(1).
  [[nodiscard]] std::size_t unread_from(std::uint32_t r) const noexcept {
    TESSERA_ASSERT(r < rows_, "not a row");
    return r < rows_ ? state_[r].kept : 0;
  }
  /// Whether it lost entries, or had them replaced, since the latest `mark_read`. O(1).
  [[nodiscard]] bool is_cut(std::uint32_t r) const noexcept {
    TESSERA_ASSERT(r < rows_, "not a row");
    return r < rows_ && state_[r].kept != never_cut;
  }
  /// Marks all rows as read. O(rows cut).
  void mark_read() noexcept {
    for (; cut_size_ != 0; --cut_size_) state_[cut_[cut_size_ - 1]].kept = never_cut;
  }

  /// The leading entries that the engine was told of, by `mark_sent`. O(1). Requires: `r` is in use.
  [[nodiscard]] std::size_t sent(std::uint32_t r) const noexcept {
    TESSERA_ASSERT(in_use(r), "not a row in use");
    return in_use(r) ? state_[r].known : 0;
  }
  /// Records that the engine knows the row as it is. O(1). Requires: `r` is in use.
  void mark_sent(std::uint32_t r) noexcept {
    TESSERA_ASSERT(in_use(r), "not a row in use");
    if (in_use(r)) state_[r].known = state_[r].size;
  }

 private:
  static constexpr std::int64_t max_int32 = 0x7fff'ffff;

  static constexpr std::uint32_t never_cut = 0xffff'ffffU;
  struct row_state {
    std::uint32_t size = 0;
    std::uint32_t kept = never_cut;  // leading entries that are unchanged since they were last read; never_cut: all
    std::uint32_t known = 0;         // leading entries that the engine was told of
    bool used = false;
  };

  [[nodiscard]] bool in_use(std::uint32_t r) const noexcept { return r < rows_ && state_[r].used; }
  void keep(std::uint32_t r, std::size_t n) noexcept {
    if (state_[r].kept == never_cut) cut_[cut_size_++] = r;
    if (state_[r].kept > n) state_[r].kept = static_cast<std::uint32_t>(n);
  }

  block_id* ids_;
  row_state* state_;
  std::uint32_t* free_rows_;
  std::uint32_t* cut_;
  std::size_t rows_;
  std::size_t stride_;
  std::size_t free_size_;
  std::size_t cut_size_ = 0;
  tokens block_size_;
};

}  // namespace kv
TESSERA_NAMESPACE_END
