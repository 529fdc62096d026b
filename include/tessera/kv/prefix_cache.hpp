// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/prefetch.hpp>
#include <tessera/kv/cache_events.hpp>
#include <tessera/kv/concepts.hpp>
#include <tessera/kv/eviction.hpp>
#include <tessera/kv/hash_chain.hpp>
#include <tessera/kv/lru.hpp>

#include <bit>
#include <type_traits>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// KV blocks with reference counts. Full blocks stay findable by hash after their last owner has gone, until their room
/// is needed. A policy orders the evictions: by default the least recently used first, and the end of a sequence before
/// its beginning.
/// When to use: prompts share prefixes (system prompts, few-shot examples, earlier turns). Model of `prefix_store`.
///
/// A block is *free* (on a stack), *in use* (has references; pinned, on no list) or *cached* (published, no references,
/// in the eviction order). `allocate` takes free blocks first, then the coldest cached one. Published blocks are full
/// and must not be written to.
///
/// Blocks with the same content that were computed separately may be published under one hash. They are duplicates, and
/// each of them is found as long as it is there. `match` prefers a duplicate that is in use, because it costs no free
/// block, if that is among the first five it looks at.
///
/// Hashes are trusted: two blocks with one hash are taken to hold the same KV. Make them with `hash_chain`, 64 or 128
/// bits over all tokens from the start, with a seed per tenant.
///
/// Every call is O(blocks named), whatever the number of blocks in use or cached; with a policy that keeps a heap,
/// times O(log blocks). Nothing allocates. Calls leave the cache unchanged unless they return `ok`. 76 to 108 bytes a
/// block with the default policy; 8 more with 128 bits, 16 to 24 more with a sink.
///
/// Undo. The `undo_` calls are exact in strictly reverse order, also for the eviction order, on two conditions. (1)
/// `publish` and `clear` are not called between an operation and its undoing. (2) At most 2 x capacity blocks left the
/// eviction order by `share` since. (A block that leaves it is pinned, so only repeated release and share of the same
/// blocks could break this. Asserted.)
///
/// @tparam Eviction the order of evictions: an `eviction_policy`.
/// @tparam Sink     is told of blocks that become findable or are evicted: a `cache_event_sink`.
/// @tparam Hash     `std::uint64_t`, or `hash128` where two prompts must not share a hash.
template <eviction_policy Eviction = lru, class Sink = null_sink, class Hash = std::uint64_t>
class basic_prefix_cache {
  static_assert(std::same_as<Hash, std::uint64_t> || std::same_as<Hash, hash128>,
                "tessera: hashes have 64 or 128 bits: std::uint64_t, kv::hash128");
  static_assert(cache_event_sink<Sink, Hash>, "tessera: Sink is not a kv::cache_event_sink for these hashes");

  static constexpr bool heard = !std::same_as<Sink, null_sink>;
  static constexpr bool wide = std::same_as<Hash, hash128>;
  using place = typename Eviction::place_type;

 public:
  using hash_type = Hash;                 ///< The hash that finds a block.
  using eviction_type = Eviction;         ///< The eviction order.
  using sink_type = Sink;                 ///< The sink of changes.
  using block_type = cached_block<Hash>;  ///< A block in an event.

  /// Capacities; fixed at construction.
  struct limits {
    std::size_t blocks = 0;  ///< At most 2^30.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    storage_layout all;
    all.add<block_state>(l.blocks)
        .add_bytes(Eviction::required_bytes(l.blocks))
        .template add<neighbours>(l.blocks)
        .template add<block_id>(buckets_for(l.blocks))
        .template add<block_id>(l.blocks)
        .template add<place>(journal_for(l.blocks))
        .template add<std::uint64_t>(wide ? l.blocks : 0)
        .template add<origin>(heard ? l.blocks : 0)
        .add_bytes(Sink::required_bytes());
    return all.bytes_unaligned();
  }

