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
/// Used by itself, `push` and `pop_front` are all it takes. Used by a scheduler, which also holds requests elsewhere
/// and gives them their places through `discipline()`, `insert` and `erase` move them in and out, places untouched.
///
/// Complexity, in the number of queued requests: `front`, `back`, `size` O(1); `push` and `insert` at either end, and
/// `pop_front`, O(1) amortised, elsewhere O(log n) comparisons; `erase` O(1) amortised; `advance` O(1) when nobody is
/// due, and O(log n) for each who is. No operation scans. Allocates: never. Misuse is asserted.
///
/// A request is in at most one queue. It must outlive its stay, and the queue must not move meanwhile: it cannot.
/// Destroying the queue unlinks what is left, O(n).
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

  ordered_queue() noexcept = default;
  /// An empty queue.
  explicit ordered_queue(D d) noexcept : discipline_{d} {}
  ordered_queue(const ordered_queue&) = delete;
  ordered_queue& operator=(const ordered_queue&) = delete;

  /// How many there are. O(1).
  [[nodiscard]] std::size_t size() const noexcept { return order_.size(); }
  /// Whether there is none. O(1).
  [[nodiscard]] bool empty() const noexcept { return order_.empty(); }

  /// The request to serve first, or last; null if the queue is empty. O(1).
  [[nodiscard]] R* front() noexcept { return empty() ? nullptr : &*order_.begin(); }
  /// Who is served first; null if empty. O(1).
  [[nodiscard]] const R* front() const noexcept { return empty() ? nullptr : &*order_.begin(); }
  /// Who is served last; null if empty. O(1).
  [[nodiscard]] R* back() noexcept { return empty() ? nullptr : &*order_.rbegin(); }
  /// Who is served last; null if empty. O(1).
  [[nodiscard]] const R* back() const noexcept { return empty() ? nullptr : &*order_.rbegin(); }

  /// The request after `r`, or null. O(1) amortised over a walk. Requires: `r` is queued.
  [[nodiscard]] R* next(R& r) noexcept {
    TESSERA_ASSERT(linked(r), "the request is not queued");
    auto i = order_.iterator_to(r);
    return ++i == order_.end() ? nullptr : &*i;
  }
  /// Who is served after `r`; null after the last. O(1) amortised.
  [[nodiscard]] const R* next(const R& r) const noexcept {
    TESSERA_ASSERT(linked(r), "the request is not queued");
    auto i = order_.iterator_to(r);
    return ++i == order_.end() ? nullptr : &*i;
  }

  /// Whether `r` is in this queue. O(log n); O(1) if it is in none.
  [[nodiscard]] bool contains(const R& r) const noexcept {
    if (!linked(r)) return false;
    const auto node = order_.iterator_to(r).pointed_node();
    return order_tree::node_algorithms::get_header(node) == order_.end().pointed_node();
  }

  /// Starts a request anew and queues it: its state is reset, it gets the next sequence number and its first place.
  /// Requires: `r` is in no queue.
  void push(R& r, time_point now) noexcept {
    TESSERA_ASSERT(!linked(r), "the request is already queued");
    auto& s = request_access::state(r);
    s = typename R::state_type{};
    s.length = r.prompt;
    s.phase = r.starts_in;
    s.arrived = now;
    s.answering_since = now;
    s.sequence = ++pushed_;
    discipline_.enter(r, now);
    insert(r);
  }

  /// Queues a request at the place that it has: one that was preempted, or that `discipline().enter` was called for.
  /// Requires: `r` is in no queue; its `sequence` differs from those of the others.
  void insert(R& r) noexcept {
    TESSERA_ASSERT(!linked(r), "the request is already queued");
    if (order_.empty() || D::before(*order_.rbegin(), r)) {
      order_.push_back(r);
    } else if (D::before(r, *order_.begin())) {
      order_.push_front(r);
    } else {
      order_.insert(r);
    }
    due_.insert(r);
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

  /// Calls `f(r)`, which may change what the order looks at (its priority, its phase and then
  /// `discipline().change_phase`), and moves `r` to where it then belongs. O(log n). Requires: `r` is in this queue.
  template <std::invocable<R&> F>
  void update(R& r, F&& f) noexcept {
    erase(r);
    f(r);
    insert(r);
  }

  /// Lets `now` come: requests whose `boost_at` is not later are boosted. Nothing to do unless the discipline ages.
  void advance(time_point now) noexcept {
    while (R* const r = due_.first(now)) {
      update(*r, [](R& boosted) noexcept { request_access::state(boosted).level = 0; });
    }
  }

  /// The order's parameters and counters.
  [[nodiscard]] D& discipline() noexcept { return discipline_; }
  /// The order's parameters and counters.
  [[nodiscard]] const D& discipline() const noexcept { return discipline_; }

 private:
  struct served_before {
    bool operator()(const R& a, const R& b) const noexcept { return D::before(a, b); }
  };
  using order_tree = boost::intrusive::multiset<R, boost::intrusive::base_hook<detail::rank_hook>,
                                                boost::intrusive::compare<served_before>>;

  [[nodiscard]] static bool linked(const R& r) noexcept { return static_cast<const detail::rank_hook&>(r).is_linked(); }

  order_tree order_;
  [[no_unique_address]] detail::due_set<R, D> due_;
  [[no_unique_address]] D discipline_{};
  std::uint64_t pushed_ = 0;
};

TESSERA_NAMESPACE_END
