// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/group_tables.hpp>
#include <tessera/kv/groups.hpp>
#include <tessera/kv/host_tier.hpp>
#include <tessera/pipeline/kv_ledger.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

TESSERA_NAMESPACE_BEGIN

/// Capacities of a scheduler for a model with several groups of layers. `block_size` is not used. `blocks` are those of
/// all groups together; all have the same number of bytes.
template <std::size_t Groups>
struct grouped_limits : scheduler_limits {
  std::array<kv::group, Groups> layers{};  ///< The groups. If none has full attention, set `max_length`.
  std::size_t used = Groups;               ///< Number of groups in use, the first of `layers`. At least 1.
  bool keeps_passed = false;               ///< Blocks that a window has passed are evicted in their turn, not before
                                           ///< all others: something copies them elsewhere meanwhile.
  tokens kept_behind{};                    ///< Windows keep what the last so many computed tokens have looked at: 1, if
                                           ///< another instance is to compute the last one anew.

  /// The groups in use.
  [[nodiscard]] constexpr std::span<const kv::group> groups() const noexcept { return std::span{layers}.first(used); }
};

namespace detail {

/// As `kv_ledger`, for the KV of a model with different kinds of layers. The blocks that a request holds, lacks and
/// shares are sums over its groups. A window counts as many blocks as it spans, and gives them back behind itself when
/// plans are settled. With plans in flight it also holds the blocks that these compute.
/// A victim recomputes its KV: it is not copied to the host. A model with a recurrent state has drafts only where it
/// has spare blocks for the states after them.
template <schedulable Request, std::size_t Groups, kv::prefix_store Store>
class grouped_ledger {
  static_assert(
      !requires { typename Store::host_type; },
      "tessera: prefixes of kv::groups are not found on the host: their store is a prefix cache of one level");

  using state = typename Request::state_type;

 public:
  using groups = kv::groups<Groups, Store>;
  using hash_spans = typename groups::hash_spans;
  using hash = typename groups::hash_type;

  static constexpr std::uint32_t keeps_to_itself = no_index;
  /// Whether prefixes are shared. A request without hashes shares none.
  static constexpr bool shares = requires(const Request& r) {
    { r.prefix_hashes() } noexcept -> std::convertible_to<hash_spans>;
  };
  static constexpr bool has_two_levels = false;
  static constexpr bool slides = true;

  using limits = grouped_limits<Groups>;
  using host_type = kv::host_tier;
  using tables_type = groups;
  template <class Tables>
  using shown_by = kv::group_tables<Groups, Tables>;

  /// Slots of a sequence of `length` tokens: its own, and those ahead.
  [[nodiscard]] static constexpr tokens slots_of(const limits& l, tokens length) noexcept {
    const tokens all = length + l.slots_ahead;
    return l.max_length > tokens{} && l.max_length < all ? max(length, l.max_length) : all;
  }
  /// The longest sequence that fits into all blocks, at most.
  [[nodiscard]] static constexpr tokens longest(const limits& l) noexcept {
    std::int64_t most = max_positions;
    for (const kv::group& g : l.groups()) {
      const auto all = g.block_size.count() * static_cast<std::int64_t>(l.blocks);
      if (g.window == tokens{} && all < most) most = all;
    }
    if (l.max_length > tokens{} && l.max_length.count() < most) most = l.max_length.count();
    std::int64_t least = 0;
    while (least < most) {
      const std::int64_t n = least + (most - least + 1) / 2;
      std::size_t blocks = 0;
      const tokens slots = slots_of(l, tokens{n});
      for (const kv::group& g : l.groups()) blocks += g.most_blocks(slots, l.slots_ahead + l.kept_behind);
      if (blocks <= l.blocks) {
        least = n;
      } else {
        most = n - 1;
      }
    }
    return tokens{least};
  }
  [[nodiscard]] static constexpr std::array<kv::block_table::limits, Groups> table_limits(const limits& l) noexcept {
    std::array<kv::block_table::limits, Groups> all{};
    for (std::size_t g = 0; g != Groups; ++g) {
      all[g] = {.rows = g < l.used ? l.rows() : 0,
                .blocks_per_row = l.layers[g].row_blocks(slots_of(l, longest(l))),
                .block_size = l.layers[g].block_size};
    }
    return all;
  }
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add_bytes(groups::required_bytes(groups_limits(l)))
        .add_bytes(host_type::required_bytes({}))
        .add_bytes(exclusive_blocks<true>::required_bytes(l.rows(), l.blocks))
        .add_bytes(block_reads::required_bytes(l))
        .add_bytes(fixed_vector<kv::block_copy>::required_bytes(kv_moves<Request>::of_groups(l)))
        .add_bytes(fixed_vector<reservation>::required_bytes(6 * l.residents))
        .bytes();
  }

