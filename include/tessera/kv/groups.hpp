// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>
#include <tessera/kv/block_table.hpp>
#include <tessera/kv/copy_on_write.hpp>
#include <tessera/kv/group.hpp>
#include <tessera/kv/group_lookup.hpp>
#include <tessera/kv/prefix_cache.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// KV of a model with different kinds of layers: one block table for each group of layers, and one store for all
/// groups. Blocks have the same number of bytes; the number of tokens in a block is the group's own choice.
///
/// A request has one row, with the same number in each table. A window frees its blocks behind itself when it begins
/// new ones at its end. Their entries (before `first_block`) are unspecified, and no kernel reads them. A prefix is
/// found as far as all groups can serve it. Full attention needs all of it, a window only what the next token reads.
///
/// Blocks that a window has passed are evicted before all others (`release_first`, if the store has it). Prefixes that
/// end behind them are found without them. Prompts are likely to be found up to two places, which are exceptions: the
/// end of the row's hashes, and its departure from known prefixes. (Marconi, section 4.1, keeps states at the same
/// places.) The window before such a place is released as any other block, as are states that are few (`at_ends`).
///
/// Within a plan: `open`, `share`, `fork`, `grow`, `evict`, undone by `roll_back`. Final: `publish`, `slide`, `close`.
///
/// Complexity: O(blocks given or taken + Groups), and O(1) for a row that needs no block and gives none back. `match`:
/// O(blocks of the prefix) in all groups together. Allocates nothing. Exhaustion is a value. Deterministic.
///
/// @tparam Groups number of groups, at most: `limits::used` says how many of them a model has.
/// @tparam Store  the blocks: a `prefix_store`.
template <std::size_t Groups, prefix_store Store = prefix_cache>
class groups {
  static_assert(Groups > 0, "tessera: a model has one group of layers at least");

 public:
  using hash_type = hash_of<Store>;                                   ///< The hash that finds blocks.
  using hash_spans = std::array<std::span<const hash_type>, Groups>;  ///< For each group one hash per full block;
                                                                      ///< groups with the same block size share them.
  using counts = std::array<std::uint32_t, Groups>;                   ///< A count per group.

  /// What `fork` did.
  struct forked {
    std::uint32_t row = no_index;             ///< The child's row; `no_index` if there was no room.
    std::array<block_copy, Groups> copies{};  ///< Copies for the engine to make before it writes to either,
    std::size_t count = 0;                    ///< and their number.
  };

  /// Capacities; fixed at construction.
  struct limits {
    std::size_t blocks = 0;              ///< Blocks of all groups together.
    std::size_t rows = 0;                ///< Requests, including evicted ones that are not closed.
    tokens max_length{};                 ///< Length of a request, with the slots ahead. Less than 2^31.
    std::array<group, Groups> layers{};  ///< The groups.
    std::size_t used = Groups;           ///< Number of groups in use, the first of `layers`. At least 1.
    tokens ahead{};                      ///< Tokens by which rows grow before `slide` is called for earlier ones.
    tokens slots_ahead{};                ///< Rows have room for as many more tokens, up to `max_length`.
    bool keeps_passed = false;           ///< What a window has passed is evicted in its turn, not before all others.
    tokens kept_behind{};                ///< Windows keep what the last so many computed tokens have looked at.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    storage_layout all;
    all.add_bytes(Store::required_bytes(store_limits(l)));
    for (std::size_t g = 0; g != Groups; ++g) all.add_bytes(block_table::required_bytes(table_limits(l, g)));
    all.template add<row_state>(l.rows)
        .add_bytes(fixed_vector<done>::required_bytes(operations * l.rows))
        .template add<bool>(l.blocks);
    return all.bytes_unaligned();
  }

  /// All rows and blocks are free. O(blocks + rows).
  groups(arena& memory, const limits& l) noexcept : groups{memory, l, std::make_index_sequence<Groups>{}} {}
  groups(const groups&) = delete;
  groups& operator=(const groups&) = delete;

