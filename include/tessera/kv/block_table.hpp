// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>
#include <tessera/kv/concepts.hpp>

#include <bit>
#include <cstring>

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// The block tables of one batch, as attention kernels take them (compressed sparse rows; the shapes of paged decode
/// kernels such as FlashInfer's). With n entries in the batch:
struct csr_view {
  std::span<const std::int32_t> indptr;         ///< [n + 1]; entry i has indices [indptr[i], indptr[i + 1]).
  std::span<const std::int32_t> indices;        ///< [indptr[n]]; block ids in sequence order.
  std::span<const std::int32_t> last_page_len;  ///< [n]; tokens in the last block, 1 to block_size.
};

/// Which blocks hold the KV of which request: a row of block ids per resident request, and the batch's rows joined for
/// the kernels.
///
/// Rows lie in one dense matrix [rows][blocks_per_row] of `block_id`, left uninitialised: rows that are never used
/// are never touched. The joined arrays persist from step to step. A step pays for what changed: an entry that stays
/// where it was is not touched, one that grew has its new blocks written, neighbours that shifted are moved together.
///
/// A row's entries stay in memory when they are given up by `truncate` or `release_row`, and rows are handed out last
/// in, first out. So calls are undone by their opposites in reverse order: `extend` after `truncate` shows the same
/// entries again, `acquire_row` after `release_row` gives the same row.
class block_table {
 public:
  /// What there must be room for; fixed at construction.
  struct limits {
    std::size_t rows = 0;            ///< Resident requests, and entries of a batch.
    std::size_t blocks_per_row = 0;  ///< Blocks of the longest request. rows x blocks_per_row < 2^31.
    tokens block_size{16};           ///< Tokens per block. blocks_per_row x block_size < 2^31.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add<block_id>(l.rows * l.blocks_per_row)
        .add<row_state>(l.rows)
        .add<std::uint32_t>(l.rows)
        .add<std::int32_t>(l.rows + 1)
        .add<std::int32_t>(l.rows * l.blocks_per_row)
        .add<std::int32_t>(l.rows)
        .add<std::uint32_t>(l.rows)
        .add<move>(l.rows)
        .bytes_unaligned();
  }

  /// No row is in use, the batch is empty. O(rows).
  block_table(arena& memory, const limits& l) noexcept
      : ids_{memory.take_uninitialised<block_id>(l.rows * l.blocks_per_row)},
        state_{memory.take<row_state>(l.rows)},
        free_rows_{memory.take_uninitialised<std::uint32_t>(l.rows)},
        indptr_{memory.take_uninitialised<std::int32_t>(l.rows + 1)},
        indices_{memory.take_uninitialised<std::int32_t>(l.rows * l.blocks_per_row)},
        last_page_len_{memory.take_uninitialised<std::int32_t>(l.rows)},
        entry_{memory.take_uninitialised<std::uint32_t>(l.rows)},
        moves_{memory.take_uninitialised<move>(l.rows)},
        rows_{l.rows},
        stride_{l.blocks_per_row},
        free_size_{l.rows},
        block_size_{static_cast<std::uint32_t>(l.block_size.count())},
        shift_{std::has_single_bit(block_size_) ? std::countr_zero(block_size_) : -1} {
    TESSERA_ASSERT(l.block_size.count() >= 1 && l.block_size.count() <= max_int32, "block_size out of range");
    TESSERA_ASSERT(l.rows <= max_int32 && l.blocks_per_row <= max_int32, "the batch's arrays have 32-bit offsets");
    TESSERA_ASSERT(l.rows * l.blocks_per_row <= max_int32, "the batch's arrays have 32-bit offsets");
    TESSERA_ASSERT(l.blocks_per_row * block_size_ <= max_int32, "positions have 32 bits");
    for (std::size_t i = 0; i != rows_; ++i) free_rows_[i] = static_cast<std::uint32_t>(rows_ - 1 - i);
    indptr_[0] = 0;
  }
  block_table(const block_table&) = delete;
  block_table& operator=(const block_table&) = delete;

  /// Rows in all. O(1).
  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
  /// Rows that can be acquired. O(1).
  [[nodiscard]] std::size_t free_rows() const noexcept { return free_size_; }
  /// Longest row, in blocks. O(1).
  [[nodiscard]] std::size_t blocks_per_row() const noexcept { return stride_; }
  /// Tokens in a block.
  [[nodiscard]] tokens block_size() const noexcept { return tokens{block_size_}; }