  grouped_ledger(arena& memory, const limits& l) noexcept
      : kv_{memory, groups_limits(checked(l))},
        host_{memory, {}},
        own_{memory, l.rows(), l.blocks},
        reads_{memory, l},
        copies_{memory, kv_moves<Request>::of_groups(l)},
        journal_{memory, 6 * l.residents} {
    for (const kv::group& g : l.groups()) {
      has_states_ = has_states_ || (g.is_recurrent() && g.spare == 0);
      step_ = std::gcd(step_, g.block_size.count());
    }
    last_bits_ = (step_ & -step_) - 1;
  }

  [[nodiscard]] Store& store() noexcept { return kv_.store(); }
  [[nodiscard]] const Store& store() const noexcept { return kv_.store(); }
  [[nodiscard]] groups& tables() noexcept { return kv_; }
  [[nodiscard]] const groups& tables() const noexcept { return kv_; }
  [[nodiscard]] const host_type& host() const noexcept { return host_; }
  [[nodiscard]] const exclusive_blocks<true>& own() const noexcept { return own_; }
  [[nodiscard]] std::int64_t free_blocks() const noexcept { return static_cast<std::int64_t>(kv_.free()); }
  [[nodiscard]] std::int64_t capacity() const noexcept { return static_cast<std::int64_t>(store().capacity()); }
  [[nodiscard]] std::size_t free_rows() const noexcept { return kv_.table(0).free_rows(); }
  /// The first group's. The blocks of a found prefix (`shared_blocks`) are counted in these as well.
  [[nodiscard]] tokens block_size() const noexcept { return kv_.of(0).block_size; }
  /// A recurrent state cannot go back to before a rejected draft, unless it has spare blocks.
  [[nodiscard]] bool takes_drafts() const noexcept { return !has_states_; }

  // -- demand ------------------------------------------------------------------------------------------------------

  [[nodiscard]] blocks whole(tokens length) const noexcept { return counted(kv_.needs(length)); }
  [[nodiscard]] blocks held(std::uint32_t row) const noexcept { return counted(kv_.held(row)); }
  [[nodiscard]] blocks held(const Request& r) const noexcept { return held(r.state().row); }
  [[nodiscard]] blocks to_come(const Request& r, tokens length) const noexcept {
    return counted(kv_.to_come(r.state().row, length));
  }
  [[nodiscard]] blocks lacks(const Request& r, tokens length, tokens reserved = {}) const noexcept {
    return counted(kv_.lacks(r.state().row, length, reserved));
  }
  [[nodiscard]] tokens room(const Request& r) const noexcept { return kv_.room(r.state().row); }
  /// O(Groups x log(tokens)).
  [[nodiscard]] tokens reach(const Request& r, tokens wanted, blocks more, tokens reserved = {}) const noexcept {
    if (lacks(r, wanted, reserved) <= more) return wanted;
    std::int64_t least = min(room(r), wanted).count();
    std::int64_t most = wanted.count() - 1;
    while (least < most) {
      const std::int64_t n = least + (most - least + 1) / 2;
      if (lacks(r, tokens{n}, reserved) <= more) {
        least = n;
      } else {
        most = n - 1;
      }
    }
    return tokens{least};
  }
  /// Where a step ends that computes tokens from `first` to at most `end`.
  [[nodiscard]] tokens step_end(const Request& r, tokens first, tokens end) const noexcept {
    return kv_.step_end(r.state().row, first, end, r.state().reach());
  }
  [[nodiscard]] auto told_room() const noexcept {
    return [kv = &kv_](std::uint32_t row) noexcept { return kv->sent_room(row).count(); };
  }
  [[nodiscard]] blocks written(const Request& r) const noexcept { return whole(r.state().computed); }
  [[nodiscard]] blocks found(const Request& r) const noexcept {
    return whole(block_size() * static_cast<std::int64_t>(r.state().shared_blocks));
  }
  [[nodiscard]] std::int64_t exclusive(const Request& r) const noexcept { return own_.of(r.state().row); }

