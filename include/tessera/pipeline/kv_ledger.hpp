// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/kv/block_table.hpp>
#include <tessera/kv/concepts.hpp>
#include <tessera/kv/copy_on_write.hpp>
#include <tessera/pipeline/exclusive_blocks.hpp>
#include <tessera/pipeline/kv_memory.hpp>
#include <tessera/pipeline/kv_moves.hpp>
#include <tessera/pipeline/limits.hpp>
#include <tessera/pipeline/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

/// @file
/// The changes of plans to the KV memory of one instance, logged so that they can be undone.

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The part of a prompt that `share_prefix` took from the prefix cache.
struct prefix_hit {
  std::size_t taken = 0;  ///< Blocks.
  tokens length{};        ///< Tokens with KV there.
  std::size_t known = 0;  ///< For `known_beyond`.
  blocks unsure{};        ///< Blocks of these without an owner, which may have twins. If they are evicted, the twins
                          ///< are found.
};

/// The KV memory of one instance with a journal of the open plan's changes, so that they can be undone exactly. Undoing
/// replays the journal backwards; the stores guarantee that this is exact.
///
/// The row of a victim stays readable until the plan is settled, because the engine copies from it. Hence there are
/// twice as many rows as residents, and as many again for each further plan in flight.
template <schedulable Request, class BlockStore>
class kv_ledger : public kv_memory<Request, BlockStore> {
  using memory_type = kv_memory<Request, BlockStore>;
  using state = typename Request::state_type;
  using memory_type::block_size_;
  using memory_type::blocks_;
  using memory_type::give_back;
  using memory_type::host_;
  using memory_type::own_;
  using memory_type::reads_;
  using memory_type::state_of;
  using memory_type::table_;
  using memory_type::usable_hashes;
  using memory_type::written_blocks;

 public:
  using hash = typename memory_type::hash;  ///< The hash of a full block.
  using memory_type::forget_host_copy;
  using memory_type::has_two_levels;
  using memory_type::keeps_to_itself;
  using memory_type::leave_row;
  using memory_type::release;
  using memory_type::shares;
  using memory_type::trim;

  [[nodiscard]] static constexpr std::size_t required_bytes(const scheduler_limits& l) noexcept {
    return storage_layout{}
        .add_bytes(memory_type::required_bytes(l))
        .add_bytes(fixed_vector<kv::block_copy>::required_bytes(l.residents))
        .add_bytes(fixed_vector<reservation>::required_bytes(reservations(l)))
        .template add<std::uint32_t>(has_two_levels ? l.blocks : 0)
        .bytes();
  }

  kv_ledger(arena& memory, const scheduler_limits& l) noexcept
      : memory_type{memory, l},
        copies_{memory, l.residents},
        journal_{memory, reservations(l)},
        swapped_in_round_{memory.take<std::uint32_t>(has_two_levels ? l.blocks : 0)} {}

  /// Lists the blocks of a request with KV from elsewhere, except for those of the `hit`. Returns the last plan before
  /// the present one that reads them. O(blocks of the request).
  std::uint64_t list_awaited(Request& r, const prefix_hit& hit, fixed_vector<kv_fetch<Request>>& list) const noexcept {
    const std::size_t written = written_blocks(r.state());
    const std::size_t first = hit.taken < written ? hit.taken : written;
    list.push_back({&r, first, table_.row(r.state().row).first(written).subspan(first)});
    return reads_.of(list.back().device, reads_.of_any(!moves_->victims.empty()));
  }
  /// The present plan, if it copies from any blocks; else 0.
  [[nodiscard]] std::uint64_t copies_now() const noexcept {
    const bool copies = !moves_->swap_out.empty() || !moves_->demoted.empty() || !moves_->copies.empty();
    return copies ? reads_.plan() : 0;
  }
  /// Whether a request that has KV of more tokens can continue after its first `n`.
  [[nodiscard]] static constexpr bool can_go_back(const Request& /*r*/, tokens /*n*/) noexcept { return true; }

  // -- within a plan: undone by `roll_back` ------------------------------------------------------------------------

