// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/host_chains.hpp>
#include <tessera/kv/prefix_cache.hpp>

TESSERA_NAMESPACE_BEGIN
namespace kv {
namespace detail {

/// State of a block in `host_cache`.
struct host_cache_link {
  block_id next = no_index;
  block_id previous = no_index;
  block_id tail = no_index;  // for the head of a chain in use
  std::uint32_t size = 0;    // for the head of a chain in use; else 0
};

}  // namespace detail

/// A host tier with a cache: a block without an owner stays findable by its hash until its room is needed, least
/// recently used first. It holds the chains of swapped requests, as `host_tier` does, and single blocks that were
/// evicted from the device.
/// When to use: as the second level of a `prefix_cache`, through `two_level_cache`.
///
/// Calls are undone by `undo_` calls in strictly reverse order, without `publish`, `settle` or `clear` in between.
/// Every call is O(blocks named); nothing allocates. About 120 bytes a block.
template <class Hash = std::uint64_t>
class host_cache : public detail::host_chains<detail::host_cache_link> {
  using link = detail::host_cache_link;
  using cache = basic_prefix_cache<lru, null_sink, Hash>;

 public:
  using hash_type = Hash;  ///< The hash that finds a block.

  /// Capacities; fixed at construction.
  struct limits {
    std::size_t host_blocks = 0;  ///< May be 0. At most 2^30.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    storage_layout all;
    all.add_bytes(cache::required_bytes({.blocks = l.host_blocks})).template add<link>(l.host_blocks);
    return all.bytes_unaligned();
  }
  /// All host blocks are free. O(host_blocks).
  host_cache(arena& memory, const limits& l) noexcept
      : host_chains{memory, l.host_blocks}, cache_{memory, {.blocks = l.host_blocks}} {}

  /// Host blocks that can be stored to now: free and cached ones.
  [[nodiscard]] std::size_t free() const noexcept { return cache_.free(); }
  /// Blocks without an owner that can be found.
  [[nodiscard]] std::size_t cached() const noexcept { return cache_.cached(); }

  // -- chains ------------------------------------------------------------------------------------------------------

  /// Takes a chain of `n` host blocks and sets `head` to its first. O(n). `invalid` if `n` is 0; `exhausted` if fewer
  /// are free. Both leave `head` unchanged.
  [[nodiscard]] status store(std::size_t n, block_id& head) noexcept {
    if (n == 0) return status::invalid;
    if (n > free()) return status::exhausted;
    block_id before = no_index;
    block_id first = no_index;
    for (std::size_t i = 0; i != n; ++i) {
      const block_id id = cache_.allocate();
      links_[id] = {.next = no_index, .previous = before};
      if (before != no_index) links_[before].next = id;
      if (first == no_index) first = id;
      before = id;
    }
    links_[first].tail = before;
    links_[first].size = static_cast<std::uint32_t>(n);
    head = first;
    return status::ok;
  }
  /// Undoes `store`. O(size(head)).
  void undo_store(block_id head) noexcept {
    block_id id = links_[head].tail;
    links_[head].size = 0;
    while (id != no_index) {
      cache_.undo_allocate({&id, 1});
      id = links_[id].previous;
    }
  }
  /// Gives a chain back: its findable blocks are cached, the end colder than the beginning. O(size(head)). `foreign`:
  /// no host block; `not_allocated`: not the head of a chain in use.
  [[nodiscard]] status release(block_id head) noexcept {
    if (head >= capacity()) return status::foreign;
    if (links_[head].size == 0) return status::not_allocated;
    cut(head, 0);
    links_[head].size = 0;
    return status::ok;
  }
  /// Keeps the first `n` blocks of a chain and gives the others back. O(blocks given back). Requires: `head` is the
  /// head of a chain in use, `0 < n <= size(head)` (asserted).
  void shorten(block_id head, std::size_t n) noexcept {
    const std::size_t before = size(head);
    TESSERA_ASSERT(n != 0 && n <= before, "a chain in use keeps one block at least");
    if (n == 0 || n >= before) return;
    cut(head, n);
    links_[links_[head].tail].next = no_index;
  }

  // -- findable blocks ---------------------------------------------------------------------------------------------

  /// A host block for a block that is evicted from the device; `no_index` when all have owners. O(1).
  [[nodiscard]] block_id take() noexcept { return cache_.allocate(); }
  /// Undoes `take`.
  void undo_take(block_id id) noexcept { cache_.undo_allocate({&id, 1}); }
  /// Makes a taken block findable, and gives up its ownership. O(1).
  void settle(block_id id, const Hash& hash) noexcept {
    static_cast<void>(cache_.publish(id, hash));
    static_cast<void>(cache_.release(id));
  }

  /// Makes a block of a chain findable. O(1).
  void publish(block_id id, const Hash& hash) noexcept { static_cast<void>(cache_.publish(id, hash)); }
  /// Finds the longest prefix of `hashes` with all blocks known. Writes their ids to the front of `out` and returns
  /// their number, at most `out.size()`. O(blocks matched).
  [[nodiscard]] std::size_t match(std::span<const Hash> hashes, std::span<block_id> out) const noexcept {
    return cache_.match(hashes, out);
  }
  /// Whether a block is known by this hash. O(1).
  [[nodiscard]] bool knows(const Hash& hash) const noexcept { return cache_.knows(hash); }
  /// Pins blocks that were matched: nothing is stored to them until they are unpinned. O(ids.size()).
  void pin(std::span<const block_id> ids) noexcept { static_cast<void>(cache_.share(ids)); }
  /// Undoes `pin`.
  void undo_pin(std::span<const block_id> ids) noexcept { cache_.undo_share(ids); }
  /// Unpins blocks after their use. O(ids.size()).
  void unpin(std::span<const block_id> ids) noexcept { static_cast<void>(cache_.release(ids)); }
  /// Forgets all hashes; chains stay. O(host_blocks).
  void clear() noexcept { cache_.clear(); }

 private:
  /// Gives the blocks of a chain back, from its end on, except for the first `n`.
  void cut(block_id head, std::size_t n) noexcept {
    block_id id = links_[head].tail;
    for (std::size_t k = links_[head].size; k != n; --k) {
      const block_id before = links_[id].previous;
      static_cast<void>(cache_.release(id));
      id = before;
    }
    links_[head].tail = id;
    links_[head].size = static_cast<std::uint32_t>(n);
  }

  cache cache_;
};

/// A prefix cache with a second level in host memory (`scheduler_limits::host_blocks`). The blocks of a swapped request
/// stay findable there when it has come back. Blocks that the device evicts are copied there first. A plan lists the
/// copies: `demoted` out, and `swap_in` in, also for requests that were never swapped.
/// When to use: reading a block from the host is faster than computing it, and the device's cache is too small.
///
/// @tparam Demotes whether evicted blocks are copied out. If not, only swapped requests fill the host's cache.
template <eviction_policy Eviction = lru, class Sink = null_sink, class Hash = std::uint64_t, bool Demotes = true>
class two_level_cache : public basic_prefix_cache<Eviction, Sink, Hash> {
 public:
  using host_type = host_cache<Hash>;       ///< The second level.
  static constexpr bool demotes = Demotes;  ///< Whether evicted blocks are copied there.
  using basic_prefix_cache<Eviction, Sink, Hash>::basic_prefix_cache;
};

static_assert(prefix_store<two_level_cache<>>);

}  // namespace kv
TESSERA_NAMESPACE_END
