// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/order/concepts.hpp>
#include <tessera/queue/due_set.hpp>

#include <boost/intrusive/set.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

/// @file
/// A queue of requests kept in the order of a discipline.

TESSERA_NAMESPACE_BEGIN

/// Requests in the order of a discipline, linked through their own hooks: it has no capacity and allocates nothing.
/// Any request can leave or change its place at any moment.
///
/// Used alone, it needs only `push` and `pop_front`. A scheduler also holds requests elsewhere and gives them their
/// places through `discipline()`. It uses `insert` and `erase`, which move requests in and out and leave their places
/// untouched.
///
/// Ageing: a due request is not moved when its time comes. `front` and `next` move it when they come to its new place,
/// and each of these calls moves at most one request. If aged requests do not come to the front (`D::ages_to_front`),
/// `advance` moves the `most_aged` that were due first.
/// A request that is due and not moved yet is served at its old place. The set of due requests shrinks by `most_aged`
/// in each call, so the order is reached after `due / most_aged` calls.
///
/// Complexity, in the number of queued requests: `back`, `size` O(1); `front` and `next` O(1) amortised, O(log n) where
/// the discipline ages. `pop_front`, and `push` and `insert` at either end, O(1) amortised; elsewhere O(log n)
/// comparisons. `erase` O(1) amortised. `advance` O(1), or O(log n) for each of the at most `most_aged` requests that
/// it moves. No operation scans.
/// Allocates: never. Misuse is asserted.
///
/// A request is in at most one queue. It must stay alive and in place while it is queued. The queue itself cannot move.
/// Destroying the queue unlinks the remaining requests, O(n).
///
/// @tparam R a `schedulable` request type.
/// @tparam D a `queue_discipline` for it.
template <class R, class D>
class ordered_queue {
  static_assert(sizeof(detail::explain_queue_discipline<D, R>) != 0);

 public:
  using request_type = R;                     ///< The type of the requests.
  using discipline_type = D;                  ///< The order that is kept.
  using time_point = typename R::time_point;  ///< A moment on that clock.

  /// The most requests that one `advance` moves. It bounds the time of a plan when many are due at once: a move among
  /// 300,000 requests takes some microseconds.
  static constexpr std::size_t most_aged = 16;

  ordered_queue() noexcept
    requires std::default_initializable<D>
      : ordered_queue{D{}} {}
  /// An empty queue.
  explicit ordered_queue(const D& d) noexcept
      : discipline_{d}, order_{served_before{&discipline_}}, due_{make_due(discipline_)} {}
  ordered_queue(const ordered_queue&) = delete;
  ordered_queue& operator=(const ordered_queue&) = delete;

  /// How many there are. O(1).
  [[nodiscard]] std::size_t size() const noexcept { return order_.size(); }
  /// Whether there is none. O(1).
  [[nodiscard]] bool empty() const noexcept { return order_.empty(); }

  /// The request to serve first, at the time last told; null if the queue is empty.
  [[nodiscard]] R* front() noexcept { return empty() ? nullptr : served_at(order_.begin()); }
  /// The same, for reading. A request that is due is moved all the same, which is not observable.
  [[nodiscard]] const R* front() const noexcept { return const_cast<ordered_queue*>(this)->front(); }
  /// The last request; null if empty. O(1). (A request that is due to age keeps its place until `front` or `next` comes
  /// to its new one.)
  [[nodiscard]] R* back() noexcept { return empty() ? nullptr : &*order_.rbegin(); }
  /// The last request; null if empty. O(1). (A request that is due to age keeps its place until `front` or `next` comes
  /// to its new one.)
  [[nodiscard]] const R* back() const noexcept { return empty() ? nullptr : &*order_.rbegin(); }

  /// The request after `r`, or null. Requires: `r` is queued.
  [[nodiscard]] R* next(R& r) noexcept {
    TESSERA_ASSERT(linked(r), "the request is not queued");
    auto i = order_.iterator_to(r);
    return ++i == order_.end() ? nullptr : served_at(i);
  }

  /// Calls `f(r)` for each request, const, in queue order. Some requests that are due to age may not have been moved to
  /// the front yet. O(n).
  template <std::invocable<const R&> F>
  void for_each(F&& f) const {
    for (const R& r : order_) f(r);
  }

  /// Whether `r` is in this queue. O(log n); O(1) if it is in none.
  [[nodiscard]] bool contains(const R& r) const noexcept {
    if (!linked(r)) return false;
    const auto node = order_.iterator_to(r).pointed_node();
    return order_tree::node_algorithms::get_header(node) == order_.end().pointed_node();
  }