  /// The blocks of all groups. Only this object may allocate or release its blocks.
  [[nodiscard]] Store& store() noexcept { return store_; }
  /// The blocks of all groups, for reading.
  [[nodiscard]] const Store& store() const noexcept { return store_; }
  /// How many groups there are. Each member that takes a group wants one of these.
  [[nodiscard]] std::size_t count() const noexcept { return Groups == 1 ? 1 : used_; }
  /// A group's tables. Requires: `g < count()`.
  [[nodiscard]] block_table& table(std::size_t g) noexcept { return table_[g]; }
  /// A group's tables. Requires: `g < count()`.
  [[nodiscard]] const block_table& table(std::size_t g) const noexcept { return table_[g]; }
  /// A group. Requires: `g < count()`.
  [[nodiscard]] const group& of(std::size_t g) const noexcept { return group_[g]; }
  /// Blocks that can be taken now.
  [[nodiscard]] std::size_t free() const noexcept { return store_.free(); }
  /// Prefixes are found in multiples of this many tokens: the smallest number that is whole blocks in every group.
  [[nodiscard]] tokens unit() const noexcept { return unit_; }
  /// Blocks that a row has in all groups together. O(Groups). Requires: the row is in use.
  [[nodiscard]] std::size_t held(std::uint32_t row) const noexcept {
    std::size_t n = 0;
    for (std::size_t g = 0; g != count(); ++g) n += table_[g].size(row) - state_[row].first[g];
    return n;
  }
  /// A group's first block of a row that is still held. Earlier entries are unspecified. O(1). Requires: a row in use.
  [[nodiscard]] std::size_t first_block(std::size_t g, std::uint32_t row) const noexcept {
    return state_[row].first[g];
  }
  /// A group's blocks of a row that are still held. O(1). Requires: the row is in use.
  [[nodiscard]] std::span<const block_id> blocks_of(std::size_t g, std::uint32_t row) const noexcept {
    return table_[g].row(row).subspan(state_[row].first[g]);
  }
  /// Tokens that a row has blocks for, in all groups. O(1). Requires: the row is in use.
  [[nodiscard]] tokens room(std::uint32_t row) const noexcept { return state_[row].room; }
  /// The same, if the engine was told of all blocks of the row; else 0. O(1). Requires: the row is in use.
  [[nodiscard]] tokens sent_room(std::uint32_t row) const noexcept { return state_[row].sent_room; }
  /// Records that the engine knows the row as it is, in all groups. O(Groups). Requires: the row is in use.
  void mark_sent(std::uint32_t row) noexcept {
    for (block_table& t : tables()) t.mark_sent(row);
    state_[row].sent_room = state_[row].room;
  }
  /// Where a step ends that computes a row from token `first` on, to `end` at most, of `length` tokens. O(1). Requires:
  /// the row is in use, `first < end <= length`.
  [[nodiscard]] tokens step_end(std::uint32_t row, tokens first, tokens end, tokens length) const noexcept {
    return at_ends_ ? detail::step_end(unit_, state_[row].parting, first, end, length) : end;
  }
  /// Whether a row that has more can continue after its first `n` tokens: windows hold what that needs, and there is no
  /// state. O(Groups). Requires: the row is in use.
  [[nodiscard]] bool can_go_back(std::uint32_t row, tokens n) const noexcept {
    for (std::size_t g = 0; g != count(); ++g) {
      if (group_[g].is_recurrent() || group_[g].first_needed(n) < state_[row].first[g]) return false;
    }
    return true;
  }
  /// The number of computed tokens at which `slide` gives a block back. O(1). Requires: the row is in use.
  [[nodiscard]] tokens slides_at(std::uint32_t row) const noexcept { return state_[row].slides_at; }

