// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/concepts.hpp>

#include <bit>

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// KV blocks with reference counts, in which full blocks stay findable by hash after their last owner has gone, until
/// their room is needed: least recently used first, the end of a sequence before its beginning.
/// When to use: prompts share prefixes (system prompts, few-shot examples, earlier turns). Model of `prefix_store`.
///
/// A block is *free* (on a stack), *in use* (has references; pinned, on no list) or *cached* (published, no references;
/// on the LRU list). `allocate` takes free blocks first, then the coldest cached one. Published blocks are full and
/// must not be written to.
///
/// Blocks that were computed apart from each other may hold the same and be published under one hash: they are twins,
/// and each of them is found as long as it is there. `match` prefers one that is in use, which costs no free block.
///
/// Hashes are trusted: two blocks with one hash are taken to hold the same KV. Make them with `hash_chain`, 64 bits
/// over all tokens from the start, with a seed per tenant.
///
/// Every call is O(blocks named), whatever the number of blocks in use or cached; nothing allocates. Calls leave the
/// cache alone unless they return `ok`. 76 to 108 bytes a block.
///
/// Undo. The `undo_` calls are exact in strictly reverse order, also for the order of eviction, provided that (1)
/// `publish` and `clear` are not called between an operation and its undoing; (2) at most 2 x capacity blocks left the
/// LRU list by `share` since. (A block that leaves the list is pinned: only by releasing and sharing the same
/// blocks again and again could a caller get there. Asserted.)
class prefix_cache {
 public:
  /// What there must be room for; fixed at construction.
  struct limits {
    std::size_t blocks = 0;  ///< At most 2^30.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add<block_state>(l.blocks + 1)
        .add<slot>(slots_for(l.blocks))
        .add<block_id>(l.blocks)
        .add<block_id>(journal_for(l.blocks))
        .bytes_unaligned();
  }

  /// All blocks are free, nothing is cached; the first to be allocated is 0, then 1, ... O(blocks).
  prefix_cache(arena& memory, const limits& l) noexcept
      : block_{memory.take<block_state>(l.blocks + 1)},
        slot_{memory.take<slot>(slots_for(l.blocks))},
        free_{memory.take_uninitialised<block_id>(l.blocks)},
        journal_{memory.take_uninitialised<block_id>(journal_for(l.blocks))},
        capacity_{l.blocks},
        free_size_{l.blocks},
        mask_{slots_for(l.blocks) - 1},
        shift_{64 - std::countr_zero(slots_for(l.blocks))} {
    TESSERA_ASSERT(l.blocks <= std::size_t{1} << 30, "too many blocks");
    for (std::size_t i = 0; i != l.blocks; ++i) free_[i] = static_cast<block_id>(l.blocks - 1 - i);
    block_[capacity_].previous = block_[capacity_].next = ends();
  }
  prefix_cache(const prefix_cache&) = delete;
  prefix_cache& operator=(const prefix_cache&) = delete;

  /// How many there is room for. O(1).
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// Blocks that can be allocated now: free ones and cached ones.
  [[nodiscard]] std::size_t free() const noexcept { return free_size_ + cached_; }
  /// Blocks without an owner that can still be found.
  [[nodiscard]] std::size_t cached() const noexcept { return cached_; }
  /// Owners of a block; 0: free or cached. Requires `id < capacity()`.
  [[nodiscard]] std::uint32_t references(block_id id) const noexcept {
    TESSERA_ASSERT(id < capacity_, "not a block of this cache");
    return block_[id].references;
  }
  /// Whether the block can be found by its hash. Requires `id < capacity()`.
  [[nodiscard]] bool published(block_id id) const noexcept {
    TESSERA_ASSERT(id < capacity_, "not a block of this cache");
    return block_[id].is_published();
  }

  /// Finds the longest prefix of `hashes` whose blocks are all known, writes their ids to the front of `out` and
  /// returns their number, at most `out.size()`. Changes nothing: `share` what you keep. O(blocks matched).
  [[nodiscard]] std::size_t match(std::span<const std::uint64_t> hashes, std::span<block_id> out) const noexcept {
    const std::size_t n = hashes.size() < out.size() ? hashes.size() : out.size();
    constexpr std::size_t ahead = 8;  // lookups are independent: let their cache misses overlap
    for (std::size_t i = 0; i < n && i < ahead; ++i) prefetch(slot_ + home(hashes[i]));
    for (std::size_t i = 0; i != n; ++i) {
      if (i + ahead < n) prefetch(slot_ + home(hashes[i + ahead]));
      const block_id id = find(hashes[i]);
      if (id == no_index) return i;
      out[i] = in_use_twin(id);
    }
    return n;
  }

