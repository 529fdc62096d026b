// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/kv/block_table.hpp>
#include <tessera/kv/concepts.hpp>
#include <tessera/kv/copy_on_write.hpp>
#include <tessera/kv/host_tier.hpp>
#include <tessera/pipeline/exclusive_blocks.hpp>
#include <tessera/pipeline/kv_moves.hpp>
#include <tessera/pipeline/limits.hpp>
#include <tessera/pipeline/plan.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The order of eviction is told what a request wants of these of its blocks, if it wants to know. O(ids.size()).
template <class BlockStore, class Request>
void wish(BlockStore& blocks, const Request& r, std::span<const kv::block_id> ids) noexcept {
  if constexpr (requires { blocks.wish(ids, BlockStore::eviction_type::wish(r)); }) {
    blocks.wish(ids, BlockStore::eviction_type::wish(r));
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

/// What `share_prefix` took from the prefix cache.
struct prefix_hit {
  std::size_t taken = 0;  ///< Blocks.
  tokens length{};        ///< Tokens whose KV is there.
  std::size_t known = 0;  ///< For `known_beyond`.
  blocks unsure{};        ///< Of the blocks, so many that nobody held, but others may hold the same: if these are
                          ///< evicted, those will be found.
};

/// The KV memory of one instance - blocks, block tables, host tier - and what the open plan has done to it, so that
/// it can be undone exactly. Each operation is written down; undoing replays them backwards, which the stores promise
/// to take to the letter. Knows nothing of order or admission.
///
/// Others ask in tokens, and are answered in blocks to be had: how large these are, and of how many kinds, is known
/// here alone.
///
/// The row of a victim stays readable until the plan is settled, because the engine copies from it; hence there are
/// twice as many rows as residents, and as many again for each further plan in flight.
template <schedulable Request, class BlockStore>
class kv_ledger {
  using state = typename Request::state_type;

 public:
  /// `cached_blocks` of one whose KV was computed before the prefixes were forgotten: nobody is to find any of it.
  static constexpr std::uint32_t keeps_to_itself = no_index;

  using hash = kv::hash_of<BlockStore>;                                                         ///< Of a full block.
  static constexpr bool shares = prefix_hashed<Request, hash> && kv::prefix_store<BlockStore>;  ///< Whether blocks are.

  using host_type = typename host_of<BlockStore>::type;  ///< Host memory.
  static constexpr bool has_two_levels =
      shares && !std::same_as<host_type, kv::host_tier>;  ///< Whether prefixes are found there, too.

  using limits = scheduler_limits;      ///< What there must be room for.
  using tables_type = kv::block_table;  ///< Who has which blocks.
  template <class Tables>
  using shown_by = Tables;  ///< The same as a plan shows it.

  static constexpr bool travels = true;  ///< Whether KV comes from, and goes to, other instances and the host.
  static constexpr bool slides = false;  ///< Whether blocks are given back while a request goes on.

  /// Most tokens of one sequence that have KV.
  [[nodiscard]] static constexpr tokens longest(const scheduler_limits& l) noexcept { return l.longest(); }
  [[nodiscard]] static constexpr kv::block_table::limits table_limits(const scheduler_limits& l) noexcept {
    return {.rows = l.rows(), .blocks_per_row = l.blocks_per_row(), .block_size = l.block_size};
  }
  [[nodiscard]] static constexpr std::size_t required_bytes(const scheduler_limits& l) noexcept {
    return storage_layout{}
        .add_bytes(BlockStore::required_bytes(store_limits(l)))
        .add_bytes(kv::block_table::required_bytes(table_limits(l)))
        .add_bytes(host_type::required_bytes(host_limits(l)))
        .add_bytes(exclusive_blocks<shares>::required_bytes(l.rows(), l.blocks))
        .add_bytes(fixed_vector<kv::block_copy>::required_bytes(l.residents))
        .add_bytes(fixed_vector<reservation>::required_bytes(reservations(l)))
        .template add<std::uint32_t>(has_two_levels ? l.blocks : 0)
        .template add<std::uint64_t>(l.plans_in_flight > 1 ? l.blocks : 0)
        .bytes();
  }

  kv_ledger(arena& memory, const scheduler_limits& l) noexcept
      : block_size_{l.block_size},
        blocks_{memory, store_limits(l)},
        table_{memory, table_limits(l)},
        host_{memory, host_limits(l)},
        own_{memory, l.rows(), l.blocks},
        copies_{memory, l.residents},
        journal_{memory, reservations(l)},
        swapped_in_round_{memory.take<std::uint32_t>(has_two_levels ? l.blocks : 0)},
        read_until_{memory.take<std::uint64_t>(l.plans_in_flight > 1 ? l.blocks : 0)},
        overlaps_{l.plans_in_flight > 1} {}

  [[nodiscard]] BlockStore& store() noexcept { return blocks_; }
  [[nodiscard]] const BlockStore& store() const noexcept { return blocks_; }
  [[nodiscard]] kv::block_table& tables() noexcept { return table_; }
  [[nodiscard]] const kv::block_table& tables() const noexcept { return table_; }
  [[nodiscard]] const host_type& host() const noexcept { return host_; }
  [[nodiscard]] const exclusive_blocks<shares>& own() const noexcept { return own_; }
  [[nodiscard]] std::int64_t free_blocks() const noexcept { return static_cast<std::int64_t>(blocks_.free()); }
  [[nodiscard]] std::int64_t capacity() const noexcept { return static_cast<std::int64_t>(blocks_.capacity()); }
  [[nodiscard]] std::size_t free_rows() const noexcept { return table_.free_rows(); }
  /// Tokens in a block, for policies that go by it.
  [[nodiscard]] tokens block_size() const noexcept { return block_size_; }
  /// Whether drafts can be refused.
  [[nodiscard]] static constexpr bool takes_drafts() noexcept { return true; }

  // -- demand ------------------------------------------------------------------------------------------------------

  /// Blocks that a sequence holds when it is so long.
  [[nodiscard]] blocks whole(tokens length) const noexcept { return blocks_for(length, block_size_); }
  /// Device blocks in a row that is in use.
  [[nodiscard]] blocks held(std::uint32_t row) const noexcept {
    return blocks{static_cast<std::int64_t>(table_.size(row))};
  }
  /// The same of a request that has a row.
  [[nodiscard]] blocks held(const Request& r) const noexcept { return held(r.state().row); }
  /// Blocks that it will hold in addition when it is so long.
  [[nodiscard]] blocks to_come(const Request& r, tokens length) const noexcept {
    return max(whole(length) - held(r), blocks{});
  }
  /// Blocks that it lacks for the KV of its first `length` tokens, and, kept for it, of its first `reserved`.
  [[nodiscard]] blocks lacks(const Request& r, tokens length, tokens reserved = {}) const noexcept {
    return to_come(r, max(length, reserved));
  }
  /// Tokens for whose KV it has blocks.
  [[nodiscard]] tokens room(const Request& r) const noexcept { return block_size_ * held(r).count(); }
  /// How long it can become with so many more, at most `wanted`.
  [[nodiscard]] tokens reach(const Request& r, tokens wanted, blocks more) const noexcept {
    return min(wanted, block_size_ * (held(r) + more).count());
  }
  /// `room` of rows in which no block is new; 0 of others. A value, so that who asks of many looks nothing up twice.
  [[nodiscard]] auto told_room() const noexcept {
    return [table = &table_, block_size = block_size_.count()](std::uint32_t row) noexcept {
      return static_cast<std::int64_t>(table->told_size(row)) * block_size;
    };
  }
  /// Blocks with KV that it has, wherever.
  [[nodiscard]] blocks written(const Request& r) const noexcept { return whole(r.state().computed); }
  /// Blocks that it found in the prefix cache when it started, at most.
  [[nodiscard]] blocks found(const Request& r) const noexcept {
    return blocks{static_cast<std::int64_t>(r.state().shared_blocks)};
  }
  /// Blocks that a row does not share with another.
  [[nodiscard]] std::int64_t exclusive(const Request& r) const noexcept { return own_.of(r.state().row); }

  /// Whether a request has hashes of blocks that its first `length` tokens do not fill. Such a block would be found by
  /// one that goes on otherwise. O(1).
  [[nodiscard]] bool names_too_much(const Request& r, tokens length) const noexcept {
    if constexpr (shares) {
      return std::span<const hash>{r.prefix_hashes()}.size() > static_cast<std::size_t>(length / block_size_);
    } else {
      static_cast<void>(r), static_cast<void>(length);
      return false;
    }
  }

  /// The hash of the block that a request computes behind its first `n` tokens, once others can find it there; null if
  /// none can. O(1).
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
  /// The hash of the block that a request which starts would take behind `n` tokens if it were known; null if none.
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
  /// Blocks that a request lacks when the first `known` of its prompt are found.
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

  // -- what the engine knows ---------------------------------------------------------------------------------------

  /// Blocks at the end of a row of which nobody was told yet.
  [[nodiscard]] std::uint32_t new_blocks(std::uint32_t row) const noexcept {
    return static_cast<std::uint32_t>(table_.size(row) - table_.told(row));
  }
  /// Whether the engine knows the row.
  [[nodiscard]] bool is_told(std::uint32_t row) const noexcept { return table_.told(row) != 0; }
  void tell(std::uint32_t row) noexcept { table_.tell(row); }
  /// Blocks of a request for KV that is on its way, but for the first `hits`, which have it.
  [[nodiscard]] std::span<const kv::block_id> awaited(const Request& r, std::size_t hits) const noexcept {
    return table_.row(r.state().row).first(written_blocks(r.state())).subspan(hits);
  }

  /// The last plan that reads those blocks, or copies from them, if it is in flight still; the one that is being made
  /// counts for all of its copies. O(blocks of the request).
  [[nodiscard]] std::uint64_t read_until(const Request& r, std::size_t hits) const noexcept {
    const bool copies = !moves_->swap_out.empty() || !moves_->demoted.empty() || !moves_->copies.empty();
    if (copies) return plan_;
    std::uint64_t last = moves_->victims.empty() ? 0 : before_;
    if (overlaps_) {
      for (const kv::block_id id : awaited(r, hits)) last = read_until_[id] > last ? read_until_[id] : last;
    }
    return last;
  }

  // -- within a plan: undone by `roll_back` ------------------------------------------------------------------------

  /// The plan with this number begins, and the one with the number `before` is the newest in flight, if there is one;
  /// what that did stands.
  void begin(kv_moves<Request>& moves, std::uint64_t plan, std::uint64_t before) noexcept {
    moves_ = &moves;
    plan_ = plan;
    before_ = before;
    ++round_;
    moves.clear();
    for (const kv::block_copy& c : copies_) moves.copies.push_back(c);
    journal_.clear();
  }

  /// Where the journal is now, for `roll_back`.
  [[nodiscard]] std::size_t mark() const noexcept { return journal_.size(); }

  /// Gives a request an empty row.
  void open_row(Request& r) noexcept {
    state& s = state_of(r);
    s.row = table_.acquire_row();
    TESSERA_ASSERT(s.row != no_index, "who starts one sees to it that there is a row");
    note(reservation::what::row, r, mark_of(s));  // of a plan before, which a start overwrites
  }

  /// Takes the blocks that the prefix cache has of this prompt. At least one token is left to compute, because the
  /// step must sample from it.
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
  /// How many more blocks of its prefix are known than when `known` was true, which it is again.
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

  /// Blocks of its prefix behind the first `hits`, which the device has, that are known on the host: nobody stores
  /// anything to them before this plan is run. Returns how many.
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
  /// What `find_on_host` found last comes to the row that the request was given, behind its first `hits` blocks.
  void load(Request& r, std::size_t hits, std::size_t n) noexcept {
    if (n == 0) return;
    moves_->swap_in.push_back({&r, hits, table_.row(r.state().row).subspan(hits, n), moves_->loads.back()});
    moves_->found_on_host += n;
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

  /// A request found no block in this plan.
  void mark_stalled(Request& r, std::uint32_t plan_id) noexcept {
    state& s = state_of(r);
    note(reservation::what::stalled, r, mark_of(s));
    s.marked_in = plan_id;
    s.mark = plan_mark::stalled;
  }

  /// Takes a request's blocks away, after copying those that nobody else holds to the host if `mode` says so and there
  /// is room. `kept` is what `kept_by_others` said. O(blocks held).
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

  /// Has the KV of a swapped or adopted request brought to the row that it was given, but for the first `hits` blocks,
  /// which are there.
  void bring_back(Request& r, std::size_t hits) noexcept {
    const state& s = r.state();
    const std::size_t written = written_blocks(s);
    if (hits >= written) return;
    const std::span<const kv::block_id> device = table_.row(s.row).first(written).subspan(hits);
    if (s.host_head == no_index) {
      moves_->fetch.push_back({&r, hits, device});
    } else {
      const std::span<const kv::block_id> host = copy_host_ids(s.host_head);
      moves_->swap_in.push_back({&r, hits, device, host.last(written - hits)});
    }
  }

  /// The plan that was made last has never been. Requires: all of it was undone.
  void forget_plan() noexcept { plan_ = before_; }

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

  // -- settling: for good ------------------------------------------------------------------------------------------

  /// A plan stands, and cannot be undone any more: what it copies to the host can be found there from now on, and what
  /// it copies from there may go when the next has stored something else.
  void stands(const kv_moves<Request>& moves) noexcept {
    if (overlaps_) {
      for (const preemption<Request>& v : moves.victims) are_read(table_.row(v.request->state().row));
    }
    if constexpr (has_two_levels) {
      for (const kv_transfer<Request>& t : moves.swap_out) {
        const state& s = t.request->state();
        if (s.cached_blocks == keeps_to_itself) continue;
        const std::span<const hash> hashes = t.request->prefix_hashes();
        std::size_t end = s.cached_blocks < hashes.size() ? s.cached_blocks : hashes.size();
        if (end > t.first + t.host.size()) end = t.first + t.host.size();
        for (std::size_t i = t.first; i < end; ++i) host_.publish(t.host[i - t.first], hashes[i]);
      }
      // In the order in which they were evicted, so that what went first goes first here, too.
      for (std::size_t i = 0; i != moves.demoted.size(); ++i) {
        host_.settle(moves.demoted[i].host, blocks_.last_hash(moves.demoted[i].device));
      }
      for (const std::span<const kv::block_id> ids : moves.loads) host_.unpin(ids);
    } else {
      static_cast<void>(moves);
    }
  }
  /// No prefix is known any more.
  void forget_prefixes() noexcept {
    blocks_.clear();
    if constexpr (has_two_levels) host_.clear();
  }

  /// Copies on write have been told of, by a plan that was run.
  void copies_done() noexcept { copies_.clear(); }

  /// Rows of victims are given up with the plan that evicted them.
  void close_rows(kv_moves<Request>& moves) noexcept {
    for (const std::uint32_t row : moves.left_rows) table_.release_row(row);
    moves.left_rows.clear();
  }

  /// Gives back a request's blocks and row.
  void release(Request& r) noexcept {
    wish(blocks_, r, table_.row(r.state().row));
    release_row(leave_row(r));
  }
  /// The same while a plan in flight has the request: its row is given up with that.
  void release(Request& r, kv_moves<Request>& moves) noexcept {
    wish(blocks_, r, table_.row(r.state().row));
    const std::uint32_t row = leave_row(r);
    give_back(row, 0);
    table_.truncate(row, 0);
    moves.left_rows.push_back(row);
  }

  /// Takes a request off its row, and gives that back: apart where the request goes before its blocks may.
  [[nodiscard]] static std::uint32_t leave_row(Request& r) noexcept {
    return std::exchange(request_access::state(r).row, no_index);
  }
  void release_row(std::uint32_t row) noexcept {
    give_back(row, 0);
    table_.release_row(row);
  }

  /// Keeps the blocks of a request's first `length` tokens. Returns how many it gave back.
  blocks trim(Request& r, tokens length) noexcept {
    const std::uint32_t row = r.state().row;
    const auto n = static_cast<std::size_t>(whole(length).count());
    const std::size_t size = table_.size(row);
    if (size <= n) return blocks{};
    give_back(row, n);
    table_.truncate(row, n);
    return blocks{static_cast<std::int64_t>(size - n)};
  }

  /// Whether there may be something to publish when a sequence has come to `computed` one by one.
  [[nodiscard]] bool fills_block(const Request& /*r*/, tokens computed) const noexcept {
    return shares && computed % block_size_ == tokens{};
  }
  /// Blocks that are full, with the KV of the first `computed` tokens, become findable. Returns how many of them
  /// are also among the first `known` of the prefix of `watched`, if that is not null.
  std::size_t publish(Request& r, tokens computed, const Request* watched, std::size_t known) noexcept {
    std::size_t seen = 0;
    if constexpr (shares) {
      state& s = state_of(r);
      const std::span<const hash> hashes = r.prefix_hashes();
      if (s.cached_blocks >= hashes.size()) return 0;
      TESSERA_ASSERT(!names_too_much(r, s.length), "more hashes than full blocks");
      if (names_too_much(r, s.length)) {
        s.cached_blocks = keeps_to_itself;  // which of its hashes are right, is not known
        return 0;
      }
      const auto full = static_cast<std::size_t>(computed / block_size_);
      if (s.cached_blocks >= full) return 0;
      const std::span<const kv::block_id> row = table_.row(s.row);
      const std::span<const hash> theirs = watched != nullptr ? watched->prefix_hashes() : std::span<const hash>{};
      const std::size_t from = s.cached_blocks;
      const std::size_t end = full < hashes.size() ? full : hashes.size();
      // One that is known by another hash already, as a fork's may be, stays as it is.
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

  /// `child` gets a row of its own with the blocks of `parent`; the last one, if it is not full, is copied by the next
  /// plan. False, and no change, if there is no row, no block for the copy, or too many copies are to be told of.
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
      // In the order in which they were asked for, each is right, even if its source is the target of one before, or
      // has been given up and taken again since.
      copies_.push_back(copy);
    }
    return true;
  }

  /// Whether a block of the request is still to be filled by a copy of which no plan has told.
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

  /// The last `n` tokens that were counted as computed are not: drafts that were refused. Of one that was swapped out
  /// meanwhile, the copy is so much shorter. O(1), or O(blocks of the copy).
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

 private:
  /// One undoable thing that a plan has done.
  struct reservation {
    enum class what : std::uint8_t { row, shared, grown, evicted, stalled, demoted, loaded } kind;
    Request* request;
    std::uint64_t count;  ///< Blocks (`shared`, `grown`), or the previous mark (others).
  };

  // Per admitted request a row, a shared prefix and an allocation; per resident a growth, an eviction or
  // a mark; per scheduled
  // request its lookahead.
  static constexpr std::size_t reservations(const scheduler_limits& l) noexcept {
    return (has_two_levels ? 10 : 6) * l.residents;
  }
  static constexpr typename BlockStore::limits store_limits(const scheduler_limits& l) noexcept {
    return {.blocks = l.blocks};
  }
  static constexpr typename host_type::limits host_limits(const scheduler_limits& l) noexcept {
    return {.host_blocks = l.host_blocks};
  }

  static state& state_of(Request& r) noexcept { return request_access::state(r); }
  [[nodiscard]] static std::uint64_t mark_of(const state& s) noexcept {
    return std::uint64_t{s.marked_in} << 8U | static_cast<std::uint64_t>(s.mark);
  }
  static void set_mark(state& s, std::uint64_t mark) noexcept {
    s.marked_in = static_cast<std::uint32_t>(mark >> 8U);
    s.mark = static_cast<plan_mark>(mark & 0xffU);
  }
  [[nodiscard]] std::size_t written_blocks(const state& s) const noexcept {
    return static_cast<std::size_t>(blocks_for(s.computed, block_size_).count());
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
    if (overlaps_) are_read(ids);
  }
  /// Plans in flight may read these blocks, which are another's from now on.
  void are_read(std::span<const kv::block_id> ids) noexcept {
    for (const kv::block_id id : ids) read_until_[id] = plan_;
  }

  /// What was evicted for these blocks goes to the host, unless it is there or leaves for there in this plan already.
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

  tokens block_size_;
  BlockStore blocks_;
  kv::block_table table_;
  host_type host_;
  exclusive_blocks<shares> own_;
  kv_moves<Request>* moves_ = nullptr;   ///< Of the plan that was made last.
  fixed_vector<kv::block_copy> copies_;  ///< Until a plan with them was run.
  fixed_vector<reservation> journal_;
  std::uint32_t* swapped_in_round_;  ///< By device block: the plan that swapped it out last,
  std::uint32_t round_ = 0;          ///< of so many that were made.
  std::uint64_t* read_until_;  ///< By block, with several plans in flight: the newest plan when it was given back.
  std::uint64_t plan_ = 0;     ///< The newest,
  std::uint64_t before_ = 0;   ///< and the one before it, if that was in flight; else 0.
  bool overlaps_;
};

/// Whether a store is `kv::groups`.
template <class Store>
inline constexpr bool is_kv_groups = false;
/// Whether a request's hashes, if it has any, are those of such a store.
template <class Request, class Store>
inline constexpr bool hashes_by_group = true;

/// What keeps account of the KV in such a store.
template <class Request, class BlockStore>
struct ledger_of {
  using type = kv_ledger<Request, BlockStore>;
};
template <class Request, class BlockStore>
using ledger_for = typename ledger_of<Request, BlockStore>::type;

}  // namespace detail
TESSERA_NAMESPACE_END