  /// Begins the plan with this number. `before` is the number of the newest plan in flight, if there is one; its
  /// changes are final.
  void begin(kv_moves<Request>& moves, std::uint64_t plan, std::uint64_t before) noexcept {
    moves_ = &moves;
    reads_.begin(plan, before, !copies_.empty());
    ++round_;
    moves.clear();
    for (const kv::block_copy& c : copies_) moves.copies.push_back(c);
    journal_.clear();
  }

  /// The end of the journal, for `roll_back`.
  [[nodiscard]] std::size_t mark() const noexcept { return journal_.size(); }

  /// Gives a request an empty row.
  void open_row(Request& r) noexcept {
    state& s = state_of(r);
    s.row = table_.acquire_row();
    TESSERA_ASSERT(s.row != no_index, "the caller ensures a free row");
    note(reservation::what::row, r, mark_of(s));  // belongs to an earlier plan; a start overwrites it
  }

  /// Takes the blocks that the prefix cache has of this prompt. At least one token is left to compute, because the step
  /// must sample from it.
  [[nodiscard]] prefix_hit share_prefix(Request& r) noexcept {
    if constexpr (shares) {
      const state& s = r.state();
      const std::span<const hash> hashes = usable_hashes(r);
      const std::span<kv::block_id> ids = table_.extend(s.row, hashes.size());
      const std::size_t hits = blocks_.match(hashes, ids);
      table_.truncate(s.row, hits);
      prefix_hit hit{
          .taken = hits, .length = block_size_ * static_cast<std::int64_t>(hits), .known = hits, .unsure = {}};
      if constexpr (requires { blocks_.may_have_twins(kv::block_id{}); }) {
        for (const kv::block_id id : ids.first(hits)) {
          if (blocks_.references(id) == 0 && blocks_.may_have_twins(id)) hit.unsure += blocks{1};
        }
      }
      const status shared = blocks_.share(ids.first(hits));
      TESSERA_ASSERT(shared == status::ok, "a matched block can be shared");
      static_cast<void>(shared);
      own_.joined(s.row, ids.first(hits), blocks_);
      note(reservation::what::shared, r, hits);
      return hit;
    } else {
      static_cast<void>(r);
      return {};
    }
  }

  /// Gives a request the `more` blocks that it `lacks`. Requires: as many are free. O(these).
  void take(Request& r, blocks more, tokens /*length*/, tokens /*reserved*/ = {}) noexcept {
    const auto n = static_cast<std::size_t>(more.count());
    const std::uint32_t row = r.state().row;
    const std::span<kv::block_id> ids = table_.extend(row, n);
    const status taken = blocks_.allocate(ids);
    TESSERA_ASSERT(taken == status::ok, "make_free promised the blocks");
    static_cast<void>(taken);
    own_.taken(row, ids);
    note(reservation::what::grown, r, n);
    demote(r, ids);
  }

  /// Finds blocks of its prefix on the host, behind the first `hits`, which the device has. They are pinned until this
  /// plan is run. Returns their number.
  [[nodiscard]] std::size_t find_on_host(Request& r, std::size_t hits) noexcept {
    if constexpr (has_two_levels) {
      const std::span<const hash> hashes = usable_hashes(r).subspan(hits);
      std::size_t n = host_.capacity() - moves_->loaded_blocks;
      if (hashes.size() < n) n = hashes.size();
      if (n == 0) return 0;
      const std::size_t before = moves_->host_ids.size();
      const std::span<kv::block_id> ids{moves_->host_ids.extend(n), n};
      n = host_.match(hashes, ids);
      moves_->host_ids.truncate(before + n);
      if (n == 0) return 0;
      host_.pin(ids.first(n));
      moves_->loads.push_back(ids.first(n));
      moves_->loaded_blocks += n;
      note(reservation::what::loaded, r, n);
      return n;
    } else {
      static_cast<void>(r), static_cast<void>(hits);
      return 0;
    }
  }
  /// Loads the blocks of the latest `find_on_host` into the request's row, behind its first `hits` blocks.
  void load(Request& r, std::size_t hits, std::size_t n) noexcept {
    if (n == 0) return;
    moves_->swap_in.push_back({&r, hits, table_.row(r.state().row).subspan(hits, n), moves_->loads.back()});
    moves_->found_on_host += n;
  }

