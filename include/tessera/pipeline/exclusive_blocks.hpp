// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Counts the blocks that each row of a block table holds alone: those that would become free if its request left. It
/// is called for every block that a row takes, shares and gives back. A block is O(1): it keeps the exclusive or of the
/// rows that hold it, which is the row if there is one.
/// @tparam Shares whether blocks are shared in normal operation (`kv::prefix_store`). If not, all blocks of a row count
/// as its own, and a call is O(1). From the first fork on, that is only a bound.
template <bool Shares>
class exclusive_blocks {
 public:
  [[nodiscard]] static constexpr std::size_t required_bytes(std::size_t rows, std::size_t blocks) noexcept {
    return storage_layout{}.add<std::uint32_t>(rows).add<std::uint32_t>(Shares ? blocks : 0).bytes();
  }
  exclusive_blocks(arena& memory, std::size_t rows, std::size_t blocks) noexcept
      : own_{memory.take<std::uint32_t>(rows)},
        holders_{memory.take_uninitialised<std::uint32_t>(Shares ? blocks : 0)},
        rows_{rows} {}

  /// Per row. 0 for a row that is not in use.
  [[nodiscard]] std::span<const std::uint32_t> by_row() const noexcept { return {own_, rows_}; }
  [[nodiscard]] std::uint32_t of(std::uint32_t row) const noexcept { return own_[row]; }
  /// Whether the counts are exact; otherwise they are upper bounds.
  [[nodiscard]] bool is_exact() const noexcept { return Shares || !forked_; }
  void forked() noexcept { forked_ = true; }
  /// Blocks in several rows, each counted once; 0 if unknown.
  [[nodiscard]] std::size_t shared() const noexcept { return shared_; }

  /// A row has new blocks without another owner, or gives back such blocks unused.
  void taken(std::uint32_t row, std::span<const kv::block_id> ids) noexcept {
    own_[row] += static_cast<std::uint32_t>(ids.size());
    if constexpr (Shares) {
      for (const kv::block_id id : ids) holders_[id] = row;
    }
  }
  void untaken(std::uint32_t row, std::size_t n) noexcept { own_[row] -= static_cast<std::uint32_t>(n); }

  /// After `store.share(ids)` for a row, or after a release by it was undone.
  template <class Store>
  void joined(std::uint32_t row, std::span<const kv::block_id> ids, const Store& store) noexcept {
    if constexpr (Shares) {
      for (const kv::block_id id : ids) {
        switch (store.references(id)) {
          case 1:
            holders_[id] = row;
            ++own_[row];
            break;
          case 2:
            --own_[holders_[id]];
            ++shared_;
            [[fallthrough]];
          default: holders_[id] ^= row;
        }
      }
    } else {
      own_[row] += static_cast<std::uint32_t>(ids.size());
    }
  }
  /// After `store.release(ids)` by a row, or after a share was undone.
  template <class Store>
  void left(std::uint32_t row, std::span<const kv::block_id> ids, const Store& store) noexcept {
    if constexpr (Shares) {
      for (const kv::block_id id : ids) {
        switch (store.references(id)) {
          case 0: --own_[row]; break;
          case 1:
            holders_[id] ^= row;
            ++own_[holders_[id]];
            --shared_;
            break;
          default: holders_[id] ^= row;
        }
      }
    } else {
      own_[row] -= static_cast<std::uint32_t>(ids.size());
    }
  }

 private:
  std::uint32_t* own_;
  std::uint32_t* holders_;
  std::size_t rows_;
  std::size_t shared_ = 0;
  bool forked_ = false;
};

}  // namespace detail
TESSERA_NAMESPACE_END