  /// All blocks are free, nothing is cached; the first to be allocated is 0, then 1, ... O(blocks).
  basic_prefix_cache(arena& memory, const limits& l) noexcept
      : block_{memory.take<block_state>(l.blocks)},
        order_{memory, l.blocks},
        duplicate_{memory.take_uninitialised<neighbours>(l.blocks)},
        bucket_{memory.take_uninitialised<block_id>(buckets_for(l.blocks))},
        free_{memory.take_uninitialised<block_id>(l.blocks)},
        journal_{memory.take_uninitialised<place>(journal_for(l.blocks))},
        capacity_{l.blocks},
        free_size_{l.blocks},
        shift_{64 - std::countr_zero(buckets_for(l.blocks))},
        upper_{memory.take_uninitialised<std::uint64_t>(wide ? l.blocks : 0)},
        origin_{memory.take_uninitialised<origin>(heard ? l.blocks : 0)},
        sink_{memory} {
    TESSERA_ASSERT(l.blocks <= std::size_t{1} << 30, "too many blocks");
    for (std::size_t i = 0; i != l.blocks; ++i) free_[i] = static_cast<block_id>(l.blocks - 1 - i);
    for (std::size_t i = 0; i != buckets_for(l.blocks); ++i) bucket_[i] = no_index;
  }
  basic_prefix_cache(const basic_prefix_cache&) = delete;
  basic_prefix_cache& operator=(const basic_prefix_cache&) = delete;

  /// How many there is room for. O(1).
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// Blocks that can be allocated now: free and cached ones.
  [[nodiscard]] std::size_t free() const noexcept { return free_size_ + order_.size(); }
  /// Blocks without an owner that can still be found.
  [[nodiscard]] std::size_t cached() const noexcept { return order_.size(); }
  /// Owners of a block; 0: free or cached. Requires `id < capacity()`.
  [[nodiscard]] std::uint32_t references(block_id id) const noexcept {
    TESSERA_ASSERT(id < capacity_, "not a block of this cache");
    return block_[id].references();
  }
  /// Whether the block can be found by its hash. Requires `id < capacity()`.
  [[nodiscard]] bool published(block_id id) const noexcept {
    TESSERA_ASSERT(id < capacity_, "not a block of this cache");
    return block_[id].is_published();
  }

  /// Whether the latest allocation of the block evicted it. Until it is written to, it holds the content of
  /// `last_hash`. Requires: the block is in use and was not published since it was allocated.
  [[nodiscard]] bool was_evicted(block_id id) const noexcept {
    TESSERA_ASSERT(id < capacity_ && !block_[id].is_published(), "not a block that was just allocated");
    return (block_[id].link & block_state::takes_mask) == 0;
  }
  /// The hash of a block now, or before it was evicted. Requires: it has been published.
  [[nodiscard]] Hash last_hash(block_id id) const noexcept {
    TESSERA_ASSERT(id < capacity_, "not a block of this cache");
    return full_hash(id);
  }

  /// Whether others may be published under its hash, or have been since it was published. Requires `id < capacity()`.
  [[nodiscard]] bool may_have_duplicates(block_id id) const noexcept {
    TESSERA_ASSERT(id < capacity_, "not a block of this cache");
    return block_[id].may_have_duplicates();
  }

  /// Finds the longest prefix of `hashes` with all blocks known. Writes their ids to the front of `out` and returns
  /// their number, at most `out.size()`. Changes nothing: `share` the blocks that you keep. O(blocks matched).
  [[nodiscard]] std::size_t match(std::span<const Hash> hashes, std::span<block_id> out) const noexcept {
    const std::size_t n = hashes.size() < out.size() ? hashes.size() : out.size();
    constexpr std::size_t ahead = 8;  // lookups are independent: let their cache misses overlap
    for (std::size_t i = 0; i < n && i < ahead; ++i) prefetch(hashes[i]);
    for (std::size_t i = 0; i != n; ++i) {
      if (i + ahead < n) prefetch(hashes[i + ahead]);
      if (i + ahead / 2 < n) prefetch_block(hashes[i + ahead / 2]);
      const block_id id = find(hashes[i]);
      if (id == no_index) return i;
      out[i] = in_use_duplicate(id);
    }
    return n;
  }