  /// Blocks that a row lacks for the KV of its first `length` tokens. Groups that keep all blocks count its first
  /// `reserved` tokens as well. O(Groups). Requires: the row is in use.
  [[nodiscard]] std::size_t lacks(std::uint32_t row, tokens length, tokens reserved = {}) const noexcept {
    std::size_t n = 0;
    for (std::size_t g = 0; g != count(); ++g) n += lacks_in(g, row, length, reserved);
    return n;
  }
  /// Blocks that a sequence of `length` tokens needs at once, at least. A window needs as many as it spans. O(Groups).
  [[nodiscard]] std::size_t needs(tokens length) const noexcept {
    std::size_t n = 0;
    for (const group& g : layers()) n += g.most_blocks(slots(length), slots_ahead_ + behind_);
    return n;
  }
  /// Blocks that a row needs, in addition to those it holds, to become `length` tokens long, if windows give back what
  /// they can. With them it can continue by at least one token. O(Groups). Requires: the row is in use, and slides when
  /// it can.
  [[nodiscard]] std::size_t to_come(std::uint32_t row, tokens length) const noexcept {
    std::size_t n = 0;
    for (std::size_t g = 0; g != count(); ++g) n += to_come_in(g, state_[row].first[g], table_[g].size(row), length);
    return n;
  }
  /// The same for a row that has found the first `found` tokens, rounded down to whole blocks. O(Groups).
  [[nodiscard]] std::size_t to_come_behind(tokens found, tokens length) const noexcept {
    std::size_t n = 0;
    for (std::size_t g = 0; g != count(); ++g) {
      n += to_come_in(g, detail::needed_from(group_[g], found), static_cast<std::size_t>(found / group_[g].block_size),
                      length);
    }
    return n;
  }

  /// The length of the prefix that all groups can serve: a multiple of `unit()`, at most `most`. Changes nothing.
  /// O(blocks of the prefix): each block is looked up at most once.
  [[nodiscard]] tokens match(const hash_spans& hashes, tokens most) const noexcept {
    tokens parting{};
    return match(hashes, most, parting);
  }
  /// The same. `parting` is the point at which the prompt departs from a sequence that full attention knows, for
  /// `keep_window`; 0: none.
  [[nodiscard]] tokens match(const hash_spans& hashes, tokens most, tokens& parting) const noexcept {
    parting = {};
    std::array<detail::known_run, Groups> run{};
    tokens n = named(hashes, most);
    for (std::size_t g = 0; g != count(); ++g) {
      if (group_[g].window != tokens{}) continue;
      const std::span<const hash_type> all = hashes[g].first(static_cast<std::size_t>(n / group_[g].block_size));
      std::size_t known = 0;
      for (detail::prepare(store_, g, all, 0); known != all.size(); ++known) {
        detail::prepare_next(store_, g, all, known);
        if (!store_.knows(named_in(g, all[known]))) break;
      }
      n = whole(group_[g].block_size * static_cast<std::int64_t>(known));
    }
    if (full_ != Groups && n != tokens{}) {
      const hash_type last = named_in(full_, hashes[full_][static_cast<std::size_t>(n / group_[full_].block_size) - 1]);
      block_id id = no_index;
      if (store_.match({&last, 1}, {&id, 1}) == 1 && followed_[id]) parting = n;
    }
    // A block that one window lacks ends the prefix before it for all groups. Then the others have to look again,
    // further down.
    for (bool fits = false; !fits && n != tokens{};) {
      fits = true;
      for (std::size_t g = 0; g != count() && n != tokens{}; ++g) {
        const tokens longest = detail::serves(store_, group_[g], g, unit_, hashes[g], n, run[g]);
        if (longest != n) fits = false;
        n = longest;
      }
    }
    return n;
  }

  // -- within a plan: undone by `roll_back` ------------------------------------------------------------------------

  /// Makes all earlier changes final: they cannot be undone any more. O(1).
  void begin() noexcept { journal_.clear(); }
  /// The present state, for `roll_back`. O(1).
  [[nodiscard]] std::size_t mark() const noexcept { return journal_.size(); }

