// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/table_view.hpp>

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

/// Joins the rows of a batch for the kernels. The joined arrays persist from step to step. A step pays for what
/// changed: an entry that stays where it was is not touched, one that grew has its new blocks written, neighbours that
/// shifted are moved together. So when rows grow, the indices behind them move (4 bytes a block).
/// When to use: the default; kernels that take CSR.
class csr_tables {
 public:
  using view_type = csr_view;  ///< What a plan shows.

  /// Bytes that an object with these limits takes from its arena. rows x blocks_per_row < 2^31.
  [[nodiscard]] static constexpr std::size_t required_bytes(const block_table::limits& l) noexcept {
    return storage_layout{}
        .add<mirror>(l.rows)
        .add<std::int32_t>(l.rows + 1)
        .add<std::int32_t>(l.rows * l.blocks_per_row)
        .add<std::int32_t>(l.rows)
        .add<std::uint32_t>(l.rows)
        .add<move>(l.rows)
        .bytes();
  }

  /// The batch is empty. O(rows).
  csr_tables(arena& memory, const block_table::limits& l) noexcept
      : mirror_{memory.take<mirror>(l.rows)},
        indptr_{memory.take_uninitialised<std::int32_t>(l.rows + 1)},
        indices_{memory.take_uninitialised<std::int32_t>(l.rows * l.blocks_per_row)},
        last_page_len_{memory.take_uninitialised<std::int32_t>(l.rows)},
        entry_{memory.take_uninitialised<std::uint32_t>(l.rows)},
        moves_{memory.take_uninitialised<move>(l.rows)},
        rows_{l.rows},
        block_size_{static_cast<std::uint32_t>(l.block_size.count())},
        shift_{std::has_single_bit(block_size_) ? std::countr_zero(block_size_) : -1} {
    TESSERA_ASSERT(l.rows * l.blocks_per_row <= 0x7fff'ffff, "the batch's arrays have 31-bit offsets");
    indptr_[0] = 0;
  }
  csr_tables(const csr_tables&) = delete;
  csr_tables& operator=(const csr_tables&) = delete;

  /// Starts the next step's batch. Invalidates the last `view`. O(1).
  void begin() noexcept {
    size_ = 0;
    built_ = false;
  }
  /// Appends an entry whose KV is `kv_length` tokens long: the first `ceil(kv_length / block_size)` blocks of the row,
  /// which may hold more. O(1). Requires: a batch was begun and not viewed yet; fewer than `rows` entries so far;
  /// `kv_length >= 1`; the row has the blocks, and does not change before `view`.
  void add(const block_table& table, std::uint32_t r, tokens kv_length, std::size_t /*new_blocks*/ = 0) noexcept {
    TESSERA_ASSERT(!built_ && size_ != rows_, "add comes between begin and view, at most `rows` times");
    TESSERA_ASSERT(kv_length.count() >= 1 && kv_length.count() <= 0x7fff'ffff, "kv_length out of range");
    const auto before = static_cast<std::uint32_t>(kv_length.count() - 1);
    const std::uint32_t full = shift_ >= 0 ? before >> shift_ : before / block_size_;
    TESSERA_ASSERT(full < table.size(r), "the row has too few blocks for kv_length");
    static_cast<void>(table);
    entry_[size_] = r;
    last_page_len_[size_] = static_cast<std::int32_t>(before - full * block_size_ + 1);
    indptr_[size_ + 1] = indptr_[size_] + static_cast<std::int32_t>(full + 1);
    ++size_;
  }
  /// Joins the batch's rows. Valid until `begin`. O(entries), plus a copy of what grew, shifted or is new.
  [[nodiscard]] csr_view view(block_table& table) noexcept {
    if (!built_) build(table);
    return {{indptr_, size_ + 1}, {indices_, static_cast<std::size_t>(indptr_[size_])}, {last_page_len_, size_}};
  }

 private:
  // The joined array has the first `size` entries of the row from `begin` on, if the row was in the latest batch
  // (`batch` says so).
  struct mirror {
    std::uint64_t batch = 0;
    std::uint32_t size = 0;
    std::int32_t begin = 0;
  };
  struct move {
    std::int32_t to;
    std::int32_t from;
    std::int32_t count;
  };

  void build(block_table& table) noexcept {
    // 1. What can be kept: entries that were in the latest batch, in the same order. Those that moved by the same
    //    distance and lie side by side are one move. Whatever breaks the order is copied from its row instead.
    const std::uint64_t latest = batch_++;
    std::size_t moves = 0;
    std::size_t fresh = 0;  // entries with something to copy from their rows
    std::int32_t kept_end = 0;
    for (std::size_t i = 0; i != size_; ++i) {
      const std::uint32_t r = entry_[i];
      mirror& m = mirror_[r];
      const std::int32_t to = indptr_[i];
      const std::int32_t count = indptr_[i + 1] - to;
      std::int32_t keep = 0;
      if (m.batch == latest && m.begin >= kept_end) {
        keep = static_cast<std::int32_t>(m.size);
        const auto unread = static_cast<std::int32_t>(table.unread_from(r));
        if (keep > unread) keep = unread;
        if (keep > count) keep = count;
        if (keep != 0) kept_end = m.begin + keep;
      }
      if (keep != 0 && to != m.begin) {
        move* const last = moves != 0 ? moves_ + (moves - 1) : nullptr;
        if (last != nullptr && last->from + last->count == m.begin && last->to + last->count == to) {
          last->count += keep;
        } else {
          moves_[moves++] = {to, m.begin, keep};
        }
      }
      if (keep != count) {
        m.size = static_cast<std::uint32_t>(keep);
        ++fresh;
      } else {
        m = {batch_, static_cast<std::uint32_t>(count), to};
      }
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
    for (std::size_t i = 0; fresh != 0; ++i) {
      const std::uint32_t r = entry_[i];
      mirror& m = mirror_[r];
      const std::int32_t to = indptr_[i];
      const auto count = static_cast<std::uint32_t>(indptr_[i + 1] - to);
      if (m.batch == batch_ && m.begin == to) continue;
      --fresh;
      // A row that is in the batch twice was kept once at most; its second entry must not trust the first one's mirror.
      const std::uint32_t keep = m.batch == batch_ ? 0 : m.size;
      const block_id* const ids = table.row(r).data();
      if (count - keep == 1) {
        indices_[to + static_cast<std::int32_t>(keep)] = static_cast<std::int32_t>(ids[keep]);
      } else {
        std::memcpy(indices_ + to + keep, ids + keep, (count - keep) * sizeof(std::int32_t));
      }
      m = {batch_, count, to};
      table.mark_read(r);
    }
    built_ = true;
  }

  void shift(const move& m) noexcept {
    std::memmove(indices_ + m.to, indices_ + m.from, static_cast<std::size_t>(m.count) * sizeof(std::int32_t));
  }

  mirror* mirror_;
  std::int32_t* indptr_;
  std::int32_t* indices_;
  std::int32_t* last_page_len_;
  std::uint32_t* entry_;  // the row of each entry of the batch
  move* moves_;
  std::size_t rows_;
  std::size_t size_ = 0;
  std::uint64_t batch_ = 1;
  std::uint32_t block_size_;
  int shift_;
  bool built_ = true;
};

static_assert(table_policy<csr_tables>);

}  // namespace kv
TESSERA_NAMESPACE_END
