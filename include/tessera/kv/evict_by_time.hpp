// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/clock.hpp>
#include <tessera/kv/eviction.hpp>
#include <tessera/kv/indexed_heap.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

/// @file
/// Eviction orders by a moment. Each cached block has one, which is fixed when its last owner goes.

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// Gives the moment by which cached blocks are evicted. A request may state a retention hint for its blocks, a time
/// point.
///
/// Requires: (1) `M::time_point`. (2) `M::first(a, b)`: whether a block of the moment `a` goes before one of `b`, a
/// strict weak order. (3) `M::moment(now, hint, depth)`: the moment of a block that is cached from `now` on.
/// (4) `M::joined(before, hint, now)`: the retention hint for a block that had the retention hint `before`, by the same
/// request or another. (5) `M::none`: the value without a retention hint. All static and `noexcept`.
template <class M>
concept eviction_moment = requires(typename M::time_point t, std::size_t depth) {
  { M::first(t, t) } noexcept -> std::same_as<bool>;
  { M::moment(t, t, depth) } noexcept -> std::same_as<typename M::time_point>;
  { M::joined(t, t, t) } noexcept -> std::same_as<typename M::time_point>;
  { M::none } -> std::convertible_to<typename M::time_point>;
};

/// Cached blocks in the order of a moment; ties least recently used first. A heap that knows the places of its entries:
/// O(log blocks) for each block that is cached, used again or evicted. 40 bytes a block. Model of `eviction_policy`.
template <eviction_moment Moment>
class evict_by_time {
 public:
  using time_point = typename Moment::time_point;  ///< The type that is compared.
  using retention_type = time_point;               ///< A request's retention hint for its blocks.

  /// When a block goes.
  struct turn_type {
    time_point at;       ///< By its moment;
    std::uint64_t turn;  ///< for equal moments, by how long it has been cached. Values below 2^63 go before all others.
  };
  using place_type = turn_type;  ///< What a block has before it is used again.

  /// Bytes that an object for `blocks` blocks takes from its arena.
  [[nodiscard]] static constexpr std::size_t required_bytes(std::size_t blocks) noexcept {
    storage_layout all;
    all.add<turn_type>(blocks).template add<subject>(blocks).add_bytes(detail::indexed_heap::required_bytes(blocks));
    return all.bytes();
  }
  /// Empty. O(blocks).
  evict_by_time(arena& memory, std::size_t blocks) noexcept
      : turn_{memory.take<turn_type>(blocks)}, subject_{memory.take<subject>(blocks)}, heap_{memory, blocks} {}
  evict_by_time(const evict_by_time&) = delete;
  evict_by_time& operator=(const evict_by_time&) = delete;

  /// The number of blocks in it. O(1).
  [[nodiscard]] std::size_t size() const noexcept { return heap_.size(); }
  /// The block that goes first. Requires: there is one. O(1).
  [[nodiscard]] block_id next() const noexcept { return heap_.top(); }

  /// Tells the time; earlier times are ignored. O(1).
  void advance(time_point now) noexcept {
    if (now_ < now) now_ = now;
  }
  /// A block is findable from now on, without a retention hint. O(1).
  void published(block_id id, std::size_t depth) noexcept {
    subject_[id] = {Moment::none, static_cast<std::uint32_t>(depth)};
  }
  /// States a retention hint for a block in use. O(1).
  void retain(block_id id, time_point hint) noexcept {
    subject_[id].hint = Moment::joined(subject_[id].hint, hint, now_);
  }
  /// A request's retention hint for its blocks.
  template <class Request>
  [[nodiscard]] static retention_type retention_of(const Request& r) noexcept
    requires requires { Moment::retention_of(r); }
  {
    return Moment::retention_of(r);
  }