  /// An empty row, or `no_index` when all are in use or the journal is full (6 calls for each row since `begin`).
  /// O(Groups).
  [[nodiscard]] std::uint32_t open() noexcept {
    if (journal_.full() || table_[0].free_rows() == 0) return no_index;
    std::uint32_t row = no_index;
    for (block_table& t : tables()) row = t.acquire_row();
    state_[row] = {};
    look_ahead(row);
    journal_.push_back({done::what::opened, row, {}});
    return row;
  }

  /// Takes the blocks that are needed to continue after the first `n` tokens of a prefix. If `upto` is
  /// more than `n`, the KV of so many tokens comes from elsewhere: windows take what is needed to continue after these.
  /// Requires: the row is empty, and `n` is the result of `match`, with no call since (asserted). O(blocks of the
  /// prefix).
  void share(std::uint32_t row, const hash_spans& hashes, tokens n, tokens upto = {}) noexcept {
    TESSERA_ASSERT(n % unit_ == tokens{} && held(row) == 0 && !journal_.full(), "a prefix for a row that is empty");
    done d{done::what::shared, row, {}};
    for (std::size_t g = 0; g != count(); ++g) {
      const auto end = static_cast<std::size_t>(n / group_[g].block_size);
      const std::size_t first = detail::needed_from(group_[g], max(n, upto));
      const std::span<block_id> ids = table_[g].extend(row, first > end ? first : end);
      for (std::size_t i = 0; i != ids.size(); ++i) {
        ids[i] = no_index;
        if (i < first) continue;
        const hash_type h = named_in(g, hashes[g][i]);
        const std::size_t found = store_.match({&h, 1}, ids.subspan(i, 1));
        TESSERA_ASSERT(found == 1, "a prefix that was not matched");
        static_cast<void>(found);
      }
      ensure(store_.share(std::span<const block_id>{ids}.subspan(first)));
      state_[row].first[g] = static_cast<std::uint32_t>(first);
      state_[row].published[g] = static_cast<std::uint32_t>(ids.size());
      d.blocks[g] = static_cast<std::uint32_t>(ids.size() - first);
    }
    look_ahead(row);
    journal_.push_back(d);
  }

  /// A row that continues as a copy of another one with `computed` tokens of KV. It shares all full blocks. It has a
  /// block of its own for each partly filled one, which the engine copies. The same holds for a state, which is written
  /// over. No row, and no change, if there is no free row or too few blocks. Requires: the parent's row is in use, was
  /// not evicted, and has not slid beyond `computed`. O(blocks of the row).
  [[nodiscard]] forked fork(std::uint32_t parent, tokens computed) noexcept {
    TESSERA_ASSERT(!state_[parent].evicted, "an evicted row");
    const std::size_t before = mark();
    forked result{.row = open(), .copies = {}, .count = 0};
    if (result.row == no_index) return {};
    if (journal_.full()) return roll_back(before), forked{};
    row_state& s = state_[result.row];
    s.parting = state_[parent].parting, s.named = state_[parent].named;
    done d{done::what::shared, result.row, {}};
    for (std::size_t g = 0; g != count(); ++g) {
      const auto full = static_cast<std::size_t>(computed / group_[g].block_size);
      const std::span<const block_id> theirs = table_[g].row(parent);
      const std::span<block_id> ids = table_[g].extend(result.row, full);
      const std::uint32_t first = state_[parent].first[g];
      TESSERA_ASSERT(first <= full && full <= theirs.size(), "a parent with KV for these tokens");
      for (std::size_t i = 0; i != full; ++i) ids[i] = theirs[i];
      ensure(store_.share(std::span<const block_id>{ids}.subspan(first)));
      const std::uint32_t published = state_[parent].published[g];
      s.first[g] = first;
      s.published[g] = published < full ? published : static_cast<std::uint32_t>(full);
      d.blocks[g] = static_cast<std::uint32_t>(full - first);
    }
    look_ahead(result.row);
    journal_.push_back(d);
    if (grow(result.row, computed) != status::ok) return roll_back(before), forked{};
    for (std::size_t g = 0; g != count(); ++g) {
      if (computed % group_[g].block_size == tokens{}) continue;
      const auto last = static_cast<std::size_t>(computed / group_[g].block_size);
      result.copies[result.count++] = {table_[g].row(parent)[last], table_[g].row(result.row)[last]};
    }
    return result;
  }

