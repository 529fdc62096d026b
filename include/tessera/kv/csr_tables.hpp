// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/table_view.hpp>

#include <bit>
#include <cstring>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// The block tables of one batch in the form of attention kernels: compressed sparse rows, with the shapes of paged
/// decode kernels such as FlashInfer's. With n entries in the batch:
struct csr_view {
  std::span<const std::int32_t> indptr;         ///< [n + 1]; entry i has indices [indptr[i], indptr[i + 1]).
  std::span<const std::int32_t> indices;        ///< [indptr[n]]; block ids in sequence order.
  std::span<const std::int32_t> last_page_len;  ///< [n]; tokens in the last block, 1 to block_size.
};

/// Joins the rows of a batch for the kernels. The joined array persists from step to step, and a step pays for what
/// changed. An entry that stays in place is not touched. One that grew has its new blocks written. Neighbours that
/// shifted are moved together. So when rows grow, the indices behind them move (4 bytes a block). When to use: the
/// default; kernels that take CSR.
/// @tparam Slides whether rows lose blocks at their beginning, as those of a window do. An entry then has the indices
/// of the remaining blocks. One that has lost some is copied from its row.
template <bool Slides>
class basic_csr_tables {
 public:
  using sliding = basic_csr_tables<true>;  ///< The same for rows that lose blocks at their beginning.

  using limits = block_table::limits;  ///< Capacities; fixed at construction.
  using view_type = csr_view;          ///< The view of a plan.

  /// Bytes that an object with these limits takes from its arena. rows x blocks_per_row < 2^31.
  [[nodiscard]] static constexpr std::size_t required_bytes(const block_table::limits& l) noexcept {
    storage_layout all;
    all.add<std::uint32_t>(l.rows)
        .add<std::uint32_t>(l.rows)
        .add<std::int32_t>(l.rows + 1)
        .add<std::int32_t>(l.rows + 1)
        .add<std::uint32_t>(l.rows)
        .add<std::int32_t>(l.rows * l.blocks_per_row)
        .add<std::int32_t>(l.rows)
        .add<std::int32_t>(Slides ? l.rows : 0)
        .add<std::int32_t>(Slides ? l.rows : 0)
        .add<move>(l.rows)
        .template add<piece>(l.rows);
    return all.bytes();
  }

