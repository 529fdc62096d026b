// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/kv/block_table.hpp>
#include <tessera/kv/concepts.hpp>
#include <tessera/kv/host_tier.hpp>
#include <tessera/pipeline/block_reads.hpp>
#include <tessera/pipeline/exclusive_blocks.hpp>
#include <tessera/pipeline/limits.hpp>
#include <tessera/pipeline/plan.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

/// @file
/// The KV memory of one instance: the blocks of each request, the blocks that it lacks, and the blocks that others can
/// find.

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Tells the eviction order a request's wish for these of its blocks, if the order takes wishes. O(ids.size()).
template <class BlockStore, class Request>
void wish(BlockStore& blocks, const Request& r, std::span<const kv::block_id> ids) noexcept {
  if constexpr (requires { blocks.retain(ids, BlockStore::eviction_type::retention_of(r)); }) {
    blocks.retain(ids, BlockStore::eviction_type::retention_of(r));
  } else {
    static_cast<void>(blocks), static_cast<void>(r), static_cast<void>(ids);
  }
}

/// The host memory that goes with a block store.
template <class BlockStore>
struct host_of {
  using type = kv::host_tier;
};
template <class BlockStore>
  requires requires { typename BlockStore::host_type; }
struct host_of<BlockStore> {
  using type = typename BlockStore::host_type;
};

/// The KV memory of one instance: blocks, block tables and host tier. Changes here are final; changes that a plan may
/// undo are in `kv_ledger`. Independent of order and admission.
///
/// Callers ask in tokens, and get answers in blocks. Only this class knows their size and kinds.
template <schedulable Request, class BlockStore>
class kv_memory {
 protected:
  using state = typename Request::state_type;

 public:
  /// `cached_blocks` of a request with KV computed before the prefixes were forgotten: none of it is to be found.
  static constexpr std::uint32_t keeps_to_itself = no_index;

  using hash = kv::hash_of<BlockStore>;                                                         ///< The hash of a full
                                                                                                ///< block.
  static constexpr bool shares = prefix_hashed<Request, hash> && kv::prefix_store<BlockStore>;  ///< Whether blocks are
                                                                                                ///< shared.

  using host_type = typename host_of<BlockStore>::type;  ///< Host memory.
  static constexpr bool has_two_levels =
      shares && !std::same_as<host_type, kv::host_tier>;  ///< Whether prefixes are found there as well.

  using limits = scheduler_limits;      ///< Capacities.
  using tables_type = kv::block_table;  ///< The blocks of each row.
  template <class Tables>
  using shown_by = Tables;  ///< The form in which a plan shows it.

  static constexpr bool slides = false;  ///< Whether blocks are given back while a request runs.

  /// Most tokens of one sequence that have KV.
  [[nodiscard]] static constexpr tokens longest(const scheduler_limits& l) noexcept { return l.longest(); }

  [[nodiscard]] static constexpr kv::block_table::limits table_limits(const scheduler_limits& l) noexcept {
    return {.rows = l.rows(), .blocks_per_row = l.blocks_per_row(), .block_size = l.block_size};
  }

  [[nodiscard]] BlockStore& store() noexcept { return blocks_; }
  [[nodiscard]] const BlockStore& store() const noexcept { return blocks_; }
  [[nodiscard]] kv::block_table& tables() noexcept { return table_; }
  [[nodiscard]] const kv::block_table& tables() const noexcept { return table_; }
  [[nodiscard]] const host_type& host() const noexcept { return host_; }
  [[nodiscard]] const exclusive_blocks<shares>& own() const noexcept { return own_; }
  [[nodiscard]] std::int64_t free_blocks() const noexcept { return static_cast<std::int64_t>(blocks_.free()); }
  [[nodiscard]] std::int64_t capacity() const noexcept { return static_cast<std::int64_t>(blocks_.capacity()); }
  [[nodiscard]] std::size_t free_rows() const noexcept { return table_.free_rows(); }
  /// Tokens in a block, for policies that use it.
  [[nodiscard]] tokens block_size() const noexcept { return block_size_; }
  /// Whether drafts can be rejected.
  [[nodiscard]] static constexpr bool takes_drafts() noexcept { return true; }

  // -- demand ------------------------------------------------------------------------------------------------------

  /// Blocks that a sequence of this length holds, with those for the slots ahead of it.
  [[nodiscard]] blocks whole(tokens length) const noexcept {
    return blocks_for(min(length + slots_ahead_, max(length, most_slots_)), block_size_);
  }

