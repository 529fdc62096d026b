// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/block_list.hpp>
#include <tessera/kv/eviction.hpp>
#include <tessera/kv/indexed_heap.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// Evicts from the session with the most cached blocks, its least recently used block first. So one session, user or
/// tenant with much traffic cannot drive the others out. Ties go to the session with the lowest number.
///
/// A block is on the account of a session, a number below `Sessions` (asserted; else the remainder). It is the
/// `r.session` of the request that last published it or gave it back.
/// When to use: many sessions share an instance, and their loads differ much. Model of `eviction_policy`.
///
/// A list for each session and a heap of these: O(log Sessions) for each block that is cached, used again or evicted.
/// 12 bytes a block.
template <std::size_t Sessions = 64>
class by_session {
  static_assert(Sessions > 0 && Sessions < no_index, "tessera: by_session needs a session");

 public:
  using retention_type = std::uint32_t;  ///< A session.

  /// The place of a block.
  struct place_type {
    block_id before;        ///< The block before it on its list.
    std::uint32_t session;  ///< The session of that list.
  };

  /// Bytes that an object for `blocks` blocks takes from its arena.
  [[nodiscard]] static constexpr std::size_t required_bytes(std::size_t blocks) noexcept {
    storage_layout all;
    all.add_bytes(detail::block_list::required_bytes(blocks + Sessions + 1))
        .template add<std::uint32_t>(blocks)
        .template add<std::uint32_t>(Sessions)
        .add_bytes(detail::indexed_heap::required_bytes(Sessions));
    return all.bytes();
  }
  /// Empty. O(blocks + Sessions).
  by_session(arena& memory, std::size_t blocks) noexcept
      : list_{memory, blocks + Sessions + 1},
        session_{memory.take<std::uint32_t>(blocks)},
        held_{memory.take<std::uint32_t>(Sessions)},
        heap_{memory, Sessions},
        blocks_{static_cast<block_id>(blocks)} {
    clear();
  }
  by_session(const by_session&) = delete;
  by_session& operator=(const by_session&) = delete;

  /// The number of blocks in it. O(1).
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// The block that goes first. Requires: there is one. O(1).
  [[nodiscard]] block_id next() const noexcept {
    const block_id first = list_.next(ends(before_all));
    return first != ends(before_all) ? first : list_.next(ends(heap_.top()));
  }
  /// Cached blocks on the account of a session. O(1). Requires: `session < Sessions`.
  [[nodiscard]] std::size_t held(std::uint32_t session) const noexcept {
    TESSERA_ASSERT(session < Sessions, "not a session");
    return held_[session];
  }

  /// A block is findable from now on, on the account of session 0. O(1).
  void published(block_id id, std::size_t /*depth*/) noexcept { session_[id] = 0; }
  /// Puts a block in use on the account of a session. O(1).
  void retain(block_id id, std::uint32_t session) noexcept {
    TESSERA_ASSERT(session < Sessions, "not a session");
    session_[id] = session % static_cast<std::uint32_t>(Sessions);
  }
  /// A request's session.
  template <class Request>
  [[nodiscard]] static retention_type retention_of(const Request& r) noexcept
    requires requires {
      { r.session } -> std::convertible_to<std::uint32_t>;
    }
  {
    return r.session;
  }

  /// The last owner of a block has gone. O(log Sessions).
  void insert(block_id id) noexcept {
    const block_id e = ends(session_[id]);
    link(id, session_[id], list_.previous(e), e);
  }
  /// The same, but the block goes before the blocks of all sessions; it is on no account. O(1).
  void insert_first(block_id id) noexcept {
    const block_id e = ends(before_all);
    link(id, before_all, e, list_.next(e));
  }
  /// Undoes `insert`.
  void undo_insert(block_id id) noexcept {
    TESSERA_ASSERT(list_.previous(ends(session_[id])) == id, "undone out of order");
    unlink(id);
  }
  /// A block is in use again. O(log Sessions).
  [[nodiscard]] place_type remove(block_id id) noexcept {
    const place_type was{list_.previous(id), session_[id]};
    unlink(id);
    if (was.session == before_all) session_[id] = 0;  // until a request that has the block states another session
    return was;
  }
  /// Undoes `remove`.
  void undo_remove(block_id id, place_type was) noexcept { link(id, was.session, was.before, list_.next(was.before)); }
  /// Removes the first blocks. O(out.size() log Sessions).
  template <class F>
  void take(std::span<block_id> out, F f) noexcept {
    for (block_id& id : out) {
      id = next();
      f(id);
      unlink(id);
    }
  }
  /// Undoes `take` of one block.
  void undo_take(block_id id) noexcept {
    const block_id e = ends(session_[id]);
    link(id, session_[id], e, list_.next(e));
  }
  /// Removes all blocks. O(Sessions).
  void clear() noexcept {
    heap_.clear();
    size_ = 0;
    list_.clear(ends(before_all));
    for (std::uint32_t s = 0; s != Sessions; ++s) {
      held_[s] = 0;
      list_.clear(ends(s));
      heap_.push(s, more());
    }
  }

 private:
  static constexpr std::uint32_t before_all = Sessions;  // the account of `insert_first`

  [[nodiscard]] block_id ends(std::uint32_t session) const noexcept { return blocks_ + session; }
  [[nodiscard]] auto more() const noexcept {
    return [this](std::uint32_t a, std::uint32_t b) noexcept {
      return held_[a] != held_[b] ? held_[a] > held_[b] : a < b;
    };
  }
  void link(block_id id, std::uint32_t session, block_id before, block_id after) noexcept {
    list_.link(id, before, after);
    ++size_;
    session_[id] = session;
    if (session == before_all) return;
    ++held_[session];
    heap_.update(session, more());
  }
  void unlink(block_id id) noexcept {
    list_.unlink(id);
    --size_;
    if (session_[id] == before_all) return;
    --held_[session_[id]];
    heap_.update(session_[id], more());
  }

  detail::block_list list_;  // one per session, and one that goes before all
  std::uint32_t* session_;   // by block
  std::uint32_t* held_;      // by session
  detail::indexed_heap heap_;
  block_id blocks_;
  std::size_t size_ = 0;
};

static_assert(eviction_policy<by_session<>>);

}  // namespace kv
TESSERA_NAMESPACE_END