  [[nodiscard]] bool names_too_much(const Request& r, tokens length) const noexcept {
    if constexpr (shares) {
      const hash_spans hashes = r.prefix_hashes();
      for (std::size_t g = 0; g != kv_.count(); ++g) {
        if (hashes[g].size() > static_cast<std::size_t>(length / kv_.of(g).block_size)) return true;
      }
    }
    static_cast<void>(r), static_cast<void>(length);
    return false;
  }

  /// The hash in the first group, at which the blocks of all groups begin.
  [[nodiscard]] const hash* next_hash(const Request& r, tokens n) const noexcept {
    return r.state().cached_blocks != keeps_to_itself ? hash_behind(r, n) : nullptr;
  }
  [[nodiscard]] const hash* next_wanted(const Request& r, tokens n) const noexcept {
    return n + kv_.unit() < r.state().length && !names_too_much(r, r.state().length) ? hash_behind(r, n) : nullptr;
  }
  [[nodiscard]] blocks behind(tokens length, std::uint32_t known) const noexcept {
    return counted(kv_.to_come_behind(block_size() * static_cast<std::int64_t>(known), length));
  }
  [[nodiscard]] bool knows(const hash& h) const noexcept { return store().knows(h); }

  // -- what the engine knows ---------------------------------------------------------------------------------------

  /// The number in all groups together.
  [[nodiscard]] std::uint32_t new_blocks(std::uint32_t row) const noexcept {
    std::size_t n = 0;
    for (std::size_t g = 0; g != kv_.count(); ++g) n += kv_.table(g).size(row) - kv_.table(g).sent(row);
    return static_cast<std::uint32_t>(n);
  }
  [[nodiscard]] bool is_told(std::uint32_t row) const noexcept { return kv_.table(0).sent(row) != 0; }
  void tell(std::uint32_t row) noexcept { kv_.mark_sent(row); }

  // -- within a plan: undone by `roll_back` ------------------------------------------------------------------------

  void begin(kv_moves<Request>& moves, std::uint64_t plan, std::uint64_t before) noexcept {
    moves_ = &moves;
    reads_.begin(plan, before, !copies_.empty());
    moves.clear();
    for (const kv::block_copy& c : copies_) moves.copies.push_back(c);
    journal_.clear();
    kv_.begin();
  }
  [[nodiscard]] std::size_t mark() const noexcept { return journal_.size(); }

  void open_row(Request& r) noexcept {
    state& s = request_access::state(r);
    s.row = kv_.open();
    TESSERA_ASSERT(s.row != no_index, "the caller ensures a free row");
    note(reservation::what::row, r);
  }