  /// Marks that a request found no block in this plan.
  void mark_stalled(Request& r, std::uint32_t plan_id) noexcept {
    state& s = state_of(r);
    note(reservation::what::stalled, r, mark_of(s));
    s.marked_in = plan_id;
    s.mark = plan_mark::stalled;
  }

  /// Takes a request's blocks away. If `mode` says so and there is room, copies those without another owner to the host
  /// first. `kept` is the result of `kept_by_others`. O(blocks held).
  void evict(Request& r, preemption_mode mode, std::size_t kept, std::uint32_t plan_id) noexcept {
    state& s = state_of(r);
    const std::span<const kv::block_id> row = table_.row(s.row);
    const std::size_t written = written_blocks(s);
    if (written == kept || (mode == preemption_mode::swap && host_.store(written - kept, s.host_head) != status::ok)) {
      mode = preemption_mode::recompute;
    }
    if (mode == preemption_mode::swap) {
      moves_->swap_out.push_back({&r, kept, row.subspan(kept, written - kept), copy_host_ids(s.host_head)});
      if constexpr (has_two_levels) {
        for (const kv::block_id id : row.subspan(kept, written - kept)) swapped_in_round_[id] = round_;
      }
    }
    moves_->victims.push_back({&r, mode});
    const status released = blocks_.release(row);
    TESSERA_ASSERT(released == status::ok, "a resident's blocks are its own");
    static_cast<void>(released);
    own_.left(s.row, row, blocks_);
    note(reservation::what::evicted, r, mark_of(s));
    s.marked_in = plan_id;
    s.mark = plan_mark::preempted;
  }

  /// Fetches the KV of a swapped or adopted request into its row, except for that of the `hit`. Returns as
  /// `list_awaited`; 0 if it comes from the host.
  std::uint64_t bring_back(Request& r, const prefix_hit& hit) noexcept {
    const state& s = r.state();
    const std::size_t written = written_blocks(s);
    if (hit.taken >= written) return 0;
    if (s.host_head == no_index) return list_awaited(r, hit, moves_->fetch);
    const std::span<const kv::block_id> device = table_.row(s.row).first(written).subspan(hit.taken);
    const std::span<const kv::block_id> host = copy_host_ids(s.host_head);
    moves_->swap_in.push_back({&r, hit.taken, device, host.last(written - hit.taken)});
    return 0;
  }

  /// Forgets the latest plan. Requires: all of its changes were undone.
  void forget_plan() noexcept { reads_.forget_plan(); }