  /// Gives a row blocks for the KV of its first `length` tokens. In groups that keep all blocks, it gives blocks for
  /// its first `reserved` tokens as well. All groups or none. `exhausted`: `lacks` exceeds the free blocks. `invalid`:
  /// it would be longer than the limits allow. Requires: the row is in use. O(blocks taken + Groups), O(1) if there are
  /// none and none is reserved.
  [[nodiscard]] status grow(std::uint32_t row, tokens length, tokens reserved = {}) noexcept {
    TESSERA_ASSERT(!state_[row].evicted, "an evicted row");
    if (max(length, reserved) <= state_[row].room) return status::ok;
    if (max(length, reserved) > max_length_) return status::invalid;
    const std::size_t n = lacks(row, length, reserved);
    if (n == 0) return status::ok;
    if (n > store_.free() || journal_.full()) return status::exhausted;
    done d{done::what::grown, row, {}};
    for (std::size_t g = 0; g != count(); ++g) {
      d.blocks[g] = static_cast<std::uint32_t>(lacks_in(g, row, length, reserved));
      const status taken = store_.allocate(table_[g].extend(row, d.blocks[g]));
      TESSERA_ASSERT(taken == status::ok, "as many were free");
      static_cast<void>(taken);
    }
    look_ahead(row);
    journal_.push_back(d);
    return status::ok;
  }

  /// Gives a row's blocks back. The row can be read, so that its KV can be copied, until it is closed. Requires: the
  /// row is in use and was not evicted before (asserted). O(blocks held).
  void evict(std::uint32_t row) noexcept {
    TESSERA_ASSERT(!state_[row].evicted && !journal_.full(), "evicted twice, or too much done in one plan");
    if (state_[row].evicted || journal_.full()) return;
    give_back(row);
    state_[row].evicted = true;
    journal_.push_back({done::what::evicted, row, {}});
  }

  /// Undoes all changes since `mark`, the latest first: the same blocks will be handed out again, in the same order.
  void roll_back(std::size_t mark) noexcept {
    for (; journal_.size() > mark; journal_.pop_back()) {
      const done& d = journal_.back();
      for (std::size_t g = count(); g-- != 0;) {
        const std::span<const block_id> ids = table_[g].row(d.row);
        switch (d.kind) {
          case done::what::opened: static_cast<void>(table_[g].release_row(d.row)); break;
          case done::what::shared:
            store_.undo_share(ids.last(d.blocks[g]));
            table_[g].truncate(d.row, 0);
            break;
          case done::what::grown:
            store_.undo_allocate(ids.last(d.blocks[g]));
            table_[g].truncate(d.row, ids.size() - d.blocks[g]);
            break;
          case done::what::evicted: store_.undo_release(ids.subspan(state_[d.row].first[g])); break;
        }
      }
      if (d.kind == done::what::shared) state_[d.row] = {};
      if (d.kind == done::what::evicted) state_[d.row].evicted = false;
      if (d.kind != done::what::opened) look_ahead(d.row);
    }
  }

  /// Keeps the window behind the first `n` tokens of a row: it has the value of other blocks once the row has passed
  /// it. O(1). Requires: the row is in use; `n` is whole blocks of all groups.
  void keep_window(std::uint32_t row, tokens n) noexcept { state_[row].parting = n; }

  // -- final -------------------------------------------------------------------------------------------------------