  /// Whether a block is known by this hash. Expected O(1).
  [[nodiscard]] bool knows(const Hash& hash) const noexcept { return find(hash) != no_index; }

  /// Prefetches what a lookup by this hash will read. O(1).
  void prefetch(const Hash& hash) const noexcept { tessera::detail::prefetch(bucket_ + home(hash)); }
  /// The same for the block that is looked at first, once the former is there. O(1).
  void prefetch_block(const Hash& hash) const noexcept {
    const block_id id = bucket_[home(hash)];
    if (id != no_index) tessera::detail::prefetch(block_ + id);
  }

  /// Makes a block in use findable by the hash of its contents, beside other blocks with the same hash. `depth` blocks
  /// of its sequence come before it, the last of them with the hash `parent`. Expected O(1).
  /// `foreign`. `not_allocated`: no references. `invalid`: published with another hash.
  [[nodiscard]] status publish(block_id id, const Hash& hash, std::size_t depth = 0, const Hash& parent = {}) noexcept {
    if (id >= capacity_) return status::foreign;
    block_state& b = block_[id];
    if (b.references() == 0) return status::not_allocated;
    if (b.is_published()) return has_hash(id, hash) ? status::ok : status::invalid;
    block_id& first = bucket_[home(hash)];
    block_id known = first;
    while (known != no_index && !has_hash(known, hash)) known = block_[known].link;
    b.hash = low(hash);
    if constexpr (wide) upper_[id] = hash.high;
    b.owners = (b.owners & block_state::count_mask) | block_state::published_mark;
    if (known == no_index) {
      b.link = first;
      first = id;
    } else {
      if (!block_[known].may_have_duplicates()) duplicate_[known] = {known, known};
      block_[known].owners |= block_state::duplicates_mark;
      b.owners |= block_state::duplicates_mark;
      duplicate_[id] = {duplicate_[known].previous, known};  // last of the ring
      join_duplicates(id);
    }
    if constexpr (requires { order_.published(id, depth); }) order_.published(id, depth);
    if constexpr (heard) {
      origin_[id] = {parent, static_cast<std::uint32_t>(depth)};
      sink_.published(told(id, known == no_index));
    }
    static_cast<void>(depth), static_cast<void>(parent);
    return status::ok;
  }

  /// Publishes the blocks of a sequence from `first` on, each by its hash, and leaves out those that cannot be. Returns
  /// the first status that is not `ok`. The blocks before `first` are the predecessors of these. Expected O(ids.size()
  /// - first). Requires: `hashes.size() >= ids.size()`.
  [[nodiscard]] status publish(std::span<const block_id> ids, std::span<const Hash> hashes,
                               std::size_t first = 0) noexcept {
    TESSERA_ASSERT(hashes.size() >= ids.size(), "a hash for each block");
    if (hashes.size() < ids.size()) ids = ids.first(hashes.size());
    for (std::size_t i = first; i < ids.size(); ++i) prefetch(hashes[i]);
    status worst = status::ok;
    for (std::size_t i = first; i < ids.size(); ++i) {
      if (i + 4 < ids.size()) prefetch_block(hashes[i + 4]);
      const status s = publish(ids[i], hashes[i], i, i != 0 ? hashes[i - 1] : Hash{});
      if (worst == status::ok) worst = s;
    }
    return worst;
  }

