// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/storage.hpp>
#include <tessera/queue/due_set.hpp>
#include <tessera/request/concepts.hpp>

#include <cstddef>
#include <cstring>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The requests that hold blocks and run, as an array of pointers sorted by the discipline's order. A step walks all of
/// it from the front, so contiguity is worth more than a tree; insert and erase find their place in O(log n)
/// comparisons and move at most n pointers (2 KiB at 256 residents).
template <schedulable R, class Order>
class resident_set {
 public:
  resident_set(arena& memory, std::size_t capacity) noexcept
      : first_{memory.take_uninitialised<R*>(capacity)}, capacity_{capacity} {}

  [[nodiscard]] static constexpr std::size_t required_bytes(std::size_t capacity) noexcept {
    return storage_layout{}.add<R*>(capacity).bytes();
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] R* operator[](std::size_t i) const noexcept { return first_[i]; }
  [[nodiscard]] std::span<R* const> all() const noexcept { return {first_, size_}; }

  void insert(R& r) noexcept {
    TESSERA_ASSERT(size_ < capacity_, "more residents than the limits allow");
    const std::size_t at = place_of(r);
    std::memmove(first_ + at + 1, first_ + at, (size_ - at) * sizeof(R*));
    first_[at] = &r;
    ++size_;
    due_.insert(r);
  }

  /// Requires: `r` is in the set and its place has not changed since it was inserted.
  void erase(R& r) noexcept {
    const std::size_t at = place_of(r);
    TESSERA_ASSERT(at < size_ && first_[at] == &r, "the order of a resident changed outside requeue or change_phase");
    --size_;
    std::memmove(first_ + at, first_ + at + 1, (size_ - at) * sizeof(R*));
    due_.erase(r);
  }

  [[nodiscard]] bool contains(const R& r) const noexcept {
    const std::size_t at = place_of(r);
    return at < size_ && first_[at] == &r;
  }

  /// Drops all but the first `n`. O(dropped).
  void truncate(std::size_t n) noexcept {
    while (size_ > n) due_.erase(*first_[--size_]);
  }

  /// Lets `now` come: requests whose `boost_at` is not later are boosted. Returns whether there were any. O(1) when
  /// nobody is due; for each who is, O(log n) comparisons and a move of pointers.
  bool advance(typename R::time_point now) noexcept {
    bool any = false;
    while (R* const r = due_.first(now)) {
      erase(*r);
      request_access::state(*r).level = 0;
      insert(*r);
      any = true;
    }
    return any;
  }

 private:
  [[nodiscard]] std::size_t place_of(const R& r) const noexcept {
    std::size_t low = 0;
    std::size_t high = size_;
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (Order::before(*first_[middle], r)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  R** first_;
  std::size_t capacity_;
  std::size_t size_ = 0;
  [[no_unique_address]] due_set<R, Order> due_;
};

}  // namespace detail
TESSERA_NAMESPACE_END