  /// Whether a block is known by this hash. Expected O(1).
  [[nodiscard]] bool knows(std::uint64_t hash) const noexcept { return find(hash) != no_index; }

  /// Makes a block in use findable by the hash of its contents, beside others that are known by it. Expected O(1).
  /// `foreign`; `not_allocated`: no references; `invalid`: published with another hash.
  [[nodiscard]] status publish(block_id id, std::uint64_t hash) noexcept {
    if (id >= capacity_) return status::foreign;
    block_state& b = block_[id];
    if (b.references == 0) return status::not_allocated;
    if (b.is_published()) return b.hash == hash ? status::ok : status::invalid;
    std::size_t i = home(hash);
    while (slot_[i].id != no_index && slot_[i].hash != hash) i = (i + 1) & mask_;
    b.hash = hash;
    b.takes = block_state::published_mark;
    if (slot_[i].id == no_index) {
      slot_[i] = {hash, id};
      b.twin_before = b.twin_after = id;
    } else {
      b.twin_after = slot_[i].id;  // last of the ring
      b.twin_before = block_[b.twin_after].twin_before;
      join_twins(id);
    }
    return status::ok;
  }

  /// Forgets all hashes (the weights changed): cached blocks become free, blocks in use stay in use, unpublished.
  /// O(capacity).
  void clear() noexcept {
    for (std::size_t i = 0; i != mask_ + 1; ++i) slot_[i] = {};
    for (std::size_t i = capacity_; i-- != 0;) {
      block_state& b = block_[i];
      if (!b.is_published()) continue;
      b.takes = 0;
      if (b.references == 0) free_[free_size_++] = static_cast<block_id>(i);
    }
    block_[capacity_].previous = block_[capacity_].next = ends();
    cached_ = 0;
    journal_size_ = 0;
  }