  /// The batch is empty. O(rows).
  basic_csr_tables(arena& memory, const block_table::limits& l) noexcept
      : row_{memory.take_uninitialised<std::uint32_t>(l.rows)},
        latest_row_{memory.take_uninitialised<std::uint32_t>(l.rows)},
        indptr_{memory.take_uninitialised<std::int32_t>(l.rows + 1)},
        latest_indptr_{memory.take_uninitialised<std::int32_t>(l.rows + 1)},
        place_{memory.take<std::uint32_t>(l.rows)},
        indices_{memory.take_uninitialised<std::int32_t>(l.rows * l.blocks_per_row)},
        last_page_len_{memory.take_uninitialised<std::int32_t>(l.rows)},
        begin_{memory.take_uninitialised<std::int32_t>(Slides ? l.rows : 0)},
        latest_begin_{memory.take_uninitialised<std::int32_t>(Slides ? l.rows : 0)},
        moves_{memory.take_uninitialised<move>(l.rows)},
        fresh_{memory.take_uninitialised<piece>(l.rows)},
        rows_{l.rows},
        block_size_{static_cast<std::uint32_t>(l.block_size.count())},
        shift_{std::has_single_bit(block_size_) ? std::countr_zero(block_size_) : -1} {
    TESSERA_ASSERT(l.rows * l.blocks_per_row <= 0x7fff'ffff, "the batch's arrays have 31-bit offsets");
    indptr_[0] = latest_indptr_[0] = 0;
  }
  basic_csr_tables(const basic_csr_tables&) = delete;
  basic_csr_tables& operator=(const basic_csr_tables&) = delete;

  /// Starts the next step's batch. Invalidates the last `view`. O(1).
  void begin() noexcept {
    if (built_) {  // a batch without a view was not joined, and does not become the latest
      std::swap(row_, latest_row_);
      std::swap(indptr_, latest_indptr_);
      std::swap(begin_, latest_begin_);
      latest_size_ = size_;
    }
    size_ = 0;
    end_ = 0;
    built_ = false;
  }
  /// Appends an entry with `kv_length` tokens of KV: the first `ceil(kv_length / block_size)` blocks of the row, which
  /// may hold more. O(1). Requires: a batch was begun and not viewed yet; fewer than `rows` entries so far. `kv_length
  /// >= 1`. The row has the blocks, and does not change before `view`.
  void add(const block_table& table, std::uint32_t r, tokens kv_length, std::size_t new_blocks = 0) noexcept {
    add(table, r, kv_length, new_blocks, 0);
  }
  /// The same for a row with blocks before `first` that are not shown. Requires: `Slides`, or `first` is 0.
  void add(const block_table& table, std::uint32_t r, tokens kv_length, std::size_t /*new_blocks*/,
           std::size_t first) noexcept {
    TESSERA_ASSERT(!built_ && size_ != rows_, "add comes between begin and view, at most `rows` times");
    TESSERA_ASSERT(kv_length.count() >= 1 && kv_length.count() <= 0x7fff'ffff, "kv_length out of range");
    const auto before = static_cast<std::uint32_t>(kv_length.count() - 1);
    const std::uint32_t full = shift_ >= 0 ? before >> shift_ : before / block_size_;
    TESSERA_ASSERT(full < table.size(r), "the row has too few blocks for kv_length");
    static_cast<void>(table);
    row_[size_] = r;
    last_page_len_[size_] = static_cast<std::int32_t>(before - full * block_size_ + 1);
    end_ += full + 1;
    if constexpr (Slides) {
      TESSERA_ASSERT(first <= full, "a row of which nothing is shown");
      begin_[size_] = static_cast<std::int32_t>(first);
      end_ -= first;
    } else {
      TESSERA_ASSERT(first == 0, "a row that does not slide");
      static_cast<void>(first);
    }
    indptr_[++size_] = static_cast<std::int32_t>(end_);
  }
  /// Joins the batch's rows. Valid until `begin`. O(entries), plus a copy of what grew, shifted or is new.
  [[nodiscard]] csr_view view(block_table& table) noexcept {
    if (!built_) build(table);
    return {{indptr_, size_ + 1}, {indices_, static_cast<std::size_t>(indptr_[size_])}, {last_page_len_, size_}};
  }

 private:
  static constexpr std::size_t together = 8;

  struct move {
    std::int32_t to;
    std::int32_t from;
    std::int32_t count;
  };
  // Entries of a row that are not in the joined array yet.
  struct piece {
    std::uint32_t row;
    std::int32_t to;
    std::int32_t from;
    std::int32_t count;
  };

  /// Whether the entry after `i` is the one that followed `j` in the latest batch.
  [[nodiscard]] bool goes_on_after(std::size_t i, std::size_t j) const noexcept {
    return i + 1 == size_ || (j + 1 < latest_size_ && row_[i + 1] == latest_row_[j + 1]);
  }

  /// The number of leading blocks of an entry's row that are not shown.
  [[nodiscard]] std::int32_t begin_of(std::size_t i) const noexcept {
    if constexpr (Slides) {
      return begin_[i];
    } else {
      static_cast<void>(i);
      return 0;
    }
  }
  /// Whether entry `i` was at `j` in the latest batch, with the same first block.
  [[nodiscard]] bool is_same(std::size_t i, std::size_t j) const noexcept {
    if constexpr (Slides) {
      return row_[i] == latest_row_[j] && begin_[i] == latest_begin_[j];
    } else {
      return row_[i] == latest_row_[j];
    }
  }
  /// The same for several entries that are compared together. They must also have lost no blocks, and have moved by the
  /// same distance.
  [[nodiscard]] bool are_same(const block_table& table, std::size_t i, std::size_t j, std::int32_t distance,
                              bool any_cut) const noexcept
    requires Slides
  {
    std::uint32_t differ = 0;
    for (std::size_t k = 0; k != together; ++k) {
      differ |= row_[i + k] ^ latest_row_[j + k];
      differ |= static_cast<std::uint32_t>((indptr_[i + k + 1] - latest_indptr_[j + k + 1]) ^ distance);
      differ |= static_cast<std::uint32_t>(begin_[i + k] ^ latest_begin_[j + k]);
    }
    if (!any_cut || differ != 0) return differ == 0;
    bool uncut = true;
    for (std::size_t k = 0; k != together; ++k) uncut = uncut && !table.is_cut(row_[i + k]);
    return uncut;
  }
  /// The number of its indices that are unchanged, if it is the same entry.
  [[nodiscard]] std::size_t uncut(const block_table& table, std::size_t i) const noexcept {
    const std::size_t n = table.unread_from(row_[i]);
    const auto begin = static_cast<std::size_t>(begin_of(i));
    return n > begin ? n - begin : 0;
  }

  /// The place of entry `i` in the latest batch, at `j` or behind. `latest_size_` if it was not there, or is not worth
  /// following: one entry that moved to the front must not leave all others behind. Places next to `j`, from which a
  /// request may have left, are looked at first. The other places are indexed at most once per batch.
  [[nodiscard]] std::size_t find_latest(std::size_t i, std::size_t j, bool& written_down) noexcept {
    const std::uint32_t r = row_[i];
    const std::size_t near = j + 8 < latest_size_ ? j + 8 : latest_size_;
    for (std::size_t k = j; k < near; ++k) {
      if (latest_row_[k] == r) return k;
    }
    if (near == latest_size_) return latest_size_;
    if (!written_down) {
      for (std::size_t k = 0; k != latest_size_; ++k) place_[latest_row_[k]] = static_cast<std::uint32_t>(k);
      written_down = true;
    }
    const std::size_t k = place_[r];
    return k < latest_size_ && latest_row_[k] == r && k >= j && goes_on_after(i, k) ? k : latest_size_;
  }

  void build(block_table& table) noexcept {
    // 1. Find what can be kept: entries of the latest batch in the same order, mostly entry by entry. Neighbours that
    //    moved by the same distance are one move. Entries that break the order are copied from their rows instead.
    const bool any_cut = !table.cut_rows().empty();  // rows that lost entries since the latest batch
    std::size_t moves = 0;
    std::size_t fresh = 0;
    bool written_down = false;
    std::int32_t run_from = 0;
    std::int32_t run_to = 0;
    std::int32_t run_end = 0;  // [run_from, run_end) is kept, and moves to run_to
    const auto end_run = [&]() noexcept {
      if (run_end != run_from && run_from != run_to) moves_[moves++] = {run_to, run_from, run_end - run_from};
    };
    for (std::size_t i = 0, j = 0; i != size_; ++i, ++j) {  // j: the position in the latest batch
      if (j >= latest_size_ || latest_row_[j] != row_[i]) {
        const std::size_t found = find_latest(i, j, written_down);
        if (found == latest_size_) {
          fresh_[fresh++] = {row_[i], indptr_[i], begin_of(i), indptr_[i + 1] - indptr_[i]};
          --j;
          continue;
        }
        j = found;
      }
      if constexpr (Slides) {
        if (begin_[i] != latest_begin_[j]) {
          fresh_[fresh++] = {row_[i], indptr_[i], begin_of(i), indptr_[i + 1] - indptr_[i]};
          continue;
        }
      }
      if (latest_indptr_[j] != run_end || indptr_[i] - latest_indptr_[j] != run_to - run_from) {
        end_run();
        run_from = latest_indptr_[j];
        run_to = indptr_[i];
      }
      // The common case: the same entries in the same order. If a step has several tables, most have not changed, so
      // many entries are compared together.
      const std::int32_t distance = run_to - run_from;
      if constexpr (Slides) {
        for (; i + together <= size_ && j + together <= latest_size_; i += together, j += together) {
          if (!are_same(table, i, j, distance, any_cut)) break;
        }
      }
      while (i != size_ && j != latest_size_ && is_same(i, j) && indptr_[i + 1] - latest_indptr_[j + 1] == distance &&
             (!any_cut || uncut(table, i) >= static_cast<std::size_t>(indptr_[i + 1] - indptr_[i]))) {
        ++i;
        ++j;
      }
      run_end = latest_indptr_[j];
      if (i == size_) break;
      if (j == latest_size_ || !is_same(i, j)) {
        --i;
        --j;
        continue;
      }
      const std::int32_t count = indptr_[i + 1] - indptr_[i];
      std::int32_t keep = latest_indptr_[j + 1] - latest_indptr_[j];
      const std::size_t whole = uncut(table, i);
      if (static_cast<std::size_t>(keep) > whole) keep = static_cast<std::int32_t>(whole);
      if (keep > count) keep = count;
      run_end += keep;
      if (keep != count) fresh_[fresh++] = {row_[i], indptr_[i] + keep, begin_of(i) + keep, count - keep};
    }
    end_run();
    // 2. Sources and targets both ascend, so a move down and a move up never overlap. Moves down are safe from front to
    //    back, and moves up from back to front.
    for (std::size_t i = 0; i != moves; ++i) {
      if (moves_[i].to < moves_[i].from) shift(moves_[i]);
    }
    for (std::size_t i = moves; i-- != 0;) {
      if (moves_[i].to > moves_[i].from) shift(moves_[i]);
    }
    // 3. Copy the rest from the rows.
    for (std::size_t i = 0; i != fresh; ++i) {
      const piece& f = fresh_[i];
      const block_id* const ids = table.row(f.row).data() + f.from;
      if (f.count == 1) {
        indices_[f.to] = static_cast<std::int32_t>(*ids);
      } else {
        std::memcpy(indices_ + f.to, ids, static_cast<std::size_t>(f.count) * sizeof(std::int32_t));
      }
    }
    table.mark_read();
    built_ = true;
  }

  void shift(const move& m) noexcept {
    std::memmove(indices_ + m.to, indices_ + m.from, static_cast<std::size_t>(m.count) * sizeof(std::int32_t));
  }

  std::uint32_t* row_;  // the row of each entry of the batch
  std::uint32_t* latest_row_;
  std::int32_t* indptr_;
  std::int32_t* latest_indptr_;
  std::uint32_t* place_;  // by row: its entry in the latest batch, filled only when needed
  std::int32_t* indices_;
  std::int32_t* last_page_len_;
  std::int32_t* begin_;  // of each entry of the batch: the first block of its row that is shown
  std::int32_t* latest_begin_;
  move* moves_;
  piece* fresh_;
  std::size_t rows_;
  std::size_t size_ = 0;
  std::size_t end_ = 0;  // number of indices, counted apart from `indptr_`: in a register if many are added in a row
  std::size_t latest_size_ = 0;
  std::uint32_t block_size_;
  int shift_;
  bool built_ = true;
};

/// For rows that keep all blocks.
using csr_tables = basic_csr_tables<false>;

static_assert(table_policy<csr_tables>);

}  // namespace kv
TESSERA_NAMESPACE_END
