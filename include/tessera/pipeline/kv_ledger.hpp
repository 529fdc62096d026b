// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/kv/block_table.hpp>
#include <tessera/kv/concepts.hpp>
#include <tessera/kv/host_tier.hpp>
#include <tessera/pipeline/limits.hpp>
#include <tessera/pipeline/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The KV memory of one instance - blocks, block tables, host tier - and what the pending plan has done to it, so that
/// it can be undone exactly. Each operation is written down; undoing replays them backwards, which the stores promise
/// to take to the letter. Knows nothing of order or admission.
///
/// The row of a victim stays readable until the plan is settled, because the engine copies from it; hence there are
/// twice as many rows as residents.
template <schedulable Request, class BlockStore>
class kv_ledger {
  using state = typename Request::state_type;

 public:
  [[nodiscard]] static constexpr std::size_t required_bytes(const scheduler_limits& l) noexcept {
    return storage_layout{}
        .add_bytes(BlockStore::required_bytes(store_limits(l)))
        .add_bytes(kv::block_table::required_bytes(table_limits(l)))
        .add_bytes(kv::host_tier::required_bytes(host_limits(l)))
        .add_bytes(fixed_vector<kv_transfer<Request>>::required_bytes(l.residents) * 2)
        .add_bytes(fixed_vector<kv_fetch<Request>>::required_bytes(l.residents))
        .add_bytes(fixed_vector<preemption<Request>>::required_bytes(l.residents))
        .add_bytes(fixed_vector<kv::block_id>::required_bytes(l.host_blocks))
        .add_bytes(fixed_vector<reservation>::required_bytes(reservations(l)))
        .bytes();
  }

  kv_ledger(arena& memory, const scheduler_limits& l) noexcept
      : block_size_{l.block_size},
        blocks_{memory, store_limits(l)},
        table_{memory, table_limits(l)},
        host_{memory, host_limits(l)},
        swap_out_{memory, l.residents},
        swap_in_{memory, l.residents},
        fetch_{memory, l.residents},
        victims_{memory, l.residents},
        host_ids_{memory, l.host_blocks},
        journal_{memory, reservations(l)} {}

  [[nodiscard]] const BlockStore& store() const noexcept { return blocks_; }
  [[nodiscard]] kv::block_table& tables() noexcept { return table_; }
  [[nodiscard]] const kv::block_table& tables() const noexcept { return table_; }
  [[nodiscard]] const kv::host_tier& host() const noexcept { return host_; }
  [[nodiscard]] std::int64_t free_blocks() const noexcept { return static_cast<std::int64_t>(blocks_.free()); }
  /// Device blocks in the request's row. Requires: it has one.
  [[nodiscard]] std::int64_t held(const Request& r) const noexcept {
    return static_cast<std::int64_t>(table_.row(r.state().row).size());
  }

  [[nodiscard]] std::span<const kv_transfer<Request>> swap_out() const noexcept { return swap_out_; }
  [[nodiscard]] std::span<const kv_transfer<Request>> swap_in() const noexcept { return swap_in_; }
  [[nodiscard]] std::span<const kv_fetch<Request>> fetch() const noexcept { return fetch_; }
  [[nodiscard]] std::span<const preemption<Request>> victims() const noexcept { return victims_; }

  // -- within a plan: undone by `roll_back` ------------------------------------------------------------------------

  /// A new plan begins; what the previous one did stands.
  void begin() noexcept {
    swap_out_.clear();
    swap_in_.clear();
    fetch_.clear();
    victims_.clear();
    host_ids_.clear();
    journal_.clear();
  }

  /// Where the journal is now, for `roll_back`.
  [[nodiscard]] std::size_t mark() const noexcept { return journal_.size(); }

  /// Gives a request an empty row.
  void open_row(Request& r) noexcept {
    state& s = state_of(r);
    s.row = table_.acquire_row();
    TESSERA_ASSERT(s.row != no_index, "rows are twice the residents");
    note(reservation::what::row, r, 0);
  }