  /// Forgets all hashes (the weights changed): cached blocks become free, blocks in use stay in use, unpublished.
  /// O(capacity).
  void clear() noexcept {
    for (std::size_t i = 0; i != std::size_t{1} << (64 - shift_); ++i) bucket_[i] = no_index;
    for (std::size_t i = capacity_; i-- != 0;) {
      block_state& b = block_[i];
      if (!b.is_published()) continue;
      b.owners &= block_state::count_mask;
      b.link = 0;
      if (b.owners == 0) free_[free_size_++] = static_cast<block_id>(i);
    }
    order_.clear();
    journal_size_ = 0;
    sink_.cleared();
  }

  /// One block with one reference, or `no_index` when all are in use. Expected O(1), evictions included.
  [[nodiscard]] block_id allocate() noexcept {
    if (free_size_ != 0) return take_free();
    return order_.size() != 0 ? evict() : no_index;
  }
  /// Fills `out`, all or nothing. `exhausted`: `free()` is less. Expected O(out.size()).
  [[nodiscard]] status allocate(std::span<block_id> out) noexcept {
    if (out.size() > free()) return status::exhausted;
    std::size_t i = 0;
    const std::size_t from_stack = out.size() < free_size_ ? out.size() : free_size_;
    for (; i != from_stack; ++i) out[i] = take_free();
    if (i != out.size()) evict(out.subspan(i));
    return status::ok;
  }

  /// Adds an owner; a cached block leaves the eviction order. Requires fewer than 2^30 - 1 owners. `foreign`;
  /// `not_allocated`: the block is free.
  [[nodiscard]] status share(block_id id) noexcept {
    if (id >= capacity_) return status::foreign;
    block_state& b = block_[id];
    if (b.references() == 0) {
      if (!b.is_published()) return status::not_allocated;
      remember(order_.remove(id));
    }
    TESSERA_ASSERT(b.references() != block_state::count_mask, "too many references to one block");
    ++b.owners;
    return status::ok;
  }
  /// Adds an owner to each, all or nothing. An id may occur more than once.
  [[nodiscard]] status share(std::span<const block_id> ids) noexcept {
    for (std::size_t i = 0; i != ids.size(); ++i) {
      if (const status s = share(ids[i]); s != status::ok) {
        undo_share(ids.first(i));
        return s;
      }
    }
    return status::ok;
  }

  /// Removes an owner. After the last one, a published block is cached, any other is free. `foreign`, `not_allocated`.
  [[nodiscard]] status release(block_id id) noexcept {
    return release(id, [this](block_id last) noexcept { order_.insert(last); });
  }
  /// The same, but if the block is cached then, it goes before all cached blocks, whatever the policy. It has the least
  /// value, as a block that a window has passed. There is no undo. `foreign`, `not_allocated`.
  [[nodiscard]] status release_first(block_id id) noexcept {
    return release(id, [this](block_id last) noexcept { order_.insert_first(last); });
  }
  /// Removes an owner from each, from back to front, all or nothing. An id may occur more than once.
  [[nodiscard]] status release(std::span<const block_id> ids) noexcept {
    for (std::size_t i = ids.size(); i-- != 0;) {
      if (const status s = release(ids[i]); s != status::ok) {
        undo_release(ids.subspan(i + 1));
        return s;
      }
    }
    return status::ok;
  }