  [[nodiscard]] prefix_hit share_prefix(Request& r) noexcept {
    const state& s = r.state();
    hash_spans hashes{};
    tokens n{};
    if constexpr (shares) {
      TESSERA_ASSERT(!names_too_much(r, s.length), "more hashes than full blocks");
      if (!names_too_much(r, s.length)) {
        hashes = r.prefix_hashes();
        tokens parting{};
        n = kv_.match(hashes, s.length - tokens{1}, parting);
        kv_.keep_window(s.row, parting);
      }
    }
    // A waiting request with KV has it elsewhere.
    const tokens upto = max(n, s.computed);
    if (upto == tokens{}) return {.known = findable_};
    kv_.share(s.row, hashes, n, upto);
    for (std::size_t g = 0; g != kv_.count(); ++g) own_.joined(s.row, kv_.blocks_of(g, s.row), store());
    note(reservation::what::shared, r);
    const std::size_t taken = kv_.held(s.row);
    // Whether other requests held them, or equal ones, is not looked up.
    return {.taken = taken, .length = n, .known = findable_, .unsure = counted(taken)};
  }
  /// Lists the blocks of a request with KV from elsewhere, group by group, except for those of the `hit`. Returns the
  /// last plan before the present one that reads them. O(blocks of the request).
  std::uint64_t list_awaited(Request& r, const prefix_hit& hit, fixed_vector<kv_fetch<Request>>& list) const noexcept {
    const state& s = r.state();
    std::uint64_t last = reads_.of_any(!moves_->victims.empty());
    for (std::size_t g = 0; g != kv_.count(); ++g) {
      const tokens size = kv_.of(g).block_size;
      const std::size_t passed = kv_.first_block(g, s.row);
      const auto end = static_cast<std::size_t>(blocks_for(s.computed, size).count());
      const auto found = static_cast<std::size_t>(hit.length / size);
      const std::size_t first = found < passed ? passed : found;
      list.push_back({&r, first, kv_.table(g).row(s.row).first(end).subspan(first), g});
      last = reads_.of(list.back().device, last);
    }
    return last;
  }
  std::uint64_t bring_back(Request& r, const prefix_hit& hit) noexcept {
    return hit.length < r.state().computed ? list_awaited(r, hit, moves_->fetch) : 0;
  }
  [[nodiscard]] std::uint64_t copies_now() const noexcept { return moves_->copies.empty() ? 0 : reads_.plan(); }
  [[nodiscard]] bool can_go_back(const Request& r, tokens n) const noexcept {
    return kv_.can_go_back(r.state().row, n);
  }
  /// All of them once a block has become findable: which prefix that extends is not looked up.
  [[nodiscard]] blocks known_beyond(const Request& r, std::size_t& known) const noexcept {
    return std::exchange(known, findable_) == findable_ ? blocks{} : whole(r.state().length);
  }

  void take(Request& r, blocks /*more*/, tokens length, tokens reserved = {}) noexcept {
    const std::uint32_t row = r.state().row;
    std::array<std::size_t, Groups> before{};
    for (std::size_t g = 0; g != kv_.count(); ++g) before[g] = kv_.table(g).size(row);
    const std::size_t mark = kv_.mark();
    const status taken = kv_.grow(row, length, reserved);
    TESSERA_ASSERT(taken == status::ok, "make_free promised the blocks");
    static_cast<void>(taken);
    if (kv_.mark() == mark) return;
    for (std::size_t g = 0; g != kv_.count(); ++g) own_.taken(row, kv_.table(g).row(row).subspan(before[g]));
    note(reservation::what::grown, r);
  }

  [[nodiscard]] static constexpr std::size_t find_on_host(Request& /*r*/, std::size_t /*hits*/) noexcept { return 0; }
  static constexpr void load(Request& /*r*/, std::size_t /*hits*/, std::size_t /*n*/) noexcept {}
  [[nodiscard]] static constexpr std::size_t kept_by_others(const Request& /*r*/) noexcept { return 0; }
  [[nodiscard]] static constexpr std::size_t left_to_others(const Request& /*r*/) noexcept { return 0; }

  void mark_stalled(Request& r, std::uint32_t plan_id) noexcept {
    state& s = request_access::state(r);
    note(reservation::what::stalled, r);
    s.marked_in = plan_id;
    s.mark = plan_mark::stalled;
  }

