// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/request/concepts.hpp>

#include <boost/intrusive/set.hpp>

#include <type_traits>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The requests of one container that ageing will boost, the earliest first, linked through their own hooks; of an
/// order `D` that does not age, nothing. A request is in at most one. `insert` and `first` O(1) amortised if requests
/// come in the order in which they will be due, else O(log n); `erase` O(1) amortised. Allocates: never.
template <class R, class D>
class due_set {
 public:
  /// Does nothing for a request that is boosted already, or never will be.
  void insert(R& r) noexcept {
    if constexpr (D::ages) {
      const auto& s = r.state();
      if (s.level != 0 && s.boost_at != R::time_point::never()) tree_.insert(tree_.end(), r);
    } else {
      static_cast<void>(r);
    }
  }

  /// Requires: if `r` is in a set, it is in this one.
  void erase(R& r) noexcept {
    if constexpr (D::ages) {
      if (static_cast<const boost_hook&>(r).is_linked()) tree_.erase(tree_.iterator_to(r));
    } else {
      static_cast<void>(r);
    }
  }

  /// The first whose `boost_at` is not later than `now`; null if there is none.
  [[nodiscard]] R* first(typename R::time_point now) noexcept {
    if constexpr (D::ages) {
      return tree_.empty() || now < tree_.begin()->state().boost_at ? nullptr : &*tree_.begin();
    } else {
      static_cast<void>(now);
      return nullptr;
    }
  }

 private:
  struct earlier {
    bool operator()(const R& a, const R& b) const noexcept { return a.state().boost_at < b.state().boost_at; }
  };
  using tree =
      boost::intrusive::multiset<R, boost::intrusive::base_hook<boost_hook>, boost::intrusive::compare<earlier>,
                                 boost::intrusive::constant_time_size<false>>;
  struct nothing {};

  [[no_unique_address]] std::conditional_t<D::ages, tree, nothing> tree_;
};

}  // namespace detail
TESSERA_NAMESPACE_END