  /// Undoes `allocate` of these ids: a block that it evicted is cached again, as the first to go.
  /// Requires: everything done since has been undone.
  void undo_allocate(std::span<const block_id> ids) noexcept {
    for (std::size_t i = ids.size(); i-- != 0;) {
      TESSERA_ASSERT(ids[i] < capacity_ && block_[ids[i]].references() == 1, "undone out of order");
      block_state& b = block_[ids[i]];
      TESSERA_ASSERT(!b.is_published(), "published since it was allocated");
      --b.owners;
      if ((b.link & block_state::takes_mask) != 0) {
        --b.link;
        free_[free_size_++] = ids[i];
      } else {
        find_again(ids[i]);
        order_.undo_take(ids[i]);
      }
    }
  }
  /// Undoes `share` of these ids: a block that was cached returns to its place.
  /// Requires: everything done since has been undone.
  void undo_share(std::span<const block_id> ids) noexcept {
    for (std::size_t i = ids.size(); i-- != 0;) {
      TESSERA_ASSERT(ids[i] < capacity_ && block_[ids[i]].references() != 0, "undone out of order");
      --block_[ids[i]].owners;
      if (block_[ids[i]].references() == 0) {
        order_.undo_remove(ids[i], recall());
      }
    }
  }
  /// Undoes `release` of these ids. Requires: everything done since has been undone.
  void undo_release(std::span<const block_id> ids) noexcept {
    for (const block_id id : ids) {
      TESSERA_ASSERT(id < capacity_, "not a block of this cache");
      block_state& b = block_[id];
      ++b.owners;
      if (b.references() != 1) continue;
      if (b.is_published()) {
        order_.undo_insert(id);
      } else {
        TESSERA_ASSERT(free_size_ != 0 && free_[free_size_ - 1] == id, "undone out of order");
        --free_size_;
      }
    }
  }

  // -- calls to the policy and the sink ---------------------------------------------------------------------------

  /// States an owner's retention hint for its blocks to the policy: `keep_until` takes a time. Not between an operation
  /// and its undoing. O(ids.size()). Requires: the blocks are in use (asserted; else skipped).
  template <class Retention>
    requires requires(Eviction& e, block_id id, const Retention& w) { e.retain(id, w); }
  void retain(std::span<const block_id> ids, const Retention& w) noexcept {
    for (const block_id id : ids) {
      TESSERA_ASSERT(id < capacity_ && block_[id].references() != 0, "a retention hint for a block that is not in use");
      if (id < capacity_ && block_[id].references() != 0) order_.retain(id, w);
    }
  }
  /// Tells the time to a policy that uses it. O(1).
  template <class Time>
    requires requires(Eviction& e, const Time& now) { e.advance(now); }
  void advance(const Time& now) noexcept {
    order_.advance(now);
  }
  /// The sink of changes.
  [[nodiscard]] Sink& sink() noexcept { return sink_; }
  /// Calls `f(cached_block)` for each block that can be found, in the order of their numbers: the initial state for a
  /// follower. O(capacity).
  template <std::invocable<const block_type&> F>
  void for_each_published(F&& f) const noexcept(noexcept(f(std::declval<const block_type&>())))
    requires heard
  {
    for (std::size_t i = 0; i != capacity_; ++i) {
      const auto id = static_cast<block_id>(i);
      if (block_[i].is_published()) f(told(id, !has_duplicate(id)));
    }
  }

 private:
  // The part that every call reads, four to a cache line. The rest is apart, because few calls need it.
  struct block_state {
    static constexpr std::uint32_t published_mark = 0x8000'0000U;
    static constexpr std::uint32_t duplicates_mark =
        0x4000'0000U;  // has had duplicates under this hash: look into its ring
    static constexpr std::uint32_t count_mask = 0x3fff'ffffU;
    static constexpr std::uint32_t was_first_mark = 0x8000'0000U;  // evicted while first of its duplicates
    static constexpr std::uint32_t takes_mask = 0x7fff'ffffU;
    static constexpr std::uint32_t half_range = 0x4000'0000U;

    std::uint64_t hash = 0;    // or its lower half; valid while published, and after an eviction until the next publish
    std::uint32_t owners = 0;  // references, and the two marks
    // Published and first of its duplicates: the next block with a hash of the same bucket. Not published: how often
    // the block was taken from the free stack since it was evicted. Undo reads from this where an allocation came from:
    // 0 means by eviction. It saturates far above the range of any undo.
    std::uint32_t link = 0;

    [[nodiscard]] std::uint32_t references() const noexcept { return owners & count_mask; }
    [[nodiscard]] bool is_published() const noexcept { return (owners & published_mark) != 0; }
    [[nodiscard]] bool may_have_duplicates() const noexcept { return (owners & duplicates_mark) != 0; }
  };
  static_assert(sizeof(block_state) == 16);
  struct neighbours {
    block_id previous;
    block_id next;
  };
  struct origin {
    Hash parent;
    std::uint32_t depth;
  };

