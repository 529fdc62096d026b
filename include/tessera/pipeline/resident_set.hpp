// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/storage.hpp>
#include <tessera/queue/due_set.hpp>
#include <tessera/request/concepts.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The requests that hold blocks and run: an array of pointers sorted in three parts, each in the discipline's order.
/// First are restarted requests (`restarted`), last the backfilled ones. A step walks all of it from the front, so
/// contiguity is worth more than a tree.
///
/// One request that comes or goes finds its place in O(log n) comparisons and moves at most n pointers (2 KiB at 256
/// residents). Several that come, go or change places at once are collected (`vacate`, `collect`) and handled together
/// by `settle`. That is one pass over the pointers and a sort of the coming requests. The sort is free if they come in
/// order already, as they do when their turns end together.
///
/// A bookmark divides the front from the rest, for as long as wanted. A request before it stays before it until it
/// leaves or moves. A request that comes to stand among them, or next to them, is included.
template <schedulable R, class Order>
class resident_set {
 public:
  /// `order` must outlive it.
  resident_set(arena& memory, std::size_t capacity, const Order& order) noexcept
      : order_{&order},
        first_{memory.take_uninitialised<R*>(capacity)},
        coming_{memory, capacity},
        due_{make_due(order)} {}

  [[nodiscard]] static constexpr std::size_t required_bytes(std::size_t capacity) noexcept {
    return storage_layout{}.add<R*>(capacity).add_bytes(fixed_vector<R*>::required_bytes(capacity)).bytes();
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] R* operator[](std::size_t i) const noexcept { return first_[i]; }
  [[nodiscard]] std::span<R* const> all() const noexcept { return {first_, size_}; }
  /// The number of backfilled requests; they stand at the end.
  [[nodiscard]] std::size_t guests() const noexcept { return guests_; }

  /// The number of requests before the bookmark.
  [[nodiscard]] std::size_t bookmark() const noexcept { return bookmark_; }
  void set_bookmark(std::size_t n) noexcept { bookmark_ = n; }

  [[nodiscard]] bool before(const R& a, const R& b) const noexcept {
    const int p = rank(a.state());
    const int q = rank(b.state());
    return p != q ? p < q : order_->before(a, b);
  }

  void insert(R& r) noexcept {
    TESSERA_ASSERT(size_ < coming_.capacity(), "more residents than the limits allow");
    const std::size_t at = place_of(r, size_);
    std::memmove(first_ + at + 1, first_ + at, (size_ - at) * sizeof(R*));
    first_[at] = &r;
    ++size_;
    guests_ += r.state().backfilled ? 1U : 0U;
    if (at <= bookmark_) ++bookmark_;
    due_.insert(r, *order_);
  }

  /// Requires: `r` is in the set and its place has not changed since it was inserted. Returns its place.
  std::size_t erase(R& r) noexcept {
    const std::size_t at = place_of(r, size_);
    TESSERA_ASSERT(at < size_ && first_[at] == &r, "the order of a resident changed outside requeue or change_phase");
    --size_;
    std::memmove(first_ + at, first_ + at + 1, (size_ - at) * sizeof(R*));
    if (at < bookmark_) --bookmark_;
    guests_ -= r.state().backfilled ? 1U : 0U;
    due_.erase(r);
    return at;
  }

  [[nodiscard]] bool contains(const R& r) const noexcept {
    const std::size_t ordered = std::min(size_, ordered_);
    const std::size_t at = place_of(r, ordered);
    if (at < ordered && first_[at] == &r) return true;
    return std::find(first_ + ordered, first_ + size_, &r) != first_ + size_;
  }

  /// The place of a resident that is no victim of the open plan. O(log n).
  [[nodiscard]] std::size_t place_of(const R& r) const noexcept { return place_of(r, std::min(size_, ordered_)); }

  // -- chosen victims: they stand behind all that are kept, not in order, until they are dropped or taken back

  /// Whether all stand in order.
  [[nodiscard]] bool in_order() const noexcept { return ordered_ >= size_; }
  /// Moves the resident at `from` to `to`; those between close up. Residents before `to` stay in order. The bookmark
  /// stays in place: one of the residents before it may have left. O(to - from).
  void move_back(std::size_t from, std::size_t to) noexcept {
    if (from == to) return;
    R* const r = first_[from];
    std::memmove(first_ + from, first_ + from + 1, (to - from) * sizeof(R*));
    first_[to] = r;
    if (to < ordered_) ordered_ = to;
  }
  /// Returns the `n` residents behind the first `kept` to their former places, the nearest first. Returns the number
  /// kept then. O(n log size), and a move of pointers for each that was chosen.
  [[nodiscard]] std::size_t take_back(std::size_t kept, std::size_t n) noexcept {
    for (; n != 0; --n, ++kept) {
      R* const r = first_[kept];
      if (kept == 0 || !before(*r, *first_[kept - 1])) continue;
      const std::size_t at = place_of(*r, kept);
      std::memmove(first_ + at + 1, first_ + at, (kept - at) * sizeof(R*));
      first_[at] = r;
    }
    if (kept > ordered_) ordered_ = kept == size_ ? never : kept;
    return kept;
  }