  /// An empty row, or `no_index` when all are in use. O(1).
  [[nodiscard]] std::uint32_t acquire_row() noexcept {
    if (free_size_ == 0) return no_index;
    const std::uint32_t r = free_rows_[--free_size_];
    state_[r].used = true;
    state_[r].size = 0;
    return r;
  }
  /// Gives the row up; its blocks are the caller's to release. O(1). `foreign`, `not_allocated`.
  status release_row(std::uint32_t r) noexcept {
    if (r >= rows_) return status::foreign;
    if (!state_[r].used) return status::not_allocated;
    state_[r].used = false;
    state_[r].size = 0;
    state_[r].mirrored = 0;
    free_rows_[free_size_++] = r;
    return status::ok;
  }

  /// The row's blocks in sequence order. Valid until the row changes. Requires: `r` is in use.
  [[nodiscard]] std::span<const block_id> row(std::uint32_t r) const noexcept {
    TESSERA_ASSERT(in_use(r), "not a row in use");
    return {ids_ + r * stride_, state_[r].size};
  }

  /// Appends `n` entries for the caller to fill; until then they are what was there before. An empty span, and no
  /// change, if the row would be longer than `blocks_per_row`. O(1). Requires: `r` is in use.
  [[nodiscard]] std::span<block_id> extend(std::uint32_t r, std::size_t n) noexcept {
    TESSERA_ASSERT(in_use(r), "not a row in use");
    const std::size_t size = state_[r].size;
    if (n > stride_ - size) return {};
    state_[r].size = static_cast<std::uint32_t>(size + n);
    return {ids_ + r * stride_ + size, n};
  }
  /// Keeps the first `n` entries. O(1). Requires: `r` is in use and has at least `n`.
  void truncate(std::uint32_t r, std::size_t n) noexcept {
    TESSERA_ASSERT(in_use(r) && n <= state_[r].size, "a row in use with at least n entries");
    state_[r].size = static_cast<std::uint32_t>(n);
    keep_mirror(r, n);
  }
  /// Puts another block at index `i`. O(1). Requires: `r` is in use, `i < row(r).size()`.
  void replace(std::uint32_t r, std::size_t i, block_id id) noexcept {
    TESSERA_ASSERT(in_use(r) && i < state_[r].size, "index out of range");
    ids_[r * stride_ + i] = id;
    keep_mirror(r, i);
  }

  /// Starts the next step's batch. Invalidates the last `view()`. O(1).
  void begin_batch() noexcept {
    size_ = 0;
    built_ = false;
  }
  /// Appends an entry whose KV is `kv_length` tokens long: the first `ceil(kv_length / block_size)` blocks of the row,
  /// which may hold more (lookahead slots). O(1). Requires: a batch was begun and not viewed yet; fewer than `rows()`
  /// entries so far; `kv_length >= 1`; the row has the blocks, and does not change before `view()`.
  void add(std::uint32_t r, tokens kv_length) noexcept {
    TESSERA_ASSERT(!built_ && size_ != rows_, "add comes between begin_batch and view, at most rows() times");
    TESSERA_ASSERT(in_use(r), "not a row in use");
    TESSERA_ASSERT(kv_length.count() >= 1 && kv_length.count() <= max_int32, "kv_length out of range");
    const auto before = static_cast<std::uint32_t>(kv_length.count() - 1);
    const std::uint32_t full = shift_ >= 0 ? before >> shift_ : before / block_size_;
    TESSERA_ASSERT(full < state_[r].size, "the row has too few blocks for kv_length");
    entry_[size_] = r;
    last_page_len_[size_] = static_cast<std::int32_t>(before - full * block_size_ + 1);
    indptr_[size_ + 1] = indptr_[size_] + static_cast<std::int32_t>(full + 1);
    ++size_;
  }
  /// Joins the batch's rows. Valid until `begin_batch`. O(entries), plus a copy of what grew, shifted or is new.
  [[nodiscard]] csr_view view() noexcept {
    if (!built_) build();
    return {{indptr_, size_ + 1}, {indices_, static_cast<std::size_t>(indptr_[size_])}, {last_page_len_, size_}};
  }

