// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/concepts.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// What a prefix cache knows, told as it changes: for a router that sends requests where their prefix is.

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// A block that has become findable, or is not any more. It holds the KV of tokens [depth x B, (depth + 1) x B) of its
/// sequence, B being the size of a block. Which tokens these are the cache does not know; who made the hash does.
template <class Hash>
struct cached_block {
  Hash hash;            ///< What it is found by.
  Hash parent;          ///< The hash of the block before it in its sequence; of the first, the default value.
  block_id block;       ///< Which one it is.
  std::uint32_t depth;  ///< Blocks before it in its sequence.
  bool only;            ///< No other block has this hash: who follows hashes may ignore events of others.

  /// Memberwise.
  friend constexpr bool operator==(const cached_block&, const cached_block&) noexcept = default;
};

/// Hears what becomes of the blocks of a prefix cache.
///
/// Requires: (1) `S::required_bytes()`, `S(arena&)`; (2) `published(cached_block)`, `evicted(cached_block)`, and
/// `eviction_undone(cached_block)`: the latest eviction that has not been undone never was; (3) `cleared()`: nothing is
/// known any more. All `noexcept`. Models: `nobody_hears`, `event_ring`.
template <class S, class Hash>
concept cache_event_sink = std::constructible_from<S, arena&> && requires(S& sink, const cached_block<Hash>& b) {
  { S::required_bytes() } noexcept -> std::same_as<std::size_t>;
  { sink.published(b) } noexcept -> std::same_as<void>;
  { sink.evicted(b) } noexcept -> std::same_as<void>;
  { sink.eviction_undone(b) } noexcept -> std::same_as<void>;
  { sink.cleared() } noexcept -> std::same_as<void>;
};

/// Nobody listens: the cache keeps nothing for it and calls nothing.
struct nobody_hears {
  /// Nothing.
  [[nodiscard]] static constexpr std::size_t required_bytes() noexcept { return 0; }
  constexpr nobody_hears() noexcept = default;
  /// Takes nothing.
  explicit constexpr nobody_hears(arena& /*memory*/) noexcept {}
  /// Ignored.
  template <class Hash>
  void published(const cached_block<Hash>& /*b*/) noexcept {}
  /// Ignored.
  template <class Hash>
  void evicted(const cached_block<Hash>& /*b*/) noexcept {}
  /// Ignored.
  template <class Hash>
  void eviction_undone(const cached_block<Hash>& /*b*/) noexcept {}
  /// Ignored.
  void cleared() noexcept {}
};

/// One thing that happened.
template <class Hash>
struct cache_event {
  /// What it was.
  enum class kind : std::uint8_t {
    stored,   ///< The block can be found.
    removed,  ///< It cannot be found any more.
    cleared,  ///< No block can; `block` says nothing.
    lost,     ///< The ring was full, and events are missing: forget what you know and ask anew. `block` says nothing.
  };
  kind what;                 ///< This one.
  cached_block<Hash> block;  ///< Which block.

  /// Memberwise.
  friend constexpr bool operator==(const cache_event&, const cache_event&) noexcept = default;
};

/// The latest events, for one that fetches them between steps and sends them on.
///
/// An eviction that is undone before it is fetched leaves no trace: nothing that an abandoned plan did is told. When
/// more happens between two fetches than there is room for, what was noted is given up for one event that says so.
/// `Capacity` events of 32 bytes (48 with hashes of 128 bits). Every call is O(1). Allocates nothing.
template <std::size_t Capacity, class Hash = std::uint64_t>
class event_ring {
  static_assert(Capacity >= 2, "tessera: an event_ring has room for two events at least");

 public:
  using event = cache_event<Hash>;  ///< What is fetched.

  /// Bytes taken from an arena.
  [[nodiscard]] static constexpr std::size_t required_bytes() noexcept {
    return fixed_vector<event>::required_bytes(Capacity);
  }
  /// Empty. O(1).
  explicit event_ring(arena& memory) noexcept : events_{memory, Capacity} {}

  /// A block can be found.
  void published(const cached_block<Hash>& b) noexcept { note({event::kind::stored, b}); }
  /// It cannot any more.
  void evicted(const cached_block<Hash>& b) noexcept { note({event::kind::removed, b}); }
  /// It never was evicted.
  void eviction_undone(const cached_block<Hash>& b) noexcept {
    if (!events_.empty() && events_.back() == event{event::kind::removed, b}) {
      events_.pop_back();
    } else {
      note({event::kind::stored, b});  // it was told already
    }
  }
  /// Nothing is known.
  void cleared() noexcept {
    if (!lost_) events_.clear();  // it does not matter any more
    note({event::kind::cleared, {}});
  }

  /// Events that wait. O(1).
  [[nodiscard]] std::size_t size() const noexcept { return events_.size(); }
  /// The events in their order, oldest first; who has dealt with them says `forget()`.
  [[nodiscard]] std::span<const event> waiting() const noexcept { return {events_.data(), events_.size()}; }
  /// They have been dealt with. O(1).
  void forget() noexcept {
    events_.clear();
    lost_ = false;
  }

 private:
  void note(const event& e) noexcept {
    if (lost_) return;
    if (events_.full()) {
      events_.clear();
      events_.push_back({event::kind::lost, {}});
      lost_ = true;
      return;
    }
    events_.push_back(e);
  }

  fixed_vector<event> events_;
  bool lost_ = false;
};

}  // namespace kv
TESSERA_NAMESPACE_END