  /// Makes full blocks of the first `computed` tokens findable, if they have hashes, are still held, and a prefix of
  /// whole units may need them. Call it before `slide`, which gives them back. Calls `made(ids)` with all that have
  /// become full, group by group. Returns the number of findable ones. `drafted`: the last tokens may have been drafts.
  /// Requires: the row is in use. O(blocks that have become full + Groups).
  template <class Made = detail::no_callback>
  std::size_t publish(std::uint32_t row, const hash_spans& hashes, tokens computed, Made made = {},
                      bool drafted = false) noexcept {
    TESSERA_ASSERT(journal_.empty() && !state_[row].evicted, "publish within a plan, or an evicted row");
    row_state& s = state_[row];
    std::size_t n = 0;
    s.named = named(hashes, tokens{std::int64_t{1} << 40});
    for (std::size_t g = 0; g != count(); ++g) {
      auto end = static_cast<std::size_t>(computed / group_[g].block_size);
      if (hashes[g].size() < end) end = hashes[g].size();
      const std::span<const block_id> ids = table_[g].row(row);
      if (ids.size() < end) end = ids.size();
      std::size_t i = detail::first_written(group_[g], s.published[g], s.first[g], end, computed, drafted);
      const std::span<const hash_type> all = hashes[g].first(end);
      detail::prepare(store_, g, all, i);
      const std::size_t from = i;
      for (; i < end; ++i) {
        detail::prepare_next(store_, g, all, i);
        if (!detail::is_reachable(group_[g], i, unit_)) continue;
        ++n;
        const hash_type h = named_in(g, all[i]);
        if constexpr (requires { store_.publish(ids[i], h, i, h); }) {  // a store that takes a block's place in its
                                                                        // sequence
          static_cast<void>(store_.publish(ids[i], h, i, i != 0 ? named_in(g, all[i - 1]) : hash_type{}));
        } else {
          static_cast<void>(store_.publish(ids.subspan(i, 1), std::span<const hash_type>{&h, 1}, 0));
        }
        if (g != full_) continue;
        followed_[ids[i]] = false;
        if (i != 0) followed_[ids[i - 1]] = true;
      }
      if (s.published[g] < end) s.published[g] = static_cast<std::uint32_t>(end);
      if (from < end) made(ids.first(end).subspan(from));
    }
    return n;
  }

  /// The KV of a row's first `computed` tokens is there: gives back blocks that no later token attends to. Returns
  /// their number. Requires: the row is in use. O(these + Groups), O(1) if there are none.
  std::size_t slide(std::uint32_t row, tokens computed) noexcept {
    TESSERA_ASSERT(journal_.empty() && !state_[row].evicted, "slide within a plan, or an evicted row");
    if (computed < state_[row].slides_at) return 0;
    std::size_t n = 0;
    for (std::size_t g = 0; g != count(); ++g) {
      std::uint32_t& first = state_[row].first[g];
      if (group_[g].window == tokens{} || computed < slides_at(group_[g], first)) continue;
      const std::span<const block_id> ids = table_[g].row(row);
      const std::size_t passed = group_[g].first_needed(computed - behind_);
      const std::size_t end = ids.size() < passed ? ids.size() : passed;
      if (first >= end) continue;
      pass(g, row, ids.first(end));
      n += end - std::exchange(first, static_cast<std::uint32_t>(end));
    }
    look_ahead(row);
    return n;
  }

  /// Keeps the blocks of a row's first `length` tokens, after drafts were rejected. Returns the number of blocks given
  /// back. Requires: the row is in use, and has not slid beyond `length`. O(these + Groups), O(Groups) if there are
  /// none.
  std::size_t trim(std::uint32_t row, tokens length) noexcept {
    TESSERA_ASSERT(journal_.empty() && !state_[row].evicted, "trim within a plan, or an evicted row");
    std::size_t n = 0;
    for (std::size_t g = 0; g != count(); ++g) {
      const std::span<const block_id> ids = table_[g].row(row);
      const std::size_t keep = group_[g].row_blocks(slots(length));
      TESSERA_ASSERT(keep >= state_[row].first[g], "a row that has slid beyond what it is to keep");
      if (ids.size() <= keep) continue;
      ensure(store_.release(ids.subspan(keep)));
      n += ids.size() - keep;
      table_[g].truncate(row, keep);
    }
    if (n != 0) look_ahead(row);
    return n;
  }