  /// Takes the blocks that the prefix cache has of this prompt. At least one token is left to compute, because the
  /// step must sample from it.
  [[nodiscard]] std::size_t share_prefix(Request& r) noexcept {
    if constexpr (prefix_hashed<Request> && kv::prefix_store<BlockStore>) {
      state& s = state_of(r);
      std::span<const std::uint64_t> hashes = r.prefix_hashes();
      const auto most = static_cast<std::size_t>((s.length.count() - 1) / block_size_.count());
      if (hashes.size() > most) hashes = hashes.first(most);
      const std::span<kv::block_id> ids = table_.extend(s.row, hashes.size());
      const std::size_t hits = blocks_.match(hashes, ids);
      table_.truncate(s.row, hits);
      const status shared = blocks_.share(ids.first(hits));
      TESSERA_ASSERT(shared == status::ok, "a matched block can be shared");
      static_cast<void>(shared);
      note(reservation::what::shared, r, hits);
      s.room = tokens{static_cast<std::int64_t>(hits)} * block_size_.count();
      return hits;
    } else {
      static_cast<void>(r);
      return 0;
    }
  }

  /// Gives a request `n` more blocks. Requires: as many are free. O(n).
  void take(Request& r, std::size_t n) noexcept {
    state& s = state_of(r);
    const status taken = blocks_.allocate(table_.extend(s.row, n));
    TESSERA_ASSERT(taken == status::ok, "make_free promised the blocks");
    static_cast<void>(taken);
    s.room += tokens{static_cast<std::int64_t>(n)} * block_size_.count();
    note(reservation::what::grown, r, n);
  }

  /// Takes a request's blocks away, after copying them to the host if `mode` says so and there is room. O(blocks held).
  void evict(Request& r, preemption_mode mode, std::uint64_t plan_id) noexcept {
    state& s = state_of(r);
    const std::span<const kv::block_id> row = table_.row(s.row);
    const auto written = static_cast<std::size_t>(blocks_for(s.computed, block_size_).count());
    if (written == 0 || (mode == preemption_mode::swap && host_.store(written, s.host_head) != status::ok)) {
      mode = preemption_mode::recompute;
    }
    if (mode == preemption_mode::swap) {
      s.host_blocks = static_cast<std::uint32_t>(written);
      swap_out_.push_back({&r, row.first(written), copy_host_ids(s)});
    }
    s.planned = true;
    victims_.push_back({&r, mode});
    const status released = blocks_.release(row);
    TESSERA_ASSERT(released == status::ok, "a resident's blocks are its own");
    static_cast<void>(released);
    note(reservation::what::evicted, r, s.preempted_by);
    s.preempted_by = plan_id;
  }

  /// Has the KV of a swapped or adopted request brought to the row that it was given.
  void bring_back(Request& r) noexcept {
    const state& s = state_of(r);
    const auto written = static_cast<std::size_t>(blocks_for(s.computed, block_size_).count());
    const std::span<const kv::block_id> device = table_.row(s.row).first(written);
    if (s.host_blocks == 0) {
      fetch_.push_back({&r, device});
    } else {
      swap_in_.push_back({&r, device, copy_host_ids(s)});
    }
  }

  /// Undoes what was done since `mark`, latest first. Returns the number of evictions undone.
  std::size_t roll_back(std::size_t mark) noexcept {
    std::size_t evictions = 0;
    for (; journal_.size() > mark; journal_.pop_back()) {
      const reservation& done = journal_.back();
      Request& r = *done.request;
      state& s = state_of(r);
      switch (done.kind) {
        case reservation::what::row:
          table_.release_row(s.row);
          s.row = no_index;
          s.room = tokens{};
          break;
        case reservation::what::shared:
          if constexpr (kv::prefix_store<BlockStore>) blocks_.undo_share(table_.row(s.row).first(done.count));
          table_.truncate(s.row, table_.row(s.row).size() - done.count);
          break;
        case reservation::what::grown: {
          const std::span<const kv::block_id> row = table_.row(s.row);
          blocks_.undo_allocate(row.last(done.count));
          table_.truncate(s.row, row.size() - done.count);
          s.room -= tokens{static_cast<std::int64_t>(done.count)} * block_size_.count();
          break;
        }
        case reservation::what::evicted:
          blocks_.undo_release(table_.row(s.row));
          if (victims_.back().mode == preemption_mode::swap) {
            for (std::size_t i = 0; i != s.host_blocks; ++i) host_ids_.pop_back();
            forget_host_copy(r);
            swap_out_.pop_back();
          }
          victims_.pop_back();
          s.preempted_by = done.count;
          s.planned = false;
          ++evictions;
          break;
      }
    }
    return evictions;
  }