  /// The last owner of a block has gone.
  void insert(block_id id) noexcept {
    turn_[id] = {Moment::moment(now_, subject_[id].hint, subject_[id].depth), ++turns_};
    heap_.push(id, before());
  }
  /// The same, before all others, whatever their moments.
  void insert_first(block_id id) noexcept {
    turn_[id] = {Moment::none, --first_turns_};
    heap_.push(id, before());
  }
  /// Undoes `insert`.
  void undo_insert(block_id id) noexcept { heap_.erase(id, before()); }
  /// A block is in use again.
  [[nodiscard]] place_type remove(block_id id) noexcept {
    heap_.erase(id, before());
    return turn_[id];
  }
  /// Undoes `remove`.
  void undo_remove(block_id id, place_type was) noexcept {
    turn_[id] = was;
    heap_.push(id, before());
  }
  /// Removes the first blocks. O(out.size() log blocks).
  template <class F>
  void take(std::span<block_id> out, F f) noexcept {
    for (block_id& id : out) {
      id = heap_.top();
      f(id);
      heap_.erase(id, before());
    }
  }
  /// Undoes `take` of one block.
  void undo_take(block_id id) noexcept { heap_.push(id, before()); }
  /// Removes all blocks. O(1).
  void clear() noexcept { heap_.clear(); }

 private:
  struct subject {
    time_point hint = Moment::none;
    std::uint32_t depth = 0;
  };

  static constexpr std::uint64_t others = std::uint64_t{1} << 63U;  // turns of blocks that are inserted in order

  [[nodiscard]] auto before() const noexcept {
    return [this](block_id a, block_id b) noexcept {
      const turn_type& x = turn_[a];
      const turn_type& y = turn_[b];
      if (((x.turn ^ y.turn) & others) != 0) return x.turn < y.turn;
      if (Moment::first(x.at, y.at)) return true;
      return x.turn < y.turn && !Moment::first(y.at, x.at);
    };
  }

  turn_type* turn_;   // of a block that is cached, or was evicted from the cache
  subject* subject_;  // of a published block
  detail::indexed_heap heap_;
  time_point now_{};
  std::uint64_t turns_ = others;
  std::uint64_t first_turns_ = others;
};

namespace detail {

template <clock_policy Clock>
struct used_next {
  using time_point = basic_time_point<Clock>;
  static constexpr time_point none = time_point::never();
  static constexpr bool first(time_point a, time_point b) noexcept { return b < a; }
  static constexpr time_point moment(time_point now, time_point hint, std::size_t /*depth*/) noexcept {
    return now < hint ? hint : none;
  }
  static constexpr time_point joined(time_point before, time_point hint, time_point now) noexcept {
    return now < before && before < hint ? before : hint;
  }
  template <class Request>
    requires requires(const Request& r) {
      { r.next_use } -> std::convertible_to<time_point>;
    }
  static constexpr time_point retention_of(const Request& r) noexcept {
    return r.next_use;
  }
};

template <class Worth, clock_policy Clock>
struct as_worth {
  using time_point = basic_time_point<Clock>;
  static constexpr time_point none{};
  static constexpr bool first(time_point a, time_point b) noexcept { return a < b; }
  static constexpr time_point moment(time_point now, time_point /*hint*/, std::size_t depth) noexcept {
    return now + Worth{}(depth);
  }
  static constexpr time_point joined(time_point before, time_point /*hint*/, time_point /*now*/) noexcept {
    return before;
  }
};

}  // namespace detail

/// Evicts first the block that will be used last: `r.next_use`, a time point, on any time line that goes on with `now`.
/// Blocks without a stated use, or with one that has passed, go before everything else, the least recently used first.
/// If several requests state a use of a block, the earliest counts until it has come. The others are not remembered;
/// the next one stated after that counts.
/// So a shared beginning may go before what follows it. Its requests should state the next use by any of them.
/// When to use: workflows of agents in a known order: KVFlow's steps to the next execution.
template <clock_policy Clock = seconds_clock>
using next_use = evict_by_time<detail::used_next<Clock>>;

/// As `lru`, but a block counts as used later by the value of its place in its sequence: `Worth{}(depth)`, a duration.
/// It must not be less for a beginning than for what follows it. GreedyDual-Size, with time in the place of its
/// inflation value. When to use: many requests share beginnings, and much other content passes through the cache once.
template <class Worth, clock_policy Clock = seconds_clock>
using by_depth = evict_by_time<detail::as_worth<Worth, Clock>>;

static_assert(eviction_policy<next_use<>>);

}  // namespace kv
TESSERA_NAMESPACE_END
