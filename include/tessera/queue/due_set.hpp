// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/request/concepts.hpp>

#include <boost/intrusive/set.hpp>

#include <cstddef>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The requests of one container that have yet to age, linked through their own hooks. Empty for an order `D` that does
/// not age. A request is in at most one set. All operations O(log n); `insert` and `erase` are O(1) amortised if
/// requests come in the order in which they will be due. Allocates: never.
/// @tparam ByPriority how the set is sorted. True: by priority, then by due time, so that `first` finds the earliest of
///                    one priority. False: by due time alone, so that `take_due` costs nothing for what is not due,
///                    however many priorities occur.
template <class R, class D, bool ByPriority>
class due_set {
 public:
  void insert(R&, const D&) noexcept {}
  void erase(R&) noexcept {}
};

template <class R, class D, bool ByPriority>
  requires D::ages
class due_set<R, D, ByPriority> {
  using time_point = typename R::time_point;
  struct sooner {
    const D* order;
    [[nodiscard]] bool operator()(const R& a, const R& b) const noexcept {
      if constexpr (ByPriority) {
        if (a.priority != b.priority) return a.priority > b.priority;
      }
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

  /// The request of a priority that is due first, if it is due now; else null.
  [[nodiscard]] R* first(time_point now, int priority) noexcept
    requires ByPriority
  {
    auto i = tree_.begin();
    if (i != tree_.end() && i->priority > priority) {
      i = tree_.lower_bound(priority, [](const auto& a, const auto& b) noexcept { return level(a) > level(b); });
    }
    return i != tree_.end() && i->priority == priority && !(now < tree_.key_comp().order->due_at(*i)) ? &*i : nullptr;
  }

  /// Takes the `most` earliest due requests out of the set, if they are due now. Calls `f(r)` for each, which may
  /// insert it again. O(log n) for each; O(1) if none is due.
  template <class F>
  void take_due(time_point now, std::size_t most, F&& f) noexcept
    requires(!ByPriority)
  {
    const D& order = *tree_.key_comp().order;
    for (; most != 0 && !tree_.empty() && !(now < order.due_at(*tree_.begin())); --most) {
      R& r = *tree_.begin();
      tree_.erase(tree_.begin());
      f(r);
    }
  }

 private:
  static int level(int priority) noexcept { return priority; }
  static int level(const R& r) noexcept { return r.priority; }

  tree tree_;
};

}  // namespace detail
TESSERA_NAMESPACE_END