  void evict(Request& r, preemption_mode /*mode*/, std::size_t /*kept*/, std::uint32_t plan_id) noexcept {
    state& s = request_access::state(r);
    kv_.evict(s.row);
    for (std::size_t g = 0; g != kv_.count(); ++g) own_.left(s.row, kv_.blocks_of(g, s.row), store());
    moves_->victims.push_back({&r, preemption_mode::recompute});
    note(reservation::what::evicted, r);
    s.marked_in = plan_id;
    s.mark = plan_mark::preempted;
  }

  void forget_plan() noexcept { reads_.forget_plan(); }
  std::size_t roll_back(std::size_t mark) noexcept {
    std::size_t evictions = 0;
    for (; journal_.size() > mark; journal_.pop_back()) {
      const reservation& done = journal_.back();
      state& s = request_access::state(*done.request);
      const auto undo = [&] { kv_.roll_back(kv_.mark() - 1); };
      switch (done.kind) {
        case reservation::what::row:
          undo();
          s.row = no_index;
          set_mark(s, done);
          break;
        case reservation::what::shared: {
          std::array<std::span<const kv::block_id>, Groups> ids{};
          for (std::size_t g = 0; g != kv_.count(); ++g) ids[g] = kv_.blocks_of(g, s.row);
          undo();  // the ids stay in place
          for (const auto& of_group : ids) own_.left(s.row, of_group, store());
          break;
        }
        case reservation::what::grown: {
          const std::size_t before = kv_.held(s.row);
          undo();
          own_.untaken(s.row, before - kv_.held(s.row));
          break;
        }
        case reservation::what::evicted:
          undo();
          for (std::size_t g = 0; g != kv_.count(); ++g) own_.joined(s.row, kv_.blocks_of(g, s.row), store());
          moves_->victims.pop_back();
          set_mark(s, done);
          ++evictions;
          break;
        case reservation::what::stalled: set_mark(s, done); break;
      }
    }
    return evictions;
  }

  // -- settling: final ---------------------------------------------------------------------------------------------

  void stands(const kv_moves<Request>& moves) noexcept {
    for (const preemption<Request>& v : moves.victims) note_reads(v.request->state().row);
    journal_.clear();
    kv_.begin();
  }
  void forget_prefixes() noexcept {
    kv_.clear();
    ++findable_;
  }
  void copies_done() noexcept { copies_.clear(); }
  void close_rows(kv_moves<Request>& moves) noexcept {
    for (const std::uint32_t row : moves.left_rows) kv_.close(row);
    moves.left_rows.clear();
  }

  void release(Request& r) noexcept {
    wish_of_all(r);
    release_row(leave_row(r));
  }
  void release(Request& r, kv_moves<Request>& moves) noexcept {
    wish_of_all(r);
    const std::uint32_t row = leave_row(r);
    note_reads(row);
    kv_.evict(row);
    kv_.begin();
    for (std::size_t g = 0; g != kv_.count(); ++g) own_.left(row, kv_.blocks_of(g, row), store());
    moves.left_rows.push_back(row);
  }
  [[nodiscard]] static std::uint32_t leave_row(Request& r) noexcept {
    return std::exchange(request_access::state(r).row, no_index);
  }
  void release_row(std::uint32_t row) noexcept {
    std::array<std::span<const kv::block_id>, Groups> ids{};
    for (std::size_t g = 0; g != kv_.count(); ++g) ids[g] = kv_.blocks_of(g, row);
    kv_.close(row);  // the ids stay in place
    for (const auto& of_group : ids) own_.left(row, of_group, store());
  }

  blocks trim(Request& r, tokens length) noexcept {
    const std::uint32_t row = r.state().row;
    std::array<std::span<const kv::block_id>, Groups> ids{};
    for (std::size_t g = 0; g != kv_.count(); ++g) ids[g] = kv_.table(g).row(row);
    const std::size_t n = kv_.trim(row, length);
    if (n == 0) return blocks{};
    for (std::size_t g = 0; g != kv_.count(); ++g) {
      const std::span<const kv::block_id> gone = ids[g].subspan(kv_.table(g).size(row));
      own_.left(row, gone, store());
      reads_.note(gone);
    }
    return counted(n);
  }