  /// One block with one reference, or `no_index` when all are in use. Expected O(1), evictions included.
  [[nodiscard]] block_id allocate() noexcept {
    if (free_size_ != 0) return take_free();
    return cached_ != 0 ? evict() : no_index;
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

  /// Adds an owner; a cached block leaves the LRU list. Requires fewer than 2^32 - 1 owners.
  /// `foreign`; `not_allocated`: the block is free.
  [[nodiscard]] status share(block_id id) noexcept {
    if (id >= capacity_) return status::foreign;
    block_state& b = block_[id];
    if (b.references == 0) {
      if (!b.is_published()) return status::not_allocated;
      remember(b.previous);
      unlink(b);
    }
    TESSERA_ASSERT(b.references != 0xffff'ffffU, "too many references to one block");
    ++b.references;
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

  /// Takes an owner away; after the last one a published block is cached, as the most recently used, any other free.
  /// `foreign`, `not_allocated`.
  [[nodiscard]] status release(block_id id) noexcept {
    if (id >= capacity_) return status::foreign;
    block_state& b = block_[id];
    if (b.references == 0) return status::not_allocated;
    if (--b.references == 0) {
      if (b.is_published()) {
        link(id, block_[capacity_].previous, ends());
      } else {
        free_[free_size_++] = id;
      }
    }
    return status::ok;
  }
  /// Takes an owner away from each, from back to front, all or nothing. An id may occur more than once.
  [[nodiscard]] status release(std::span<const block_id> ids) noexcept {
    for (std::size_t i = ids.size(); i-- != 0;) {
      if (const status s = release(ids[i]); s != status::ok) {
        undo_release(ids.subspan(i + 1));
        return s;
      }
    }
    return status::ok;
  }

  /// Takes back `allocate` of these ids: a block that was evicted for it is cached again, as the coldest.
  /// Requires: everything done since has been undone.
  void undo_allocate(std::span<const block_id> ids) noexcept {
    for (std::size_t i = ids.size(); i-- != 0;) {
      TESSERA_ASSERT(ids[i] < capacity_ && block_[ids[i]].references == 1, "undone out of order");
      block_state& b = block_[ids[i]];
      TESSERA_ASSERT(!b.is_published(), "published since it was allocated");
      b.references = 0;
      if ((b.takes & block_state::count_mask) != 0) {
        --b.takes;
        free_[free_size_++] = ids[i];
      } else {
        find_again(ids[i]);
        link(ids[i], ends(), block_[capacity_].next);
      }
    }
  }
  /// Takes back `share` of these ids: a block that was cached returns to its place in the LRU list.
  /// Requires: everything done since has been undone.
  void undo_share(std::span<const block_id> ids) noexcept {
    for (std::size_t i = ids.size(); i-- != 0;) {
      TESSERA_ASSERT(ids[i] < capacity_ && block_[ids[i]].references != 0, "undone out of order");
      if (--block_[ids[i]].references == 0) {
        const block_id before = recall();
        link(ids[i], before, block_[before].next);
      }
    }
  }
  /// Takes back `release` of these ids. Requires: everything done since has been undone.
  void undo_release(std::span<const block_id> ids) noexcept {
    for (const block_id id : ids) {
      TESSERA_ASSERT(id < capacity_, "not a block of this cache");
      block_state& b = block_[id];
      if (b.references++ != 0) continue;
      if (b.is_published()) {
        TESSERA_ASSERT(block_[capacity_].previous == id, "undone out of order");
        unlink(b);
      } else {
        TESSERA_ASSERT(free_size_ != 0 && free_[free_size_ - 1] == id, "undone out of order");
        --free_size_;
      }
    }
  }

 private:
  // Half a cache line, so that none lies in two.
  struct alignas(32) block_state {
    // `takes` counts how often the block was taken from the free stack since it was evicted, which is how undo knows
    // where an allocation came from: 0 means by eviction. It saturates far above what any undo reaches back over.
    static constexpr std::uint32_t published_mark = 0x8000'0000U;
    static constexpr std::uint32_t was_first_mark = 0x4000'0000U;  // evicted while first of its twins
    static constexpr std::uint32_t count_mask = 0x3fff'ffffU;
    static constexpr std::uint32_t half_range = 0x2000'0000U;

    std::uint64_t hash = 0;  // while published, and after an eviction until the next publish
    std::uint32_t references = 0;
    std::uint32_t takes = 0;       // published_mark: published
    block_id previous = no_index;  // in the LRU list, towards the cold end
    block_id next = no_index;      // towards the warm end
    // The ring of the blocks that are published under one hash; the table of hashes names its first. One that was
    // evicted still knows where it stood.
    block_id twin_before = no_index;
    block_id twin_after = no_index;

    [[nodiscard]] bool is_published() const noexcept { return takes == published_mark; }
  };
  static_assert(sizeof(block_state) == 32);
  struct slot {
    std::uint64_t hash = 0;
    block_id id = no_index;  // no_index: empty
  };

  // At most half full. At least 2, so that `home` never shifts by 64.
  [[nodiscard]] static constexpr std::size_t slots_for(std::size_t blocks) noexcept {
    return std::bit_ceil(blocks < 1 ? std::size_t{2} : 2 * blocks);
  }
  [[nodiscard]] static constexpr std::size_t journal_for(std::size_t blocks) noexcept { return 2 * blocks; }

  static void prefetch([[maybe_unused]] const void* p) noexcept {
#if defined(__GNUC__)
    __builtin_prefetch(p);
#endif
  }

  // --- hash table: open addressing, linear probing, deletion by shifting back, so that there are no tombstones
  [[nodiscard]] std::size_t home(std::uint64_t hash) const noexcept {
    return static_cast<std::size_t>((hash * 0x9e37'79b9'7f4a'7c15ULL) >> shift_);
  }
  [[nodiscard]] block_id find(std::uint64_t hash) const noexcept {
    std::size_t i = home(hash);
    while (slot_[i].id != no_index && slot_[i].hash != hash) i = (i + 1) & mask_;
    return slot_[i].id;
  }
  /// Requires: the hash is known.
  [[nodiscard]] slot& slot_of(std::uint64_t hash) noexcept {
    std::size_t i = home(hash);
    while (slot_[i].hash != hash || slot_[i].id == no_index) i = (i + 1) & mask_;
    return slot_[i];
  }
  void insert(std::uint64_t hash, block_id id) noexcept {
    std::size_t i = home(hash);
    while (slot_[i].id != no_index) i = (i + 1) & mask_;
    slot_[i] = {hash, id};
  }
  void erase(std::uint64_t hash) noexcept {
    std::size_t hole = home(hash);
    while (slot_[hole].hash != hash) hole = (hole + 1) & mask_;
    for (std::size_t i = (hole + 1) & mask_; slot_[i].id != no_index; i = (i + 1) & mask_) {
      // An entry may move back to the hole unless its home lies cyclically in (hole, i].
      if (((i - home(slot_[i].hash)) & mask_) >= ((i - hole) & mask_)) {
        slot_[hole] = slot_[i];
        hole = i;
      }
    }
    slot_[hole].id = no_index;
  }

  // --- twins
  void join_twins(block_id id) noexcept {
    const block_state& b = block_[id];
    block_[b.twin_before].twin_after = id;
    block_[b.twin_after].twin_before = id;
  }
  /// One of the first few blocks of a ring that is in use; else the first.
  [[nodiscard]] block_id in_use_twin(block_id first) const noexcept {
    block_id id = first;
    for (int looked = 0; looked != 4 && block_[id].references == 0; ++looked) {
      id = block_[id].twin_after;
      if (id == first) return first;
    }
    return block_[id].references != 0 ? id : first;
  }
  /// A published block cannot be found any more.
  void forget(block_id id) noexcept {
    block_state& b = block_[id];
    b.takes = 0;
    if (b.twin_after == id) {
      erase(b.hash);
      return;
    }
    block_[b.twin_before].twin_after = b.twin_after;
    block_[b.twin_after].twin_before = b.twin_before;
    slot& s = slot_of(b.hash);
    if (s.id == id) {
      s.id = b.twin_after;
      b.takes = block_state::was_first_mark;
    }
  }
  /// Undoes `forget`.
  void find_again(block_id id) noexcept {
    block_state& b = block_[id];
    if (b.twin_after == id) {
      insert(b.hash, id);
    } else {
      join_twins(id);
      if (b.takes == block_state::was_first_mark) slot_of(b.hash).id = id;
    }
    b.takes = block_state::published_mark;
  }

  // --- LRU list: circular, through the element after the last block; `next` of it is the coldest
  [[nodiscard]] block_id ends() const noexcept { return static_cast<block_id>(capacity_); }
  void link(block_id id, block_id before, block_id after) noexcept {
    block_[id].previous = before;
    block_[id].next = after;
    block_[before].next = id;
    block_[after].previous = id;
    ++cached_;
  }
  void unlink(const block_state& b) noexcept {
    block_[b.previous].next = b.next;
    block_[b.next].previous = b.previous;
    --cached_;
  }

  // --- where blocks were that `share` took from the list: a ring, so that it never fills
  void remember(block_id before) noexcept {
    journal_[journal_end_] = before;
    journal_end_ = journal_end_ + 1 != journal_for(capacity_) ? journal_end_ + 1 : 0;
    if (journal_size_ != journal_for(capacity_)) ++journal_size_;
  }
  [[nodiscard]] block_id recall() noexcept {
    TESSERA_ASSERT(journal_size_ != 0, "undone out of order, or too much undone");
    --journal_size_;
    journal_end_ = journal_end_ != 0 ? journal_end_ - 1 : journal_for(capacity_) - 1;
    return journal_[journal_end_];
  }

  [[nodiscard]] block_id take_free() noexcept {
    const block_id id = free_[--free_size_];
    block_state& b = block_[id];
    b.references = 1;
    if ((++b.takes & block_state::count_mask) == 0) b.takes = block_state::half_range;
    return id;
  }
  [[nodiscard]] block_id evict() noexcept {
    const block_id id = block_[capacity_].next;
    block_state& b = block_[id];
    unlink(b);
    const block_state& coldest = block_[b.next];  // likely to be evicted next
    prefetch(slot_ + home(coldest.hash));
    prefetch(block_ + coldest.next);
    forget(id);
    b.references = 1;
    return id;
  }

  /// The coldest blocks, as `evict()` one by one: they are cut off the list together, and what is looked up of each is
  /// on its way while the list is followed.
  void evict(std::span<block_id> out) noexcept {
    block_id id = block_[capacity_].next;
    for (block_id& coldest : out) {
      coldest = id;
      prefetch(slot_ + home(block_[id].hash));
      id = block_[id].next;
    }
    block_[capacity_].next = id;
    block_[id].previous = ends();
    cached_ -= out.size();
    for (const block_id coldest : out) {
      forget(coldest);
      block_[coldest].references = 1;
    }
  }

  block_state* block_;  // one more than there are blocks: the ends of the LRU list
  slot* slot_;
  block_id* free_;  // a stack: the next to be allocated is free_[free_size_ - 1]
  block_id* journal_;
  std::size_t capacity_;
  std::size_t free_size_;
  std::size_t cached_ = 0;
  std::size_t mask_;
  int shift_;
  std::size_t journal_end_ = 0;
  std::size_t journal_size_ = 0;
};

static_assert(prefix_store<prefix_cache>);

}  // namespace kv
TESSERA_NAMESPACE_END
