// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/request/concepts.hpp>

#include <boost/intrusive/set.hpp>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The requests of one container that have yet to age, by priority and then by when they are due, linked through their
/// own hooks; of an order `D` that does not age, nothing. A request is in at most one. All O(log n), `insert` and
/// `erase` O(1) amortised if requests of one priority come in the order in which they will be due. Allocates: never.
template <class R, class D>
class due_set {
 public:
  void insert(R&, const D&) noexcept {}
  void erase(R&) noexcept {}
  [[nodiscard]] static R* first(typename R::time_point, int) noexcept { return nullptr; }
  template <class F>
  static void take_due(typename R::time_point, F&&) noexcept {}
};

template <class R, class D>
  requires D::ages
class due_set<R, D> {
  using time_point = typename R::time_point;
  struct sooner {
    const D* order;
    [[nodiscard]] bool operator()(const R& a, const R& b) const noexcept {
      if (a.priority != b.priority) return a.priority > b.priority;
      const time_point due_a = order->due_at(a);
      const time_point due_b = order->due_at(b);
      return due_a != due_b ? due_a < due_b : a.state().sequence < b.state().sequence;
    }
  };
  using tree = boost::intrusive::multiset<R, boost::intrusive::base_hook<due_hook>, boost::intrusive::compare<sooner>,
                                          boost::intrusive::constant_time_size<false>>;

 public:
  /// `order` must outlive it.
  explicit due_set(const D& order) noexcept : tree_{sooner{&order}} {}

  /// Does nothing for a request that will not age.
  void insert(R& r, const D& order) noexcept {
    if (order.due_at(r) != time_point::never()) tree_.insert(tree_.end(), r);
  }
  /// Requires: if `r` is in a set, it is in this one.
  void erase(R& r) noexcept {
    if (static_cast<const due_hook&>(r).is_linked()) tree_.erase(tree_.iterator_to(r));
  }

  /// Of the requests of a priority, the one that is due first, if it is due now; else null.
  [[nodiscard]] R* first(time_point now, int priority) noexcept {
    return const_cast<R*>(static_cast<const due_set*>(this)->first(now, priority));
  }
  [[nodiscard]] const R* first(time_point now, int priority) const noexcept {
    auto i = tree_.begin();
    if (i != tree_.end() && i->priority > priority) {
      i = tree_.lower_bound(priority, [](const auto& a, const auto& b) noexcept { return level(a) > level(b); });
    }
    return i != tree_.end() && i->priority == priority && !(now < tree_.key_comp().order->due_at(*i)) ? &*i : nullptr;
  }

  /// Takes everybody out who is due now, by priority and then by when, and calls `f(r)`. O(log n) for each who is and
  /// for each priority that occurs.
  template <class F>
  void take_due(time_point now, F&& f) noexcept {
    const D& order = *tree_.key_comp().order;
    for (auto i = tree_.begin(); i != tree_.end();) {
      if (now < order.due_at(*i)) {
        i = tree_.upper_bound(i->priority, [](const auto& a, const auto& b) noexcept { return level(a) > level(b); });
      } else {
        R& r = *i;
        i = tree_.erase(i);
        f(r);
      }
    }
  }

 private:
  static int level(int priority) noexcept { return priority; }
  static int level(const R& r) noexcept { return r.priority; }

  tree tree_;
};

}  // namespace detail
TESSERA_NAMESPACE_END
