// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/clock.hpp>
#include <tessera/core/index.hpp>
#include <tessera/core/split_mix.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/fleet/report.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace fleet::detail {

/// Neighbours in a list through an array.
struct links {
  std::uint32_t before = no_index;
  std::uint32_t after = no_index;
};

/// A list through the elements of an array that have a member `Hook`. Each call O(1).
template <auto Hook>
struct list {
  std::uint32_t first = no_index;
  std::uint32_t last = no_index;

  template <class T>
  constexpr void push_back(T* all, std::uint32_t i) noexcept {
    (all[i].*Hook) = {last, no_index};
    (last == no_index ? first : (all[last].*Hook).after) = i;
    last = i;
  }
  template <class T>
  constexpr void erase(T* all, std::uint32_t i) noexcept {
    const links l = all[i].*Hook;
    (l.before == no_index ? first : (all[l.before].*Hook).after) = l.after;
    (l.after == no_index ? last : (all[l.after].*Hook).before) = l.before;
  }
};

/// Where a reservation is in the life of a move.
enum class standing : std::uint8_t {
  here,      ///< It does not move.
  leaving,   ///< Its request is here, and is on its way elsewhere: it does not count any more.
  incoming,  ///< Its request is elsewhere, and is on its way here: it counts already.
};

/// A request at a replica.
template <clock_policy Clock>
struct reservation {
  request_id request = 0;
  basic_time_point<Clock> heard{};        // When it was last named.
  basic_time_point<Clock> rests_until{};  // It is not moved before.
  tokens prompt{};
  tokens cached{};     // Of the prompt.
  tokens generated{};  // As far as was heard.
  tokens reasoned{};   // Of these, before it began to answer.
  blocks size{};       // For all its tokens.
  blocks shared{};     // Of these, what was in the replica's prefix cache: the request neither computed nor took them.
  blocks remain{};     // Of those that it leaves: what its replica is taken to keep, because others may share it.
  replica_id where = no_replica;
  std::uint32_t twin = no_index;  // The other end of its move.
  links there{};                  // Those of its replica.
  links by_time{};                // All, in the order in which they were last named.
  links in_turn{};                // Those that ask where to go on.
  std::uint32_t since = 0;        // Reports of its replica that were taken before it held blocks there.
  standing stands = standing::here;
  bool started = false;  // It has its first token.
  bool answers = false;
  bool asks = false;
  bool has_hit = false;  // `shared` is what the engine has found, not what was expected.
};

/// Reservations by request and replica: a hash table with linear probing over a pool. Find, insert and erase O(1) on
/// average; nothing allocates.
template <clock_policy Clock>
class reservations {
 public:
  using value = reservation<Clock>;

  [[nodiscard]] static constexpr std::size_t required_bytes(std::size_t n) noexcept {
    return storage_layout{}.add<value>(n).template add<std::uint32_t>(slots_for(n)).bytes();
  }
  reservations(arena& memory, std::size_t n) noexcept
      : all_{memory.take_uninitialised<value>(n)},
        slots_{memory.take_uninitialised<std::uint32_t>(slots_for(n))},
        capacity_{n},
        mask_{slots_for(n) - 1} {
    for (std::size_t i = 0; i != slots_for(n); ++i) slots_[i] = no_index;
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool full() const noexcept { return size_ == capacity_; }
  [[nodiscard]] value* data() noexcept { return all_; }
  [[nodiscard]] const value* data() const noexcept { return all_; }

  [[nodiscard]] std::uint32_t find(request_id request, replica_id where) const noexcept {
    return slots_[slot_of(request, where)];
  }
  /// Requires: it is not there, and the pool is not full.
  std::uint32_t insert(request_id request, replica_id where) noexcept {
    TESSERA_ASSERT(!full(), "there is no room for a reservation");
    const std::size_t slot = slot_of(request, where);
    TESSERA_ASSERT(slots_[slot] == no_index, "it is reserved already");
    std::uint32_t i = free_;
    if (i != no_index) {
      free_ = all_[i].there.after;
    } else {
      i = used_++;
    }
    ::new (static_cast<void*>(all_ + i)) value{};
    all_[i].request = request;
    all_[i].where = where;
    slots_[slot] = i;
    ++size_;
    return i;
  }
  /// Requires: it is in no list.
  void erase(std::uint32_t i) noexcept {
    std::size_t hole = slot_of(all_[i].request, all_[i].where);
    TESSERA_ASSERT(slots_[hole] == i, "it is not reserved");
    // Those that were put behind it because it was there move up.
    for (std::size_t at = (hole + 1) & mask_; slots_[at] != no_index; at = (at + 1) & mask_) {
      const value& v = all_[slots_[at]];
      const std::size_t wants = home(v.request, v.where);
      if (((at - wants) & mask_) < ((at - hole) & mask_)) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole] = no_index;
    all_[i].there.after = free_;
    free_ = i;
    --size_;
  }

 private:
  [[nodiscard]] static constexpr std::size_t slots_for(std::size_t n) noexcept { return std::bit_ceil(2 * n + 1); }
  [[nodiscard]] std::size_t home(request_id request, replica_id where) const noexcept {
    return static_cast<std::size_t>(
               tessera::detail::split_mix(request + (where + 1) * tessera::detail::split_mix_step)) &
           mask_;
  }
  /// Where it is, or would be.
  [[nodiscard]] std::size_t slot_of(request_id request, replica_id where) const noexcept {
    std::size_t at = home(request, where);
    while (slots_[at] != no_index && (all_[slots_[at]].request != request || all_[slots_[at]].where != where)) {
      at = (at + 1) & mask_;
    }
    return at;
  }

  value* all_;
  std::uint32_t* slots_;  // At most half of them are taken.
  std::size_t capacity_;
  std::size_t mask_;
  std::size_t size_ = 0;
  std::uint32_t used_ = 0;
  std::uint32_t free_ = no_index;  // Linked through `there.after`.
};

}  // namespace fleet::detail
TESSERA_NAMESPACE_END