  /// Device blocks in a row that is in use.
  [[nodiscard]] blocks held(std::uint32_t row) const noexcept {
    return blocks{static_cast<std::int64_t>(table_.size(row))};
  }

  /// The same for a request with a row.
  [[nodiscard]] blocks held(const Request& r) const noexcept { return held(r.state().row); }

  /// Blocks that it will hold in addition at this length.
  [[nodiscard]] blocks to_come(const Request& r, tokens length) const noexcept {
    return max(whole(length) - held(r), blocks{});
  }

  /// Blocks that it lacks for the KV of its first `length` tokens, and for its first `reserved`, which are kept for it.
  [[nodiscard]] blocks lacks(const Request& r, tokens length, tokens reserved = {}) const noexcept {
    return to_come(r, max(length, reserved));
  }

  /// Tokens that it has blocks for, besides the slots ahead.
  [[nodiscard]] tokens room(const Request& r) const noexcept { return room_in(block_size_ * held(r).count()); }

  /// The length that it can reach with `more` blocks, at most `wanted`.
  [[nodiscard]] tokens reach(const Request& r, tokens wanted, blocks more) const noexcept {
    return min(wanted, room_in(block_size_ * (held(r) + more).count()));
  }

  /// `room` of rows without new blocks; 0 for others. A function object, so that a loop over many rows looks nothing up
  /// twice.
  [[nodiscard]] auto told_room() const noexcept {
    return [table = &table_, block_size = block_size_.count(), ahead = slots_ahead_.count(),
            most = most_slots_.count()](std::uint32_t row) noexcept {
      const std::int64_t slots = static_cast<std::int64_t>(table->sent_size(row)) * block_size;
      return slots < most ? slots - ahead : slots;
    };
  }

  /// Blocks with KV that it has, on device or host.
  [[nodiscard]] blocks written(const Request& r) const noexcept { return blocks_for(r.state().computed, block_size_); }

  /// Blocks that it found in the prefix cache when it started, an upper bound.
  [[nodiscard]] blocks found(const Request& r) const noexcept {
    return blocks{static_cast<std::int64_t>(r.state().shared_blocks)};
  }

  /// Blocks that a row holds alone.
  [[nodiscard]] std::int64_t exclusive(const Request& r) const noexcept { return own_.of(r.state().row); }

  /// Whether a request has hashes of blocks that its first `length` tokens do not fill. Another request with a
  /// different continuation would find such a block. O(1).
  [[nodiscard]] bool names_too_much(const Request& r, tokens length) const noexcept {
    if constexpr (shares) {
      return std::span<const hash>{r.prefix_hashes()}.size() > static_cast<std::size_t>(length / block_size_);
    } else {
      static_cast<void>(r), static_cast<void>(length);
      return false;
    }
  }

  /// The hash by which others can find the block that a request computes behind its first `n` tokens; null if there is
  /// none. O(1).
  [[nodiscard]] const hash* next_hash(const Request& r, tokens n) const noexcept {
    if constexpr (shares) {
      const std::span<const hash> hashes = r.prefix_hashes();
      const auto i = static_cast<std::size_t>(n / block_size_);
      return i < hashes.size() && r.state().cached_blocks != keeps_to_itself ? &hashes[i] : nullptr;
    } else {
      static_cast<void>(r), static_cast<void>(n);
      return nullptr;
    }
  }

  /// The hash of the block that a starting request would take behind `n` tokens if it were known; null if there is
  /// none.
  [[nodiscard]] const hash* next_wanted(const Request& r, tokens n) const noexcept {
    if constexpr (shares) {
      const std::span<const hash> hashes = usable_hashes(r);
      const auto i = static_cast<std::size_t>(n / block_size_);
      return i < hashes.size() ? &hashes[i] : nullptr;
    } else {
      static_cast<void>(r), static_cast<void>(n);
      return nullptr;
    }
  }

  /// Blocks that a request lacks if the first `known` blocks of its prompt are found.
  [[nodiscard]] blocks behind(tokens length, std::uint32_t known) const noexcept {
    return max(whole(length) - blocks{static_cast<std::int64_t>(known)}, blocks{});
  }