  /// Gives a row up, and its blocks, if it was not evicted. Requires: the row is in use. O(blocks held).
  void close(std::uint32_t row) noexcept {
    TESSERA_ASSERT(journal_.empty(), "close within a plan");
    if (!state_[row].evicted) give_back(row);
    for (block_table& t : tables()) static_cast<void>(t.release_row(row));
  }

  /// Forgets all prefixes. Blocks in use stay in use. O(blocks + rows).
  void clear() noexcept
    requires requires(Store& s) { s.clear(); }
  {
    TESSERA_ASSERT(journal_.empty(), "clear within a plan");
    store_.clear();
  }

 private:
  static constexpr std::size_t operations = 6;

  struct row_state {
    tokens room{};       // tokens that have blocks in all groups
    tokens sent_room{};  // the same, or 0 while a block is new
    tokens slides_at{};  // the number of computed tokens at which the next window gives a block back
    tokens parting{};    // the point at which it departed from known prefixes; 0: none
    tokens named{};      // whole blocks of all groups that have hashes
    bool evicted = false;
    counts first{};      // by group, the first block that is still there
    counts published{};  // blocks that were published, or need not be
  };
  struct done {
    enum class what : std::uint8_t { opened, shared, grown, evicted } kind;
    std::uint32_t row;
    counts blocks;
  };

  static constexpr typename Store::limits store_limits(const limits& l) noexcept {
    typename Store::limits s{};
    s.blocks = l.blocks;
    return s;
  }
  static constexpr block_table::limits table_limits(const limits& l, std::size_t g) noexcept {
    return {.rows = g < l.used ? l.rows : 0,
            .blocks_per_row = l.layers[g].row_blocks(l.max_length),
            .block_size = l.layers[g].block_size};
  }
  template <std::size_t... G>
  groups(arena& memory, const limits& l, std::index_sequence<G...> /*all*/) noexcept
      : group_{l.layers},
        used_{l.used},
        max_length_{l.max_length},
        ahead_{l.ahead},
        slots_ahead_{l.slots_ahead},
        keeps_passed_{l.keeps_passed},
        behind_{l.kept_behind},
        store_{memory, store_limits(l)},
        table_{{{memory, table_limits(l, G)}...}},
        state_{memory.take<row_state>(l.rows)},
        journal_{memory, operations * l.rows},
        followed_{memory.take<bool>(l.blocks)} {
    TESSERA_ASSERT(l.used > 0 && l.used <= Groups, "groups of layers out of range");
    for (full_ = 0; full_ != count() && group_[full_].window != tokens{};) ++full_;
    for (const group& g : layers()) {
      TESSERA_ASSERT(g.block_size >= tokens{1} && g.window >= tokens{}, "a group's block_size or window out of range");
      unit_ = tokens{std::lcm(unit_.count(), g.block_size.count())};
      at_ends_ = at_ends_ || g.at_ends;
    }
    if (full_ == count()) full_ = Groups;
  }