  /// Resets a request's state, gives it the next sequence number and its first place, and queues it. Requires: `r` is
  /// in no queue.
  void push(R& r, time_point now) noexcept {
    TESSERA_ASSERT(!linked(r), "the request is already queued");
    auto& s = request_access::state(r);
    s = typename R::state_type{};
    s.length = r.prompt;
    s.phase = r.starts_in;
    s.arrived = now;
    s.answering_since = now;
    s.sequence = ++pushed_;
    request_access::begin_order_state<D>(r);
    discipline_.enter(r, now);
    insert(r);
  }

  /// Queues a request at the place that it has: one that was preempted, or that `discipline().enter` was called for.
  /// Requires: `r` is in no queue; its `sequence` differs from those of the others.
  void insert(R& r) noexcept {
    TESSERA_ASSERT(!linked(r), "the request is already queued");
    if (order_.empty() || discipline_.before(*order_.rbegin(), r)) {
      order_.push_back(r);
    } else if (discipline_.before(r, *order_.begin())) {
      order_.push_front(r);
    } else {
      order_.insert(r);
    }
    due_.insert(r, discipline_);
  }

  /// Takes a request out, wherever it is. It keeps its place, for `insert`. Requires: `r` is in this queue.
  void erase(R& r) noexcept {
    TESSERA_ASSERT(contains(r), "the request is not queued here");
    due_.erase(r);
    order_.erase(order_.iterator_to(r));
  }

  /// Takes the first request out. Null if the queue is empty.
  R* pop_front() noexcept {
    R* const r = front();
    if (r != nullptr) erase(*r);
    return r;
  }

  /// Accounts tokens run for a queued request and gives it a new place if it is due. Returns whether it was.
  /// Requires: `r` is in this queue.
  bool charge(R& r, tokens ran) noexcept {
    TESSERA_ASSERT(linked(r), "the request is not queued");
    if (!discipline_.charge(r, ran)) return false;
    update(r, [this](R& moved) noexcept { discipline_.requeue(moved); });
    return true;
  }

  /// Calls `f(r)`, which may change what the order reads (its priority, its phase and then
  /// `discipline().change_phase`), and moves `r` to its new place. O(log n). Requires: `r` is in this queue.
  template <std::invocable<R&> F>
  void update(R& r, F&& f) noexcept {
    erase(r);
    f(r);
    insert(r);
  }

  /// Tells the time to the discipline and to ageing requests. O(1). If aged requests do not come to the front, it moves
  /// the `most_aged` earliest due ones, O(log n) each.
  void advance(time_point now) noexcept {
    discipline_.advance(now);
    now_ = now;
    if constexpr (D::ages && !detail::ages_to_front<D>) {
      due_.take_due(now, most_aged, [this](R& r) noexcept { age(r); });
    }
  }

  /// The order's parameters and counters.
  [[nodiscard]] D& discipline() noexcept { return discipline_; }
  /// The order's parameters and counters.
  [[nodiscard]] const D& discipline() const noexcept { return discipline_; }

 private:
  struct served_before {
    const D* discipline;
    bool operator()(const R& a, const R& b) const noexcept { return discipline->before(a, b); }
  };
  using order_tree = boost::intrusive::multiset<R, boost::intrusive::base_hook<detail::rank_hook>,
                                                boost::intrusive::compare<served_before>>;
  using due_set = detail::due_set<R, D, detail::ages_to_front<D>>;

  [[nodiscard]] static bool linked(const R& r) noexcept { return static_cast<const detail::rank_hook&>(r).is_linked(); }
  [[nodiscard]] static due_set make_due(const D& d) noexcept {
    if constexpr (D::ages) {
      return due_set{d};
    } else {
      return {};
    }
  }

  /// Moves a request that is due to its new place.
  void age(R& r) noexcept {
    update(r, [this](R& aged) noexcept { discipline_.age(aged); });
  }

  /// The request served at `i`: the one that stands there, unless another of its priority is due to age and goes before
  /// it. The earliest due request suffices, because due requests stand in the order in which they were due.
  [[nodiscard]] R* served_at(typename order_tree::iterator i) noexcept {
    R* const here = &*i;
    if constexpr (detail::ages_to_front<D>) {
      if (R* const due = due_.first(now_, here->priority); due != nullptr) {
        age(*due);
        if (due == here || discipline_.before(*due, *here)) return due;
      }
    }
    return here;
  }

  D discipline_;
  order_tree order_;
  [[no_unique_address]] due_set due_;
  time_point now_{};
  std::uint64_t pushed_ = 0;
};

TESSERA_NAMESPACE_END
