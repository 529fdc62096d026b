// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/clock.hpp>
#include <tessera/kv/block_list.hpp>
#include <tessera/kv/eviction.hpp>
#include <tessera/kv/indexed_heap.hpp>

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// Keeps the blocks of a request until the next turn of its session is due. `r.keep_until`, a time point, is read when
/// its blocks are published and when it gives them back. A block goes by that time or, if it is past, by its last use,
/// the earliest first. So without hints this is `lru`. A block kept in vain is as cold afterwards as one last used at
/// that time. Kept is not pinned: if there is nothing else, kept blocks go as well.
/// When to use: turns of agents with tools that answer after a predictable time (Continuum's time to live).
///
/// A block is kept for one use: if it is used again, by any request, it is kept no longer unless a request asks again.
/// (Common beginnings that were kept for the latest time of all, used or not, took more than they gave.)
///
/// A request may name its session, `r.kv_session`, and say by `r.releases_kv` that no other turn of it follows. Blocks
/// that no other session has had then go before all others. Those that others have had, as of a common system prompt,
/// stay.
///
/// A list of what is not kept, and a heap of what is kept or released. A block that is cached, used again or evicted
/// costs O(1) on the list, and O(log kept blocks) in the heap. 48 bytes a block. Model of `eviction_policy`.
template <clock_policy Clock = seconds_clock>
class keep_until {
 public:
  using time_point = basic_time_point<Clock>;  ///< The type of times.

  /// A request's retention hint for its blocks.
  struct retention_type {
    /// From a time alone, or with the rest.
    // NOLINTNEXTLINE(google-explicit-constructor)
    constexpr retention_type(time_point t = {}, std::uint32_t of = 0, bool is_last = false) noexcept
        : until{t}, session{of}, releases{is_last} {}
    time_point until;       ///< When they are needed at the latest; the origin of time: no hint.
    std::uint32_t session;  ///< The session of the request, at most `last_session`; 0: none, or several.
    bool releases;          ///< No other turn of that session follows. Without a session it has no effect.
  };
  static constexpr std::uint32_t last_session = no_index - 1;  ///< The largest number of a session.

  /// When a block goes.
  struct turn_type {
    time_point at{};         ///< By this time;
    std::uint64_t turn = 0;  ///< for equal times, by how long it has been cached.
    /// In the order of going.
    friend constexpr auto operator<=>(const turn_type&, const turn_type&) noexcept = default;
  };
  /// The place of a block, and its hint before it was used again.
  struct place_type {
    turn_type turn;    ///< When it would have gone.
    time_point until;  ///< Its hint.
    block_id before;   ///< The block before it on the list; `no_index`: it is kept, or released.
  };

  /// Bytes that an object for `blocks` blocks takes from its arena.
  [[nodiscard]] static constexpr std::size_t required_bytes(std::size_t blocks) noexcept {
    storage_layout all;
    all.add<turn_type>(blocks)
        .template add<subject>(blocks)
        .add_bytes(detail::block_list::required_bytes(blocks + 1))
        .add_bytes(detail::indexed_heap::required_bytes(blocks));
    return all.bytes();
  }
  /// Empty. O(blocks).
  keep_until(arena& memory, std::size_t blocks) noexcept
      : turn_{memory.take<turn_type>(blocks)},
        subject_{memory.take<subject>(blocks)},
        list_{memory, blocks + 1},
        heap_{memory, blocks},
        ends_{static_cast<block_id>(blocks)} {
    list_.clear(ends_);
  }
  keep_until(const keep_until&) = delete;
  keep_until& operator=(const keep_until&) = delete;

  /// The number of blocks in it. O(1).
  [[nodiscard]] std::size_t size() const noexcept { return listed_ + heap_.size(); }
  /// The block that goes first. Requires: there is one. O(1).
  [[nodiscard]] block_id next() const noexcept {
    const block_id coldest = list_.next(ends_);
    if (heap_.size() == 0) return coldest;
    return coldest == ends_ || turn_[heap_.top()] < turn_[coldest] ? heap_.top() : coldest;
  }