  /// Whether a block is found by this hash.
  [[nodiscard]] bool knows(const hash& h) const noexcept {
    if constexpr (shares) {
      return blocks_.knows(h);
    } else {
      static_cast<void>(h);
      return false;
    }
  }
  /// The number of blocks of its prefix that became known since `known` was computed. Updates `known`.
  [[nodiscard]] blocks known_beyond(const Request& r, std::size_t& known) const noexcept {
    const std::size_t before = known;
    if constexpr (shares) {
      const std::span<const hash> hashes = usable_hashes(r);
      while (known < hashes.size() && blocks_.knows(hashes[known])) ++known;
    } else {
      static_cast<void>(r);
    }
    return blocks{static_cast<std::int64_t>(known - before)};
  }

  /// Leading blocks of a victim that need no copy: others hold them, and they can be found by their hashes. O(these).
  [[nodiscard]] std::size_t kept_by_others(const Request& r) const noexcept {
    std::size_t n = 0;
    if constexpr (shares) {
      const state& s = r.state();
      const std::span<const kv::block_id> row = table_.row(s.row);
      if (s.cached_blocks == keeps_to_itself) return 0;
      const auto written = static_cast<std::size_t>(s.computed / block_size_);
      while (n < s.cached_blocks && n < written && blocks_.references(row[n]) > 1) ++n;
    } else {
      static_cast<void>(r);
    }
    return n;
  }

  /// Blocks that a swapped request left to others: its host copy begins behind them.
  [[nodiscard]] std::size_t left_to_others(const Request& r) const noexcept {
    const state& s = r.state();
    return s.host_head == no_index ? 0 : written_blocks(s) - host_.size(s.host_head);
  }

  // -- what the engine knows ---------------------------------------------------------------------------------------

  /// Blocks at the end of a row that the engine was not told of yet.
  [[nodiscard]] std::uint32_t new_blocks(std::uint32_t row) const noexcept {
    return static_cast<std::uint32_t>(table_.size(row) - table_.sent(row));
  }

  /// Whether the engine knows the row.
  [[nodiscard]] bool is_told(std::uint32_t row) const noexcept { return table_.sent(row) != 0; }

  void tell(std::uint32_t row) noexcept { table_.mark_sent(row); }

  // -- final -------------------------------------------------------------------------------------------------------

  /// Gives back a request's blocks and row.
  void release(Request& r) noexcept {
    wish(blocks_, r, table_.row(r.state().row));
    release_row(leave_row(r));
  }

  /// Takes a request off its row, and returns the row: for a request that leaves before its blocks may.
  [[nodiscard]] static std::uint32_t leave_row(Request& r) noexcept {
    return std::exchange(request_access::state(r).row, no_index);
  }

  void release_row(std::uint32_t row) noexcept {
    give_back(row, 0);
    table_.release_row(row);
  }

  /// Keeps the blocks of a request's first `length` tokens. Returns the number given back.
  blocks trim(Request& r, tokens length) noexcept {
    const std::uint32_t row = r.state().row;
    const auto n = static_cast<std::size_t>(whole(length).count());
    const std::size_t size = table_.size(row);
    if (size <= n) return blocks{};
    reads_.note(table_.row(row).subspan(n));
    give_back(row, n);
    table_.truncate(row, n);
    return blocks{static_cast<std::int64_t>(size - n)};
  }

  /// Whether there may be a block to publish when a sequence has come to `computed`, token by token.
  [[nodiscard]] bool fills_block(const Request& /*r*/, tokens computed) const noexcept {
    return shares && computed % block_size_ == tokens{};
  }

  /// Makes full blocks findable that hold KV of the first `computed` tokens. Returns how many of them are also among
  /// the first `known` of the prefix of `watched`, if that is not null.
  std::size_t publish(Request& r, tokens computed, const Request* watched, std::size_t known) noexcept {
    std::size_t seen = 0;
    if constexpr (shares) {
      state& s = state_of(r);
      const std::span<const hash> hashes = r.prefix_hashes();
      if (s.cached_blocks >= hashes.size()) return 0;
      TESSERA_ASSERT(!names_too_much(r, s.length), "more hashes than full blocks");
      if (names_too_much(r, s.length)) {
        s.cached_blocks = keeps_to_itself;  // it is unknown which of its hashes are right
        return 0;
      }
      const auto full = static_cast<std::size_t>(computed / block_size_);
      if (s.cached_blocks >= full) return 0;
      const std::span<const kv::block_id> row = table_.row(s.row);
      const std::span<const hash> theirs = watched != nullptr ? watched->prefix_hashes() : std::span<const hash>{};
      const std::size_t from = s.cached_blocks;
      const std::size_t end = full < hashes.size() ? full : hashes.size();
      // A block with another hash already, as a fork's may be, keeps it.
      static_cast<void>(blocks_.publish(row.first(end), hashes.first(end), from));
      wish(blocks_, r, row.first(end).subspan(from));
      for (std::size_t i = from; i < end && i < known && i < theirs.size(); ++i) {
        seen += theirs[i] == hashes[i] ? 1U : 0U;
      }
      s.cached_blocks = static_cast<std::uint32_t>(end);
    } else {
      static_cast<void>(r), static_cast<void>(computed), static_cast<void>(watched), static_cast<void>(known);
    }
    return seen;
  }

