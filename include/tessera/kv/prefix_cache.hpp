// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/prefetch.hpp>
#include <tessera/kv/concepts.hpp>

#include <bit>
#include <utility>

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
/// and each of them is found as long as it is there. `match` prefers one that is in use, which costs no free block, if
/// that is among the first five it looks at.
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
        .add<block_state>(l.blocks)
        .add<neighbours>(l.blocks + 1)
        .add<neighbours>(l.blocks)
        .add<block_id>(buckets_for(l.blocks))
        .add<block_id>(l.blocks)
        .add<block_id>(journal_for(l.blocks))
        .bytes_unaligned();
  }

  /// All blocks are free, nothing is cached; the first to be allocated is 0, then 1, ... O(blocks).
  prefix_cache(arena& memory, const limits& l) noexcept
      : block_{memory.take<block_state>(l.blocks)},
        lru_{memory.take_uninitialised<neighbours>(l.blocks + 1)},
        twin_{memory.take_uninitialised<neighbours>(l.blocks)},
        bucket_{memory.take_uninitialised<block_id>(buckets_for(l.blocks))},
        free_{memory.take_uninitialised<block_id>(l.blocks)},
        journal_{memory.take_uninitialised<block_id>(journal_for(l.blocks))},
        capacity_{l.blocks},
        free_size_{l.blocks},
        shift_{64 - std::countr_zero(buckets_for(l.blocks))} {
    TESSERA_ASSERT(l.blocks <= std::size_t{1} << 30, "too many blocks");
    for (std::size_t i = 0; i != l.blocks; ++i) free_[i] = static_cast<block_id>(l.blocks - 1 - i);
    for (std::size_t i = 0; i != buckets_for(l.blocks); ++i) bucket_[i] = no_index;
    lru_[capacity_] = {ends(), ends()};
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
    return block_[id].references();
  }
  /// Whether the block can be found by its hash. Requires `id < capacity()`.
  [[nodiscard]] bool published(block_id id) const noexcept {
    TESSERA_ASSERT(id < capacity_, "not a block of this cache");
    return block_[id].is_published();
  }

  /// Whether others may be published under its hash, or have been since it was. Requires `id < capacity()`.
  [[nodiscard]] bool may_have_twins(block_id id) const noexcept {
    TESSERA_ASSERT(id < capacity_, "not a block of this cache");
    return block_[id].may_have_twins();
  }

  /// Finds the longest prefix of `hashes` whose blocks are all known, writes their ids to the front of `out` and
  /// returns their number, at most `out.size()`. Changes nothing: `share` what you keep. O(blocks matched).
  [[nodiscard]] std::size_t match(std::span<const std::uint64_t> hashes, std::span<block_id> out) const noexcept {
    const std::size_t n = hashes.size() < out.size() ? hashes.size() : out.size();
    constexpr std::size_t ahead = 8;  // lookups are independent: let their cache misses overlap
    for (std::size_t i = 0; i < n && i < ahead; ++i) tessera::detail::prefetch(bucket_ + home(hashes[i]));
    for (std::size_t i = 0; i != n; ++i) {
      if (i + ahead < n) tessera::detail::prefetch(bucket_ + home(hashes[i + ahead]));
      if (i + ahead / 2 < n) prefetch_first(hashes[i + ahead / 2]);
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
    if (b.references() == 0) return status::not_allocated;
    if (b.is_published()) return b.hash == hash ? status::ok : status::invalid;
    block_id& first = bucket_[home(hash)];
    block_id known = first;
    while (known != no_index && block_[known].hash != hash) known = block_[known].link;
    b.hash = hash;
    b.owners = (b.owners & block_state::count_mask) | block_state::published_mark;
    if (known == no_index) {
      b.link = first;
      first = id;
    } else {
      if (!block_[known].may_have_twins()) twin_[known] = {known, known};
      block_[known].owners |= block_state::twins_mark;
      b.owners |= block_state::twins_mark;
      twin_[id] = {twin_[known].previous, known};  // last of the ring
      join_twins(id);
    }
    return status::ok;
  }

  /// Publishes each block by its hash, and leaves out those that cannot be: the first status that is not `ok` is
  /// returned. Expected O(ids.size()). Requires: `hashes.size() >= ids.size()`.
  [[nodiscard]] status publish(std::span<const block_id> ids, std::span<const std::uint64_t> hashes) noexcept {
    TESSERA_ASSERT(hashes.size() >= ids.size(), "a hash for each block");
    for (std::size_t i = 0; i != ids.size(); ++i) tessera::detail::prefetch(bucket_ + home(hashes[i]));
    status first = status::ok;
    for (std::size_t i = 0; i != ids.size(); ++i) {
      if (i + 4 < ids.size()) prefetch_first(hashes[i + 4]);
      const status s = publish(ids[i], hashes[i]);
      if (first == status::ok) first = s;
    }
    return first;
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
    lru_[capacity_] = {ends(), ends()};
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

  /// Adds an owner; a cached block leaves the LRU list. Requires fewer than 2^30 - 1 owners.
  /// `foreign`; `not_allocated`: the block is free.
  [[nodiscard]] status share(block_id id) noexcept {
    if (id >= capacity_) return status::foreign;
    block_state& b = block_[id];
    if (b.references() == 0) {
      if (!b.is_published()) return status::not_allocated;
      remember(lru_[id].previous);
      unlink(id);
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

  /// Takes an owner away; after the last one a published block is cached, as the most recently used, any other free.
  /// `foreign`, `not_allocated`.
  [[nodiscard]] status release(block_id id) noexcept {
    if (id >= capacity_) return status::foreign;
    block_state& b = block_[id];
    if (b.references() == 0) return status::not_allocated;
    --b.owners;
    if (b.references() == 0) {
      if (b.is_published()) {
        link(id, lru_[capacity_].previous, ends());
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
      TESSERA_ASSERT(ids[i] < capacity_ && block_[ids[i]].references() == 1, "undone out of order");
      block_state& b = block_[ids[i]];
      TESSERA_ASSERT(!b.is_published(), "published since it was allocated");
      --b.owners;
      if ((b.link & block_state::takes_mask) != 0) {
        --b.link;
        free_[free_size_++] = ids[i];
      } else {
        find_again(ids[i]);
        link(ids[i], ends(), lru_[capacity_].next);
      }
    }
  }
  /// Takes back `share` of these ids: a block that was cached returns to its place in the LRU list.
  /// Requires: everything done since has been undone.
  void undo_share(std::span<const block_id> ids) noexcept {
    for (std::size_t i = ids.size(); i-- != 0;) {
      TESSERA_ASSERT(ids[i] < capacity_ && block_[ids[i]].references() != 0, "undone out of order");
      --block_[ids[i]].owners;
      if (block_[ids[i]].references() == 0) {
        const block_id before = recall();
        link(ids[i], before, lru_[before].next);
      }
    }
  }
  /// Takes back `release` of these ids. Requires: everything done since has been undone.
  void undo_release(std::span<const block_id> ids) noexcept {
    for (const block_id id : ids) {
      TESSERA_ASSERT(id < capacity_, "not a block of this cache");
      block_state& b = block_[id];
      ++b.owners;
      if (b.references() != 1) continue;
      if (b.is_published()) {
        TESSERA_ASSERT(lru_[capacity_].previous == id, "undone out of order");
        unlink(id);
      } else {
        TESSERA_ASSERT(free_size_ != 0 && free_[free_size_ - 1] == id, "undone out of order");
        --free_size_;
      }
    }
  }

 private:
  // What every call looks at, four to a cache line; the rest is apart, because it is needed of few blocks only.
  struct block_state {
    static constexpr std::uint32_t published_mark = 0x8000'0000U;
    static constexpr std::uint32_t twins_mark = 0x4000'0000U;  // has had twins under this hash: look into its ring
    static constexpr std::uint32_t count_mask = 0x3fff'ffffU;
    static constexpr std::uint32_t was_first_mark = 0x8000'0000U;  // evicted while first of its twins
    static constexpr std::uint32_t takes_mask = 0x7fff'ffffU;
    static constexpr std::uint32_t half_range = 0x4000'0000U;

    std::uint64_t hash = 0;    // while published, and after an eviction until the next publish
    std::uint32_t owners = 0;  // references, and the two marks
    // Published and first of its twins: the next block with a hash of the same bucket. Not published: how often the
    // block was taken from the free stack since it was evicted, which is how undo knows where an allocation came from:
    // 0 means by eviction. It saturates far above what any undo reaches back over.
    std::uint32_t link = 0;

    [[nodiscard]] std::uint32_t references() const noexcept { return owners & count_mask; }
    [[nodiscard]] bool is_published() const noexcept { return (owners & published_mark) != 0; }
    [[nodiscard]] bool may_have_twins() const noexcept { return (owners & twins_mark) != 0; }
  };
  static_assert(sizeof(block_state) == 16);
  struct neighbours {
    block_id previous;
    block_id next;
  };

  // At most an eighth of a block a bucket: of a step with prefixes, a third goes to branches mispredicted and lines
  // missed where two hashes meet, if there are half a block a bucket. At least 2, so that `home` never shifts by 64.
  [[nodiscard]] static constexpr std::size_t buckets_for(std::size_t blocks) noexcept {
    return std::bit_ceil(blocks < 1 ? std::size_t{2} : 8 * blocks);
  }
  [[nodiscard]] static constexpr std::size_t journal_for(std::size_t blocks) noexcept { return 2 * blocks; }

  /// The first block of a bucket that is in the processor's cache already.
  void prefetch_first(std::uint64_t hash) const noexcept {
    const block_id id = bucket_[home(hash)];
    if (id != no_index) tessera::detail::prefetch(block_ + id);
  }

  // --- hash table: buckets that name their first block, chained through `link`. Of twins, one is in the chain.
  [[nodiscard]] std::size_t home(std::uint64_t hash) const noexcept {
    return static_cast<std::size_t>((hash * 0x9e37'79b9'7f4a'7c15ULL) >> shift_);
  }
  [[nodiscard]] block_id find(std::uint64_t hash) const noexcept {
    block_id id = bucket_[home(hash)];
    while (id != no_index && block_[id].hash != hash) id = block_[id].link;
    return id;
  }

  // --- twins: a ring
  void join_twins(block_id id) noexcept {
    const neighbours& t = twin_[id];
    twin_[t.previous].next = id;
    twin_[t.next].previous = id;
  }
  /// One of the first few blocks of a ring that is in use; else the first.
  [[nodiscard]] block_id in_use_twin(block_id first) const noexcept {
    if (!block_[first].may_have_twins()) return first;
    block_id id = first;
    for (int looked = 0; looked != 4 && block_[id].references() == 0; ++looked) {
      id = twin_[id].next;
      if (id == first) return first;
    }
    return block_[id].references() != 0 ? id : first;
  }
  /// A published block cannot be found any more.
  void forget(block_id id) noexcept {
    block_state& b = block_[id];
    b.owners &= ~block_state::published_mark;
    const bool has_twin = b.may_have_twins() && twin_[id].next != id;
    if (has_twin) {
      const neighbours& t = twin_[id];
      twin_[t.previous].next = t.next;
      twin_[t.next].previous = t.previous;
    }
    block_id* name = bucket_ + home(b.hash);
    if (!has_twin) {
      while (*name != id) name = &block_[*name].link;
      *name = std::exchange(b.link, 0U);
      return;
    }
    while (block_[*name].hash != b.hash) name = &block_[*name].link;
    if (*name != id) {
      b.link = 0;
    } else {
      *name = twin_[id].next;
      block_[*name].link = std::exchange(b.link, block_state::was_first_mark);
    }
  }
  /// Undoes `forget`.
  void find_again(block_id id) noexcept {
    block_state& b = block_[id];
    b.owners |= block_state::published_mark;
    if (!b.may_have_twins() || twin_[id].next == id) {
      block_id& first = bucket_[home(b.hash)];
      b.link = first;
      first = id;
      return;
    }
    join_twins(id);
    if (b.link != block_state::was_first_mark) return;
    block_id* name = bucket_ + home(b.hash);
    while (block_[*name].hash != b.hash) name = &block_[*name].link;
    b.link = block_[*name].link;
    *name = id;
  }

  // --- LRU list: circular, through the element after the last block; `next` of it is the coldest
  [[nodiscard]] block_id ends() const noexcept { return static_cast<block_id>(capacity_); }
  void link(block_id id, block_id before, block_id after) noexcept {
    lru_[id] = {before, after};
    lru_[before].next = id;
    lru_[after].previous = id;
    ++cached_;
  }
  void unlink(block_id id) noexcept {
    const neighbours n = lru_[id];
    lru_[n.previous].next = n.next;
    lru_[n.next].previous = n.previous;
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
    ++b.owners;
    if ((++b.link & block_state::takes_mask) == 0) b.link = block_state::half_range;
    return id;
  }
  [[nodiscard]] block_id evict() noexcept {
    const block_id id = lru_[capacity_].next;
    unlink(id);
    const block_id coldest = lru_[capacity_].next;  // likely to be evicted next
    if (coldest != ends()) tessera::detail::prefetch(bucket_ + home(block_[coldest].hash));
    forget(id);
    ++block_[id].owners;
    return id;
  }

  /// The coldest blocks, as `evict()` one by one: they are cut off the list together, and what is looked up of each is
  /// on its way while the list is followed.
  void evict(std::span<block_id> out) noexcept {
    block_id id = lru_[capacity_].next;
    for (block_id& coldest : out) {
      coldest = id;
      tessera::detail::prefetch(block_ + id);
      id = lru_[id].next;
    }
    lru_[capacity_].next = id;
    lru_[id].previous = ends();
    cached_ -= out.size();
    for (const block_id coldest : out) tessera::detail::prefetch(bucket_ + home(block_[coldest].hash));
    for (const block_id coldest : out) {
      forget(coldest);
      ++block_[coldest].owners;
    }
  }

  block_state* block_;
  neighbours* lru_;   // one more than there are blocks: the ends of the list
  neighbours* twin_;  // of those that may have twins
  block_id* bucket_;  // by hash: the first block of the chain
  block_id* free_;    // a stack: the next to be allocated is free_[free_size_ - 1]
  block_id* journal_;
  std::size_t capacity_;
  std::size_t free_size_;
  std::size_t cached_ = 0;
  int shift_;
  std::size_t journal_end_ = 0;
  std::size_t journal_size_ = 0;
};

static_assert(prefix_store<prefix_cache>);

}  // namespace kv
TESSERA_NAMESPACE_END