  // At most an eighth of a block per bucket. With half a block per bucket, a third of a step with prefixes goes to
  // mispredicted branches and cache misses where two hashes meet. At least 2, so that `home` never shifts by 64.
  [[nodiscard]] static constexpr std::size_t buckets_for(std::size_t blocks) noexcept {
    return std::bit_ceil(blocks < 1 ? std::size_t{2} : 8 * blocks);
  }
  [[nodiscard]] static constexpr std::size_t journal_for(std::size_t blocks) noexcept { return 2 * blocks; }

  template <class Insert>
  [[nodiscard]] status release(block_id id, Insert insert) noexcept {
    if (id >= capacity_) return status::foreign;
    block_state& b = block_[id];
    if (b.references() == 0) return status::not_allocated;
    --b.owners;
    if (b.references() == 0) {
      if (b.is_published()) {
        insert(id);
      } else {
        free_[free_size_++] = id;
      }
    }
    return status::ok;
  }

  // --- hash table: buckets that name their first block, chained through `link`. The chain has one of each set of
  // duplicates.
  [[nodiscard]] static std::uint64_t low(const Hash& hash) noexcept {
    if constexpr (wide) {
      return hash.low;
    } else {
      return hash;
    }
  }
  [[nodiscard]] std::size_t home(const Hash& hash) const noexcept { return home_of(low(hash)); }
  [[nodiscard]] std::size_t home_of(std::uint64_t hash) const noexcept {
    return static_cast<std::size_t>((hash * 0x9e37'79b9'7f4a'7c15ULL) >> shift_);
  }
  [[nodiscard]] bool has_hash(block_id id, const Hash& hash) const noexcept {
    if constexpr (wide) {
      return block_[id].hash == hash.low && upper_[id] == hash.high;
    } else {
      return block_[id].hash == hash;
    }
  }
  [[nodiscard]] Hash full_hash(block_id id) const noexcept {
    if constexpr (wide) {
      return {block_[id].hash, upper_[id]};
    } else {
      return block_[id].hash;
    }
  }
  [[nodiscard]] block_id find(const Hash& hash) const noexcept {
    block_id id = bucket_[home(hash)];
    while (id != no_index && !has_hash(id, hash)) id = block_[id].link;
    return id;
  }
  /// The link that names the first of a block's duplicates in its chain.
  [[nodiscard]] block_id* name_of_duplicates(block_id id) noexcept {
    block_id* name = bucket_ + home_of(block_[id].hash);
    while (!has_hash(*name, full_hash(id))) name = &block_[*name].link;
    return name;
  }

  // --- duplicates: a ring
  void join_duplicates(block_id id) noexcept {
    const neighbours& t = duplicate_[id];
    duplicate_[t.previous].next = id;
    duplicate_[t.next].previous = id;
  }
  /// One of the first few blocks of a ring that is in use; else the first.
  [[nodiscard]] bool has_duplicate(block_id id) const noexcept {
    return block_[id].may_have_duplicates() && duplicate_[id].next != id;
  }
  [[nodiscard]] block_id in_use_duplicate(block_id first) const noexcept {
    if (!block_[first].may_have_duplicates()) return first;
    block_id id = first;
    for (int looked = 0; looked != 4 && block_[id].references() == 0; ++looked) {
      id = duplicate_[id].next;
      if (id == first) return first;
    }
    return block_[id].references() != 0 ? id : first;
  }
  [[nodiscard]] block_type told(block_id id, bool only) const noexcept {
    return {full_hash(id), origin_[id].parent, id, origin_[id].depth, only};
  }
  /// Makes a published block unfindable.
  void forget(block_id id) noexcept {
    block_state& b = block_[id];
    b.owners &= ~block_state::published_mark;
    const bool duplicate = has_duplicate(id);
    if constexpr (heard) sink_.evicted(told(id, !duplicate));
    if (!duplicate) {
      block_id* name = bucket_ + home_of(b.hash);
      while (*name != id) name = &block_[*name].link;
      *name = std::exchange(b.link, 0U);
      return;
    }
    const neighbours& t = duplicate_[id];
    duplicate_[t.previous].next = t.next;
    duplicate_[t.next].previous = t.previous;
    block_id* const name = name_of_duplicates(id);
    if (*name != id) {
      b.link = 0;
    } else {
      *name = duplicate_[id].next;
      block_[*name].link = std::exchange(b.link, block_state::was_first_mark);
    }
  }
  /// Undoes `forget`.
  void find_again(block_id id) noexcept {
    block_state& b = block_[id];
    b.owners |= block_state::published_mark;
    const bool duplicate = has_duplicate(id);
    if constexpr (heard) sink_.eviction_undone(told(id, !duplicate));
    if (!duplicate) {
      block_id& first = bucket_[home_of(b.hash)];
      b.link = first;
      first = id;
      return;
    }
    join_duplicates(id);
    if (b.link != block_state::was_first_mark) return;
    block_id* const name = name_of_duplicates(id);
    b.link = block_[*name].link;
    *name = id;
  }

  // --- former places of blocks that `share` took from the list: a ring, so that it never fills
  void remember(const place& was) noexcept {
    journal_[journal_end_] = was;
    journal_end_ = journal_end_ + 1 != journal_for(capacity_) ? journal_end_ + 1 : 0;
    if (journal_size_ != journal_for(capacity_)) ++journal_size_;
  }
  [[nodiscard]] place recall() noexcept {
    TESSERA_ASSERT(journal_size_ != 0, "undone out of order, or too much undone");
    --journal_size_;
    journal_end_ = journal_end_ != 0 ? journal_end_ - 1 : journal_for(capacity_) - 1;
    return journal_[journal_end_];
  }

  [[nodiscard]] block_id take_free() noexcept {
    const block_id id = free_[--free_size_];
    block_state& b = block_[id];
    ++b.owners;
    if ((++b.link & block_state::takes_mask) == 0) b.link = block_state::half_range;
    return id;
  }
  [[nodiscard]] block_id evict() noexcept {
    block_id id = no_index;
    order_.take({&id, 1}, [](block_id) noexcept {});
    if (order_.size() != 0)
      tessera::detail::prefetch(bucket_ + home_of(block_[order_.next()].hash));  // likely the next
    forget(id);
    ++block_[id].owners;
    return id;
  }

  /// As `evict()` one by one, but the reads of each block overlap with the search for the next.
  void evict(std::span<block_id> out) noexcept {
    order_.take(out, [this](block_id id) noexcept { tessera::detail::prefetch(block_ + id); });
    for (const block_id coldest : out) tessera::detail::prefetch(bucket_ + home_of(block_[coldest].hash));
    for (const block_id coldest : out) {
      forget(coldest);
      ++block_[coldest].owners;
    }
  }

  block_state* block_;
  Eviction order_;
  neighbours* duplicate_;  // for blocks that may have duplicates
  block_id* bucket_;       // by hash: the first block of the chain
  block_id* free_;         // a stack: the next to be allocated is free_[free_size_ - 1]
  place* journal_;
  std::size_t capacity_;
  std::size_t free_size_;
  int shift_;
  std::size_t journal_end_ = 0;
  std::size_t journal_size_ = 0;
  std::uint64_t* upper_;  // upper halves of 128-bit hashes
  origin* origin_;        // for the sink
  [[no_unique_address]] Sink sink_;
};

/// The usual cache: least recently used first, 64-bit hashes, no listener.
using prefix_cache = basic_prefix_cache<>;

static_assert(prefix_store<prefix_cache>);

}  // namespace kv
TESSERA_NAMESPACE_END