  static void ensure(status done) noexcept {
    TESSERA_ASSERT(done == status::ok, "a row's blocks are in use, and matched ones are there");
    static_cast<void>(done);
  }
  [[nodiscard]] std::span<const group> layers() const noexcept { return std::span{group_}.first(count()); }
  [[nodiscard]] std::span<block_table> tables() noexcept { return std::span{table_}.first(count()); }
  [[nodiscard]] tokens slides_at(const group& of, std::size_t first) const noexcept {
    return of.slides_at(first, slots_ahead_, ahead_, behind_);
  }
  /// Updates when a row needs blocks, and when it gives some back.
  void look_ahead(std::uint32_t row) noexcept {
    row_state& s = state_[row];
    s.room = s.slides_at = tokens{std::int64_t{1} << 40};
    bool sent = true;
    for (std::size_t g = 0; g != count(); ++g) {
      const group& of = group_[g];
      const std::size_t size = table_[g].size(row);
      const tokens has = of.block_size * static_cast<std::int64_t>(size > of.spare ? size - of.spare : 0);
      s.room = min(s.room, has < max_length_ ? max(has - slots_ahead_, tokens{}) : has);
      sent = sent && table_[g].sent(row) == size;
      if (of.window == tokens{}) continue;
      s.slides_at = min(s.slides_at, slides_at(of, s.first[g]));
    }
    s.sent_room = sent ? s.room : tokens{};
  }
  [[nodiscard]] tokens slots(tokens length) const noexcept {
    return min(length + slots_ahead_, max(length, max_length_));
  }
  [[nodiscard]] tokens whole(tokens n) const noexcept { return unit_ * (n / unit_); }
  /// The first of `most` tokens, as many as have hashes in all groups.
  [[nodiscard]] tokens named(const hash_spans& hashes, tokens most) const noexcept {
    for (std::size_t g = 0; g != count(); ++g) {
      most = min(most, group_[g].block_size * static_cast<std::int64_t>(hashes[g].size()));
    }
    return whole(max(most, tokens{}));
  }
  [[nodiscard]] std::size_t lacks_in(std::size_t g, std::uint32_t row, tokens length,
                                     tokens reserved = {}) const noexcept {
    const tokens n = group_[g].window == tokens{} ? max(length, reserved) : length;
    const std::size_t want = group_[g].row_blocks(slots(n));
    const std::size_t has = table_[g].size(row);
    return want > has ? want - has : 0;
  }
  /// Blocks that a row lacks to become `length` tokens long, if its window begins at block `first` and it holds `has`.
  [[nodiscard]] std::size_t to_come_in(std::size_t g, std::size_t first, std::size_t has,
                                       tokens length) const noexcept {
    const std::size_t all = group_[g].row_blocks(slots(length));
    const std::size_t most = group_[g].most_blocks(slots(length), slots_ahead_ + behind_);
    const std::size_t want = all < first + most ? all : first + most;
    return want > has ? want - has : 0;
  }

  /// Releases these blocks, which begin with the row's first of this group: a window has passed the last of them. From
  /// front to back: the end is evicted before its beginning.
  void pass(std::size_t g, std::uint32_t row, std::span<const block_id> ids) noexcept {
    const row_state& s = state_[row];
    const group& of = group_[g];
    // At least one token is computed: a prompt of whole blocks is found again up to the unit before its end.
    const tokens end = max(s.named - unit_, tokens{});
    for (std::size_t i = s.first[g]; i != ids.size(); ++i) {
      if constexpr (requires { store_.release_first(ids[i]); }) {
        const bool is_kept = keeps_passed_ || detail::is_kept(of, i, s.parting, end, s.named);
        ensure(is_kept ? store_.release(ids.subspan(i, 1)) : store_.release_first(ids[i]));
      } else {
        ensure(store_.release(ids.subspan(i, 1)));
      }
    }
  }
  void give_back(std::uint32_t row) noexcept {
    for (std::size_t g = 0; g != count(); ++g) {
      ensure(store_.release(table_[g].row(row).subspan(state_[row].first[g])));
    }
  }

  std::array<group, Groups> group_;
  std::size_t used_;
  tokens max_length_;
  tokens ahead_;
  tokens slots_ahead_;
  bool keeps_passed_;
  tokens behind_;
  tokens unit_{1};
  bool at_ends_ = false;
  Store store_;
  std::array<block_table, Groups> table_;
  row_state* state_;
  fixed_vector<done> journal_;
  bool* followed_;             // by block of the first group of full attention: a block after it was published as well
  std::size_t full_ = Groups;  // that group; `Groups`: there is none
};

}  // namespace kv
TESSERA_NAMESPACE_END