  /// Tells the time; earlier times are ignored. O(1).
  void advance(time_point now) noexcept {
    if (now_ < now) now_ = now;
  }
  /// A block is findable from now on, without a retention hint. O(1).
  void published(block_id id, std::size_t /*depth*/) noexcept { subject_[id] = {}; }
  /// States a retention hint for a block in use. O(1).
  void retain(block_id id, const retention_type& hint) noexcept {
    TESSERA_ASSERT(hint.session <= last_session, "not a session");
    subject& s = subject_[id];
    if (s.until < hint.until) s.until = hint.until;
    s.session = s.session == of_none || s.session == hint.session ? hint.session : 0;
    s.is_released = hint.releases && s.session != 0;
  }
  /// A request's retention hint for its blocks.
  template <class Request>
    requires requires(const Request& r) {
      { r.keep_until } -> std::convertible_to<time_point>;
    }
  [[nodiscard]] static retention_type retention_of(const Request& r) noexcept {
    if constexpr (requires {
                    { r.kv_session } -> std::convertible_to<std::uint32_t>;
                    { r.releases_kv } -> std::convertible_to<bool>;
                  }) {
      return {r.keep_until, r.kv_session, r.releases_kv};
    } else {
      return {r.keep_until};
    }
  }

  /// The last owner of a block has gone.
  void insert(block_id id) noexcept {
    const subject& s = subject_[id];
    const bool is_kept = now_ < s.until;
    turn_[id] = {s.is_released ? released : is_kept ? s.until : now_, ++turns_};
    if (s.is_released || is_kept) {
      push(id);
    } else {
      link(id, list_.previous(ends_), ends_);
    }
  }
  /// The same, before all others, whatever their hints. O(1).
  void insert_first(block_id id) noexcept {
    turn_[id] = {foremost, --first_turns_};
    link(id, ends_, list_.next(ends_));
  }
  /// Undoes `insert`.
  void undo_insert(block_id id) noexcept { leave(id); }
  /// A block is in use again.
  [[nodiscard]] place_type remove(block_id id) noexcept {
    subject& s = subject_[id];
    const place_type was{turn_[id], s.until, list_.previous(id)};
    leave(id);
    s.until = {};
    return was;
  }
  /// Undoes `remove`.
  void undo_remove(block_id id, place_type was) noexcept {
    turn_[id] = was.turn;
    subject_[id].until = was.until;
    if (was.before == no_index) {
      push(id);
    } else {
      link(id, was.before, list_.next(was.before));
    }
  }
  /// Removes the first blocks. O(out.size()), times O(log kept blocks) for those that are kept or released.
  template <class F>
  void take(std::span<block_id> out, F f) noexcept {
    for (block_id& id : out) {
      id = next();
      f(id);
      leave(id);
    }
  }
  /// Undoes `take` of one block.
  void undo_take(block_id id) noexcept {
    if (list_.previous(id) == no_index) {
      push(id);
    } else {
      link(id, ends_, list_.next(ends_));
    }
  }
  /// Removes all blocks. O(1).
  void clear() noexcept {
    list_.clear(ends_);
    listed_ = 0;
    heap_.clear();
  }

 private:
  static constexpr std::uint32_t of_none = no_index;  // no request has said anything of it
  static constexpr time_point foremost = time_point{} - time_point::duration::forever();
  static constexpr time_point released = time_point{} - typename time_point::duration{1};
  struct subject {
    time_point until{};
    std::uint32_t session = of_none;
    bool is_released = false;
  };

  [[nodiscard]] auto before() const noexcept {
    return [this](block_id a, block_id b) noexcept { return turn_[a] < turn_[b]; };
  }
  void push(block_id id) noexcept {
    list_.leave_off(id);
    heap_.push(id, before());
  }
  void link(block_id id, block_id before, block_id after) noexcept {
    list_.link(id, before, after);
    ++listed_;
  }
  void leave(block_id id) noexcept {
    if (list_.previous(id) == no_index) {
      heap_.erase(id, before());
      return;
    }
    list_.unlink(id);
    --listed_;
  }

  turn_type* turn_;          // of a block that is cached, or was evicted from the cache
  subject* subject_;         // of a published block
  detail::block_list list_;  // off it: in the heap, or there when it left
  detail::indexed_heap heap_;
  block_id ends_;
  std::size_t listed_ = 0;
  time_point now_{};
  std::uint64_t turns_ = std::uint64_t{1} << 63U;
  std::uint64_t first_turns_ = turns_;
};

static_assert(eviction_policy<keep_until<>>);

}  // namespace kv
TESSERA_NAMESPACE_END