  [[nodiscard]] bool fills_block(const Request& r, tokens computed) const noexcept {
    // Mostly the last bits decide, without a division.
    if (shares && (computed.count() & last_bits_) == 0 && computed.count() % step_ == 0) return true;
    return computed >= kv_.slides_at(r.state().row);
  }
  /// The effect on a watched prefix is found by `known_beyond`.
  std::size_t publish(Request& r, tokens computed, const Request* /*watched*/, std::size_t /*known*/) noexcept {
    if constexpr (shares) {
      state& s = request_access::state(r);
      if (s.cached_blocks == keeps_to_itself) return 0;
      TESSERA_ASSERT(!names_too_much(r, s.length), "more hashes than full blocks");
      if (names_too_much(r, s.length)) {
        s.cached_blocks = keeps_to_itself;  // it is unknown which of its hashes are right
        return 0;
      }
      const auto wished = [&](std::span<const kv::block_id> ids) noexcept { wish(store(), r, ids); };
      if (kv_.publish(s.row, r.prefix_hashes(), computed, wished, s.drafted) != 0) ++findable_;
    } else {
      static_cast<void>(r), static_cast<void>(computed);
    }
    return 0;
  }
  /// The KV of its first `computed` tokens is there for good: frees blocks that no later token attends to, in plans in
  /// flight neither. Returns their number.
  blocks slide(Request& r, tokens computed) noexcept {
    const std::uint32_t row = r.state().row;
    if (computed < kv_.slides_at(row)) return blocks{};
    std::array<std::span<const kv::block_id>, Groups> ids{};
    for (std::size_t g = 0; g != kv_.count(); ++g) ids[g] = kv_.blocks_of(g, row);
    const std::size_t n = kv_.slide(row, computed);
    for (std::size_t g = 0; g != kv_.count(); ++g) {
      own_.left(row, ids[g].first(ids[g].size() - kv_.blocks_of(g, row).size()), store());
    }
    return counted(n);
  }

  [[nodiscard]] bool fork(const Request& parent, Request& child) noexcept {
    const typename groups::forked made = kv_.fork(parent.state().row, parent.state().computed);
    if (made.row == no_index) return false;
    if (made.count > copies_.capacity() - copies_.size()) {
      kv_.roll_back(0);
      return false;
    }
    kv_.begin();
    request_access::state(child).row = made.row;
    for (std::size_t g = 0; g != kv_.count(); ++g) {
      // Shared blocks, and one of its own if the parent's last block is not full.
      for (const kv::block_id& id : kv_.blocks_of(g, made.row)) {
        if (store().references(id) == 1) {
          own_.taken(made.row, {&id, 1});
        } else {
          own_.joined(made.row, {&id, 1}, store());
        }
      }
    }
    for (std::size_t i = 0; i != made.count; ++i) copies_.push_back(made.copies[i]);
    return true;
  }
  [[nodiscard]] bool awaits_copy(const Request& r) const noexcept { return is_filled_by(r, copies_); }
  [[nodiscard]] bool is_filled_by(const Request& r, std::span<const kv::block_copy> copies) const noexcept {
    if (r.state().row == no_index || copies.empty()) return false;
    for (std::size_t g = 0; g != kv_.count(); ++g) {
      for (const kv::block_id id : kv_.blocks_of(g, r.state().row)) {
        for (const kv::block_copy& c : copies) {
          if (c.to == id) return true;
        }
      }
    }
    return false;
  }

  void take_back(Request& r, tokens n) noexcept {
    state& s = request_access::state(r);
    if (s.computed != tokens{}) s.computed -= n;
  }
  static constexpr void forget_host_copy(Request& /*r*/) noexcept {}