  /// Undoes all changes since `mark`, latest first. Returns the number of evictions undone.
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
          set_mark(s, done.count);
          break;
        case reservation::what::shared:
          if constexpr (shares) {
            const std::span<const kv::block_id> ids = table_.row(s.row).first(done.count);
            blocks_.undo_share(ids);
            own_.left(s.row, ids, blocks_);
          }
          table_.truncate(s.row, table_.size(s.row) - done.count);
          break;
        case reservation::what::grown: {
          const std::span<const kv::block_id> row = table_.row(s.row);
          blocks_.undo_allocate(row.last(done.count));
          own_.untaken(s.row, done.count);
          table_.truncate(s.row, row.size() - done.count);
          break;
        }
        case reservation::what::evicted:
          blocks_.undo_release(table_.row(s.row));
          own_.joined(s.row, table_.row(s.row), blocks_);
          if (moves_->victims.back().mode == preemption_mode::swap) {
            moves_->host_ids.truncate(moves_->host_ids.size() - moves_->swap_out.back().host.size());
            if constexpr (has_two_levels) {
              host_.undo_store(std::exchange(s.host_head, no_index));
            } else {
              forget_host_copy(r);
            }
            moves_->swap_out.pop_back();
          }
          moves_->victims.pop_back();
          set_mark(s, done.count);
          ++evictions;
          break;
        case reservation::what::stalled: set_mark(s, done.count); break;
        case reservation::what::demoted:
          if constexpr (has_two_levels) {
            for (std::uint64_t n = done.count; n != 0; --n) {
              host_.undo_take(moves_->demoted.back().host);
              moves_->demoted.pop_back();
            }
          }
          break;
        case reservation::what::loaded:
          if constexpr (has_two_levels) {
            host_.undo_pin(moves_->loads.back());
            moves_->loads.pop_back();
            moves_->loaded_blocks -= done.count;
            moves_->host_ids.truncate(moves_->host_ids.size() - done.count);
          }
          break;
      }
    }
    return evictions;
  }

  // -- settling: final ---------------------------------------------------------------------------------------------

  /// Makes a plan final: it cannot be undone any more. Blocks that it copies to the host are findable there from now
  /// on. Blocks that it copies from there may be replaced from now on.
  void stands(const kv_moves<Request>& moves) noexcept {
    for (const preemption<Request>& v : moves.victims) reads_.note(table_.row(v.request->state().row));
    if constexpr (has_two_levels) {
      for (const kv_transfer<Request>& t : moves.swap_out) {
        const state& s = t.request->state();
        if (s.cached_blocks == keeps_to_itself) continue;
        const std::span<const hash> hashes = t.request->prefix_hashes();
        std::size_t end = s.cached_blocks < hashes.size() ? s.cached_blocks : hashes.size();
        if (end > t.first + t.host.size()) end = t.first + t.host.size();
        for (std::size_t i = t.first; i < end; ++i) host_.publish(t.host[i - t.first], hashes[i]);
      }
      // In the order of their evictions, so that they are evicted here in the same order.
      for (std::size_t i = 0; i != moves.demoted.size(); ++i) {
        host_.settle(moves.demoted[i].host, blocks_.last_hash(moves.demoted[i].device));
      }
      for (const std::span<const kv::block_id> ids : moves.loads) host_.unpin(ids);
    } else {
      static_cast<void>(moves);
    }
  }
  /// Forgets all prefixes.
  void forget_prefixes() noexcept {
    blocks_.clear();
    if constexpr (has_two_levels) host_.clear();
  }

  /// Drops the copies on write: a plan that was run has listed them.
  void copies_done() noexcept { copies_.clear(); }

  /// Gives up the rows of victims, with the plan that evicted them.
  void close_rows(kv_moves<Request>& moves) noexcept {
    for (const std::uint32_t row : moves.left_rows) table_.release_row(row);
    moves.left_rows.clear();
  }

  /// The same while a plan in flight contains the request: its row is given up with that plan.
  void release(Request& r, kv_moves<Request>& moves) noexcept {
    wish(blocks_, r, table_.row(r.state().row));
    const std::uint32_t row = leave_row(r);
    reads_.note(table_.row(row));
    give_back(row, 0);
    table_.truncate(row, 0);
    moves.left_rows.push_back(row);
  }

  /// `child` gets a row of its own with the blocks of `parent`. If the last one is not full, the next plan copies it.
  /// False, and no change, if there is no row, no block for the copy, or no room to list the copy.
  [[nodiscard]] bool fork(const Request& parent, Request& child) noexcept {
    const std::uint32_t from = parent.state().row;
    const tokens computed = parent.state().computed;
    const bool partial = computed % block_size_ != tokens{};
    if (table_.free_rows() == 0 || (partial && (blocks_.free() == 0 || copies_.full()))) return false;
    kv::copy_on_write<BlockStore> copies{blocks_, table_};
    const std::uint32_t row = copies.fork(from);
    own_.joined(row, table_.row(row), blocks_);
    own_.forked();
    request_access::state(child).row = row;
    trim(child, parent.state().computed);
    if (partial) {
      const std::size_t last = table_.size(row) - 1;
      const kv::block_id before = table_.row(row)[last];
      kv::block_copy copy{};
      static_cast<void>(copies.ensure_writable(row, computed, copy));
      own_.left(row, {&before, 1}, blocks_);
      own_.taken(row, table_.row(row).subspan(last, 1));
      // In the order of the forks each copy is right, even if its source is an earlier one's target, or was freed and
      // reallocated since.
      copies_.push_back(copy);
    }
    return true;
  }

  /// Whether a copy that no plan has listed yet fills a block of the request.
  [[nodiscard]] bool awaits_copy(const Request& r) const noexcept { return is_filled_by(r, copies_); }
  /// Whether one of `copies` fills a block of the request.
  [[nodiscard]] bool is_filled_by(const Request& r, std::span<const kv::block_copy> copies) const noexcept {
    if (r.state().row == no_index || copies.empty()) return false;
    for (const kv::block_id id : table_.row(r.state().row)) {
      for (const kv::block_copy& c : copies) {
        if (c.to == id) return true;
      }
    }
    return false;
  }

 private:
  /// One undoable change of a plan.
  struct reservation {
    enum class what : std::uint8_t { row, shared, grown, evicted, stalled, demoted, loaded } kind;
    Request* request;
    std::uint64_t count;  ///< Blocks (`shared`, `grown`), or the previous mark (others).
  };

  // Per admitted request a row, a shared prefix and an allocation. Per resident a growth, an eviction or a mark. Per
  // scheduled request its lookahead.
  static constexpr std::size_t reservations(const scheduler_limits& l) noexcept {
    return (has_two_levels ? 10 : 6) * l.residents;
  }

  [[nodiscard]] static std::uint64_t mark_of(const state& s) noexcept {
    return std::uint64_t{s.marked_in} << 8U | static_cast<std::uint64_t>(s.mark);
  }
  static void set_mark(state& s, std::uint64_t mark) noexcept {
    s.marked_in = static_cast<std::uint32_t>(mark >> 8U);
    s.mark = static_cast<plan_mark>(mark & 0xffU);
  }

  /// Copies the content that was evicted for these blocks to the host, unless it is there already or is copied in this
  /// plan.
  void demote(Request& r, std::span<const kv::block_id> ids) noexcept {
    if constexpr (has_two_levels) {
      if (!BlockStore::demotes) return;
      const std::size_t before = moves_->demoted.size();
      for (const kv::block_id id : ids) {
        if (!blocks_.was_evicted(id) || swapped_in_round_[id] == round_) continue;
        const hash h = blocks_.last_hash(id);
        if (blocks_.knows(h) || host_.knows(h)) continue;
        const kv::block_id to = moves_->demoted.full() ? no_index : host_.take();
        if (to == no_index) break;
        moves_->demoted.push_back({id, to});
      }
      if (moves_->demoted.size() != before) note(reservation::what::demoted, r, moves_->demoted.size() - before);
    } else {
      static_cast<void>(r), static_cast<void>(ids);
    }
  }

  /// A chain of host blocks as a span for the plan.
  [[nodiscard]] std::span<const kv::block_id> copy_host_ids(std::uint32_t head) noexcept {
    const std::size_t n = host_.size(head);
    const std::span<kv::block_id> ids{moves_->host_ids.extend(n), n};
    host_.copy(head, ids);
    return ids;
  }

  void note(typename reservation::what kind, Request& r, std::uint64_t count) noexcept {
    journal_.push_back({kind, &r, count});
  }

  kv_moves<Request>* moves_ = nullptr;   ///< The latest plan's.
  fixed_vector<kv::block_copy> copies_;  ///< Copies that no plan that was run has listed yet.
  fixed_vector<reservation> journal_;
  std::uint32_t* swapped_in_round_;  ///< By device block: the latest plan that swapped it out,
  std::uint32_t round_ = 0;          ///< and the number of the present plan.
};

/// Whether a store is `kv::groups`.
template <class Store>
inline constexpr bool is_kv_groups = false;
/// Whether a request's hashes, if it has any, suit such a store.
template <class Request, class Store>
inline constexpr bool hashes_by_group = true;

/// The ledger for such a store.
template <class Request, class BlockStore>
struct ledger_of {
  using type = kv_ledger<Request, BlockStore>;
};
template <class Request, class BlockStore>
using ledger_for = typename ledger_of<Request, BlockStore>::type;

}  // namespace detail
TESSERA_NAMESPACE_END