 private:
  static constexpr std::int64_t max_int32 = 0x7fff'ffff;

  // The joined array mirrors the first `mirrored` entries of the row, starting at `begin`, if the row was in the
  // latest batch (`batch` says so).
  struct row_state {
    std::uint64_t batch = 0;
    std::uint32_t size = 0;
    std::uint32_t mirrored = 0;
    std::int32_t begin = 0;
    bool used = false;
  };
  struct move {
    std::int32_t to;
    std::int32_t from;
    std::int32_t count;
  };

  [[nodiscard]] bool in_use(std::uint32_t r) const noexcept { return r < rows_ && state_[r].used; }
  void keep_mirror(std::uint32_t r, std::size_t n) noexcept {
    if (state_[r].mirrored > n) state_[r].mirrored = static_cast<std::uint32_t>(n);
  }

  void build() noexcept {
    // 1. What can be kept: entries that were in the latest batch, in the same order. Those that moved by the same
    //    distance and lie side by side are one move. Whatever breaks the order is copied from its row instead.
    std::size_t moves = 0;
    std::int32_t kept_end = 0;
    for (std::size_t i = 0; i != size_; ++i) {
      row_state& s = state_[entry_[i]];
      const std::int32_t to = indptr_[i];
      const std::int32_t count = indptr_[i + 1] - to;
      std::int32_t keep = 0;
      if (s.batch == batch_ && s.begin >= kept_end) {
        keep = static_cast<std::int32_t>(s.mirrored);
        if (keep > count) keep = count;
        if (keep != 0) kept_end = s.begin + keep;
      }
      if (keep != 0 && to != s.begin) {
        move* const last = moves != 0 ? moves_ + (moves - 1) : nullptr;
        if (last != nullptr && last->from + last->count == s.begin && last->to + last->count == to) {
          last->count += keep;
        } else {
          moves_[moves++] = {to, s.begin, keep};
        }
      }
      s.mirrored = static_cast<std::uint32_t>(keep);
    }
    // 2. Sources and targets both ascend, so a move down and a move up never meet; among themselves, moves down are
    //    safe from front to back and moves up from back to front.
    for (std::size_t i = 0; i != moves; ++i) {
      if (moves_[i].to < moves_[i].from) shift(moves_[i]);
    }
    for (std::size_t i = moves; i-- != 0;) {
      if (moves_[i].to > moves_[i].from) shift(moves_[i]);
    }
    // 3. The rest comes from the rows.
    ++batch_;
    for (std::size_t i = 0; i != size_; ++i) {
      const std::uint32_t r = entry_[i];
      row_state& s = state_[r];
      const auto count = static_cast<std::uint32_t>(indptr_[i + 1] - indptr_[i]);
      // A row that is in the batch twice was kept once at most; its second entry must not trust the first one's mirror.
      const std::uint32_t keep = s.batch == batch_ ? 0 : s.mirrored;
      if (const std::uint32_t missing = count - keep; missing != 0) {
        const block_id* const from = ids_ + r * stride_ + keep;
        std::int32_t* const to = indices_ + indptr_[i] + keep;
        if (missing == 1) {
          *to = static_cast<std::int32_t>(*from);
        } else {
          std::memcpy(to, from, missing * sizeof(std::int32_t));
        }
      }
      s.mirrored = count;
      s.begin = indptr_[i];
      s.batch = batch_;
    }
    built_ = true;
  }

  void shift(const move& m) noexcept {
    std::memmove(indices_ + m.to, indices_ + m.from, static_cast<std::size_t>(m.count) * sizeof(std::int32_t));
  }

  block_id* ids_;
  row_state* state_;
  std::uint32_t* free_rows_;
  std::int32_t* indptr_;
  std::int32_t* indices_;
  std::int32_t* last_page_len_;
  std::uint32_t* entry_;  // the row of each entry of the batch
  move* moves_;
  std::size_t rows_;
  std::size_t stride_;
  std::size_t free_size_;
  std::size_t size_ = 0;
  std::uint64_t batch_ = 1;
  std::uint32_t block_size_;
  int shift_;
  bool built_ = true;
};

}  // namespace kv
TESSERA_NAMESPACE_END