 private:
  [[nodiscard]] const hash* hash_behind(const Request& r, tokens n) const noexcept {
    if constexpr (shares) {
      const tokens unit = kv_.unit();
      const hash_spans hashes = r.prefix_hashes();
      const auto i = static_cast<std::size_t>(unit * (n / unit) / block_size());
      return i < hashes[0].size() ? &hashes[0][i] : nullptr;
    } else {
      static_cast<void>(r), static_cast<void>(n);
      return nullptr;
    }
  }

  static constexpr std::int64_t max_positions = 0x7fff'ffff;

  /// One undoable change of a plan. All but a mark are in the journal of the groups as well, one for one.
  struct reservation {
    enum class what : std::uint8_t { row, shared, grown, evicted, stalled } kind;
    plan_mark mark;  ///< The mark before.
    std::uint32_t marked_in;
    Request* request;
  };

  static constexpr typename groups::limits groups_limits(const limits& l) noexcept {
    return {.blocks = l.blocks,
            .rows = l.rows(),
            .max_length = slots_of(l, longest(l)),
            .layers = l.layers,
            .used = l.used,
            .ahead = tokens{static_cast<std::int64_t>(l.plans_in_flight) - 1},
            .slots_ahead = l.slots_ahead,
            .keeps_passed = l.keeps_passed,
            .kept_behind = l.kept_behind};
  }
  static const limits& checked(const limits& l) noexcept {
    TESSERA_ASSERT(longest(l) > tokens{}, "too few blocks for one token");
    TESSERA_ASSERT(longest(l) < tokens{max_positions}, "groups without full attention need a max_length");
    TESSERA_ASSERT(l.host_blocks == 0, "KV in groups is not swapped: a victim computes it anew");
    return l;
  }
  [[nodiscard]] static constexpr blocks counted(std::size_t n) noexcept { return blocks{static_cast<std::int64_t>(n)}; }
  static void set_mark(state& s, const reservation& before) noexcept {
    s.marked_in = before.marked_in;
    s.mark = before.mark;
  }
  void note(typename reservation::what kind, Request& r) noexcept {
    journal_.push_back({kind, r.state().mark, r.state().marked_in, &r});
  }
  /// Plans in flight may read the blocks of a row that gives them up.
  void note_reads(std::uint32_t row) noexcept {
    for (std::size_t g = 0; g != kv_.count(); ++g) reads_.note(kv_.blocks_of(g, row));
  }
  /// For all its blocks.
  void wish_of_all(const Request& r) noexcept {
    for (std::size_t g = 0; g != kv_.count(); ++g) wish(store(), r, kv_.blocks_of(g, r.state().row));
  }

  groups kv_;
  host_type host_;
  exclusive_blocks<true> own_;
  block_reads reads_;
  kv_moves<Request>* moves_ = nullptr;   ///< The latest plan's.
  fixed_vector<kv::block_copy> copies_;  ///< Copies that no plan that was run has listed yet.
  fixed_vector<reservation> journal_;
  std::size_t findable_ = 0;    ///< How often a block became findable, or all were forgotten.
  std::int64_t step_ = 0;       ///< Blocks are full at multiples of it;
  std::int64_t last_bits_ = 0;  ///< these bits are 0 there.
  bool has_states_ = false;     ///< That have no spare blocks.
};

template <std::size_t Groups, class Store>
inline constexpr bool is_kv_groups<kv::groups<Groups, Store>> = true;
template <class Request, std::size_t Groups, class Store>
inline constexpr bool hashes_by_group<Request, kv::groups<Groups, Store>> =
    grouped_ledger<Request, Groups, Store>::shares || !requires(const Request& r) { r.prefix_hashes(); };

template <class Request, std::size_t Groups, class Store>
struct ledger_of<Request, kv::groups<Groups, Store>> {
  using type = grouped_ledger<Request, Groups, Store>;
};

}  // namespace detail
TESSERA_NAMESPACE_END