  /// Drops all except the first `n`. O(dropped).
  void truncate(std::size_t n) noexcept {
    for (; size_ > n; --size_) {
      guests_ -= first_[size_ - 1]->state().backfilled ? 1U : 0U;
      due_.erase(*first_[size_ - 1]);
    }
    bookmark_ = std::min(bookmark_, size_);
    ordered_ = never;
  }

  // -- many at once: between the first of these calls and `settle`, nothing else is called ------------------------

  /// The resident at `at` leaves, or is about to change its place. O(1).
  void vacate(std::size_t at) noexcept {
    due_.erase(*first_[at]);
    guests_ -= first_[at]->state().backfilled ? 1U : 0U;
    first_[at] = nullptr;
    if (at < hole_) hole_ = at;
  }
  /// A request comes, or comes back with another place. O(1).
  void collect(R& r) noexcept { coming_.push_back(&r); }
  /// Moves the collected requests to their places.
  void settle() noexcept {
    close_holes();
    if (coming_.empty()) return;
    const auto earlier = [this](const R* a, const R* b) noexcept { return before(*a, *b); };
    if (!std::is_sorted(coming_.begin(), coming_.end(), earlier)) std::sort(coming_.begin(), coming_.end(), earlier);
    merge();
    for (R* r : coming_) {
      guests_ += r->state().backfilled ? 1U : 0U;
      due_.insert(*r, *order_);
    }
    coming_.clear();
  }

  /// The most residents that one `advance` moves. It bounds the time of a plan. An engine has time for a plan about
  /// every 20 ms, so 3,200 residents a second can age.
  static constexpr std::size_t most_aged = 64;

  /// Tells the time: the `most_aged` earliest due residents get their new places by `age(r)`, if they are due now. The
  /// others are served at their old places until a later plan moves them. O(1) if none is due, else O(log size)
  /// comparisons and a move of pointers for each.
  template <class F>
    requires(Order::ages)
  void advance(typename R::time_point now, F&& age) noexcept {
    due_.take_due(now, most_aged, [&](R& r) noexcept {
      erase(r);
      age(r);
      insert(r);
    });
  }

 private:
  using due_set = detail::due_set<R, Order, false>;

  [[nodiscard]] static due_set make_due(const Order& order) noexcept {
    if constexpr (Order::ages) {
      return due_set{order};
    } else {
      static_cast<void>(order);
      return {};
    }
  }
  template <class State>
  [[nodiscard]] static int rank(const State& s) noexcept {
    return s.restarted ? 0 : s.backfilled ? 2 : 1;
  }

  /// Among the first `n`, which are sorted.
  [[nodiscard]] std::size_t place_of(const R& r, std::size_t n) const noexcept {
    std::size_t low = 0;
    std::size_t high = n;
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (before(*first_[middle], r)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  void close_holes() noexcept {
    if (hole_ == never) return;
    std::size_t to = hole_;
    std::size_t before_bookmark = hole_ < bookmark_ ? hole_ : bookmark_;
    for (std::size_t i = hole_; i != size_; ++i) {
      if (first_[i] == nullptr) continue;
      first_[to++] = first_[i];
      before_bookmark += i < bookmark_ ? 1U : 0U;
    }
    size_ = to;
    bookmark_ = before_bookmark;
    hole_ = never;
  }

  /// Inserts the coming requests, sorted, from the last on. Few find their places by bisection, many by walking.
  void merge() noexcept {
    std::size_t left = coming_.size();
    TESSERA_ASSERT(size_ + left <= coming_.capacity(), "more residents than the limits allow");
    const bool walk = left * static_cast<std::size_t>(std::bit_width(size_)) > size_ + left;
    std::size_t end = size_;
    std::size_t counted_in = 0;
    size_ += left;
    for (; left != 0; --left) {
      R& r = *coming_[left - 1];
      std::size_t at = end;
      if (walk) {
        while (at != 0 && before(r, *first_[at - 1])) --at;
      } else if (at != 0 && before(r, *first_[at - 1])) {
        at = place_of(r, at - 1);
      }
      std::memmove(first_ + at + left, first_ + at, (end - at) * sizeof(R*));
      first_[at + left - 1] = &r;
      if (at <= bookmark_) ++counted_in;
      end = at;
    }
    bookmark_ += counted_in;
  }

  static constexpr std::size_t never = ~std::size_t{0};

  const Order* order_;
  R** first_;
  fixed_vector<R*> coming_;
  [[no_unique_address]] due_set due_;
  std::size_t size_ = 0;
  std::size_t guests_ = 0;
  std::size_t bookmark_ = 0;
  std::size_t hole_ = never;
  std::size_t ordered_ = never;  ///< The number at the front that stand in order, while victims are chosen.
};

}  // namespace detail
TESSERA_NAMESPACE_END