  /// Takes back the last `n` computed tokens: drafts that were rejected. If the request was swapped out meanwhile, its
  /// copy gets shorter. O(1), or O(blocks of the copy).
  void take_back(Request& r, tokens n) noexcept {
    state& s = state_of(r);
    if (n == tokens{} || s.computed == tokens{}) return;  // its KV was dropped meanwhile
    const std::size_t before = written_blocks(s);
    s.computed -= n;
    const std::size_t after = written_blocks(s);
    if (s.host_head != no_index && after != before) {
      host_.shorten(s.host_head, host_.size(s.host_head) - (before - after));
    }
  }

  /// Gives back a request's host blocks, if it has any.
  void forget_host_copy(Request& r) noexcept {
    state& s = state_of(r);
    if (s.host_head != no_index) {
      const status released = host_.release(s.host_head);
      TESSERA_ASSERT(released == status::ok, "a swapped request's host blocks are its own");
      static_cast<void>(released);
    }
    s.host_head = no_index;
  }

 protected:
  [[nodiscard]] static constexpr std::size_t required_bytes(const scheduler_limits& l) noexcept {
    return storage_layout{}
        .add_bytes(BlockStore::required_bytes(store_limits(l)))
        .add_bytes(kv::block_table::required_bytes(table_limits(l)))
        .add_bytes(host_type::required_bytes(host_limits(l)))
        .add_bytes(exclusive_blocks<shares>::required_bytes(l.rows(), l.blocks))
        .add_bytes(block_reads::required_bytes(l))
        .bytes();
  }
  kv_memory(arena& memory, const scheduler_limits& l) noexcept
      : block_size_{l.block_size},
        slots_ahead_{l.slots_ahead},
        most_slots_{l.most_slots()},
        blocks_{memory, store_limits(l)},
        table_{memory, table_limits(l)},
        host_{memory, host_limits(l)},
        own_{memory, l.rows(), l.blocks},
        reads_{memory, l} {}

  static constexpr typename BlockStore::limits store_limits(const scheduler_limits& l) noexcept {
    return {.blocks = l.blocks};
  }

  static constexpr typename host_type::limits host_limits(const scheduler_limits& l) noexcept {
    return {.host_blocks = l.host_blocks};
  }

  static state& state_of(Request& r) noexcept { return request_access::state(r); }

  [[nodiscard]] std::size_t written_blocks(const state& s) const noexcept {
    return static_cast<std::size_t>(blocks_for(s.computed, block_size_).count());
  }

  /// Tokens of a sequence with so many slots.
  [[nodiscard]] tokens room_in(tokens slots) const noexcept {
    return slots < most_slots_ ? max(slots - slots_ahead_, tokens{}) : slots;
  }

  /// Hashes of the blocks that it may take from the cache.
  [[nodiscard]] std::span<const hash> usable_hashes(const Request& r) const noexcept
    requires shares
  {
    const std::span<const hash> hashes = r.prefix_hashes();
    TESSERA_ASSERT(!names_too_much(r, r.state().length), "more hashes than full blocks");
    if (names_too_much(r, r.state().length)) return {};
    const auto most = static_cast<std::size_t>((r.state().length.count() - 1) / block_size_.count());
    return hashes.size() > most ? hashes.first(most) : hashes;
  }

  void give_back(std::uint32_t row, std::size_t keep) noexcept {
    const std::span<const kv::block_id> ids = table_.row(row).subspan(keep);
    const status released = blocks_.release(ids);
    TESSERA_ASSERT(released == status::ok, "a row's blocks are its own");
    static_cast<void>(released);
    own_.left(row, ids, blocks_);
  }

  tokens block_size_;
  tokens slots_ahead_;
  tokens most_slots_;  ///< Where there are so many, none are needed ahead.
  BlockStore blocks_;
  kv::block_table table_;
  host_type host_;
  exclusive_blocks<shares> own_;
  block_reads reads_;
};

}  // namespace detail
TESSERA_NAMESPACE_END