  // -- settling: for good ------------------------------------------------------------------------------------------

  /// A victim's row is given up with the plan that evicted it.
  void close_row(Request& r) noexcept { table_.release_row(leave_row(r)); }

  /// Gives back a request's blocks and row.
  void release(Request& r) noexcept { release_row(leave_row(r)); }

  /// Takes a request off its row, and gives that back: apart where the request goes before its blocks may.
  [[nodiscard]] std::uint32_t leave_row(Request& r) noexcept {
    state& s = state_of(r);
    s.room = tokens{};
    return std::exchange(s.row, no_index);
  }
  void release_row(std::uint32_t row) noexcept {
    const status released = blocks_.release(table_.row(row));
    TESSERA_ASSERT(released == status::ok, "a row's blocks are its own");
    static_cast<void>(released);
    table_.release_row(row);
  }

  /// Prompt blocks that are now full become findable. Returns whether there were any.
  bool publish(Request& r) noexcept {
    if constexpr (prefix_hashed<Request> && kv::prefix_store<BlockStore>) {
      state& s = state_of(r);
      const std::span<const std::uint64_t> hashes = r.prefix_hashes();
      if (s.cached_blocks >= hashes.size()) return false;
      const auto full = static_cast<std::size_t>(s.computed / block_size_);
      const std::uint32_t before = s.cached_blocks;
      const std::span<const kv::block_id> row = table_.row(s.row);
      for (; s.cached_blocks < hashes.size() && s.cached_blocks < full; ++s.cached_blocks) {
        static_cast<void>(blocks_.publish(row[s.cached_blocks], hashes[s.cached_blocks]));
      }
      return s.cached_blocks != before;
    } else {
      static_cast<void>(r);
      return false;
    }
  }

  /// Gives back a request's host blocks, if it has any.
  void forget_host_copy(Request& r) noexcept {
    state& s = state_of(r);
    if (s.host_blocks != 0) {
      const status released = host_.release(s.host_head);
      TESSERA_ASSERT(released == status::ok, "a swapped request's host blocks are its own");
      static_cast<void>(released);
    }
    s.host_head = no_index;
    s.host_blocks = 0;
  }

 private:
  /// One undoable thing that a plan has done.
  struct reservation {
    enum class what : std::uint8_t { row, shared, grown, evicted } kind;
    Request* request;
    std::uint64_t count;  ///< Blocks (`shared`, `grown`), or the previous `preempted_by` (`evicted`).
  };

  // Per admitted request a row, a shared prefix and an allocation; per resident a growth or an eviction; per scheduled
  // request its lookahead.
  static constexpr std::size_t reservations(const scheduler_limits& l) noexcept { return 6 * l.residents; }
  static constexpr typename BlockStore::limits store_limits(const scheduler_limits& l) noexcept {
    return {.blocks = l.blocks};
  }
  static constexpr kv::block_table::limits table_limits(const scheduler_limits& l) noexcept {
    return {.rows = 2 * l.residents, .blocks_per_row = l.blocks_per_row(), .block_size = l.block_size};
  }
  static constexpr kv::host_tier::limits host_limits(const scheduler_limits& l) noexcept {
    return {.host_blocks = l.host_blocks};
  }

  static state& state_of(Request& r) noexcept { return request_access::state(r); }

  /// The request's host blocks as a span for the plan.
  [[nodiscard]] std::span<const kv::block_id> copy_host_ids(const state& s) noexcept {
    const std::size_t begin = host_ids_.size();
    host_.for_each(s.host_head, [this](kv::block_id id) noexcept { host_ids_.push_back(id); });
    return {host_ids_.data() + begin, host_ids_.size() - begin};
  }

  void note(typename reservation::what kind, Request& r, std::uint64_t count) noexcept {
    journal_.push_back({kind, &r, count});
  }

  tokens block_size_;
  BlockStore blocks_;
  kv::block_table table_;
  kv::host_tier host_;
  fixed_vector<kv_transfer<Request>> swap_out_;
  fixed_vector<kv_transfer<Request>> swap_in_;
  fixed_vector<kv_fetch<Request>> fetch_;
  fixed_vector<preemption<Request>> victims_;
  fixed_vector<kv::block_id> host_ids_;
  fixed_vector<reservation> journal_;
};

}  // namespace detail
TESSERA_NAMESPACE_END
