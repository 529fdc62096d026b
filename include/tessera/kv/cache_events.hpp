// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/concepts.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// Changes of a prefix cache, as events: for a router that sends requests to the instance that has their prefix.

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// A block that has become findable, or no longer is. It holds the KV of tokens [depth x B, (depth + 1) x B) of its
/// sequence, with B the block size. The cache does not know these tokens; the maker of the hash does.
template <class Hash>
struct cached_block {
  Hash hash;            ///< The hash that finds it.
  Hash parent;          ///< The hash of the block before it in its sequence; the default value for the first block.
  block_id block;       ///< The block.
  std::uint32_t depth;  ///< Blocks before it in its sequence.
  bool only;            ///< No other block has this hash. Followers of hashes may ignore other events.

  /// Memberwise.
  friend constexpr bool operator==(const cached_block&, const cached_block&) noexcept = default;
};

/// Is told what happens to the blocks of a prefix cache.
///
/// Requires: (1) `S::required_bytes()`, `S(arena&)`; (2) `published(cached_block)`, `evicted(cached_block)`. (3)
/// `eviction_undone(cached_block)`: the latest eviction that has not been undone did not happen. (4) `cleared()`: no
/// block is findable any more. All `noexcept`. Models: `null_sink`, `event_ring`.
template <class S, class Hash>
concept cache_event_sink = std::constructible_from<S, arena&> && requires(S& sink, const cached_block<Hash>& b) {
  { S::required_bytes() } noexcept -> std::same_as<std::size_t>;
  { sink.published(b) } noexcept -> std::same_as<void>;
  { sink.evicted(b) } noexcept -> std::same_as<void>;
  { sink.eviction_undone(b) } noexcept -> std::same_as<void>;
  { sink.cleared() } noexcept -> std::same_as<void>;
};

/// No listener: the cache keeps nothing for it and calls nothing.
struct null_sink {
  /// Nothing.
  [[nodiscard]] static constexpr std::size_t required_bytes() noexcept { return 0; }
  constexpr null_sink() noexcept = default;
  /// Takes nothing.
  explicit constexpr null_sink(arena& /*memory*/) noexcept {}
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

/// One event.
template <class Hash>
struct cache_event {
  /// The kind of event.
  enum class kind : std::uint8_t {
    stored,   ///< The block can be found.
    removed,  ///< It cannot be found any more.
    cleared,  ///< No block can be found; `block` has no meaning.
    lost,     ///< The ring was full, and events are missing: drop your state and ask anew. `block` has no meaning.
  };
  kind what;                 ///< Its kind.
  cached_block<Hash> block;  ///< Its block.

  /// Memberwise.
  friend constexpr bool operator==(const cache_event&, const cache_event&) noexcept = default;
};

/// The latest events, for a reader that fetches them between steps and forwards them.
///
/// An eviction that is undone before it is fetched leaves no trace: events of an abandoned plan are not reported. If
/// there is not enough room for the events between two fetches, one event `lost` replaces them. `Capacity` events of 32
/// bytes (48 with hashes of 128 bits). Every call is O(1). Allocates nothing.
template <std::size_t Capacity, class Hash = std::uint64_t>
class event_ring {
  static_assert(Capacity >= 2, "tessera: an event_ring has room for two events at least");

 public:
  using event = cache_event<Hash>;  ///< The type of the events.

  /// Bytes taken from an arena.
  [[nodiscard]] static constexpr std::size_t required_bytes() noexcept {
    return fixed_vector<event>::required_bytes(Capacity);
  }
  /// Empty. O(1).
  explicit event_ring(arena& memory) noexcept : events_{memory, Capacity} {}

  /// A block can be found from now on.
  void published(const cached_block<Hash>& b) noexcept { note({event::kind::stored, b}); }
  /// A block cannot be found any more.
  void evicted(const cached_block<Hash>& b) noexcept { note({event::kind::removed, b}); }
  /// A block was not evicted after all.
  void eviction_undone(const cached_block<Hash>& b) noexcept {
    if (!events_.empty() && events_.back() == event{event::kind::removed, b}) {
      events_.pop_back();
    } else {
      note({event::kind::stored, b});  // the eviction was fetched already
    }
  }
  /// No block can be found any more.
  void cleared() noexcept {
    if (!lost_) events_.clear();  // earlier events do not matter any more
    note({event::kind::cleared, {}});
  }

  /// Events to be fetched. O(1).
  [[nodiscard]] std::size_t size() const noexcept { return events_.size(); }
  /// The events in order, oldest first. The reader calls `forget()` once it has handled them.
  [[nodiscard]] std::span<const event> waiting() const noexcept { return {events_.data(), events_.size()}; }
  /// Drops the events: they have been handled. O(1).
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
