// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/order/concepts.hpp>

#include <boost/intrusive/set.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <type_traits>

/// @file
/// Waiting requests by class: one queue per class, all in the order of one discipline.

TESSERA_NAMESPACE_BEGIN

/// The waiting requests of a scheduler with a gate that sees classes of requests (adapters, tenants). A plan goes
/// through them in the order of the discipline and can close or defer a class. It then meets no other request of that
/// class. So a plan looks at the requests that it starts and at one request of each class, however many wait.
///
/// One tree holds all requests by (class, rank), linked through their own hooks. The first request of each class is
/// also in an array sorted by rank, from the scheduler's storage.
///
/// Where the discipline ages, a request that is due moves when a plan comes to its new place in its class. If requests
/// that age do not come to the front (`D::ages_to_front`), `advance` moves the first `most_aged` that are due. If they
/// do, `front` and `line` move the first due request of at most `most_aged` classes, the earliest due first. The other
/// classes keep their order until a later time is told.
///
/// Complexity, with n requests of c classes: `size` O(1). `insert`, `erase`: O(log n), and a move of at most c pointers
/// if the first request of a class changes. `front` and `line`: O(1), or O(c + most_aged log n) where the discipline
/// ages and something has changed.
/// A step of `line`: O(log n) and a move of at most c pointers. `advance`: O(1), or O(log n) for each request that it
/// moves. Allocates: never. Misuse is asserted.
///
/// A request is in at most one queue. It must stay alive and in place while it is queued. Destroying the queue unlinks
/// the remaining requests, O(n).
///
/// @tparam R       a `schedulable` request type.
/// @tparam D       a `queue_discipline` for it.
/// @tparam Classes `std::uint64_t class_of(const R&) const noexcept`, constant while a request is queued.
template <class R, class D, class Classes>
class class_queue {
  static_assert(sizeof(detail::explain_queue_discipline<D, R>) != 0);

 public:
  using request_type = R;                     ///< The type of the requests.
  using discipline_type = D;                  ///< The order that is kept.
  using time_point = typename R::time_point;  ///< A moment on that clock.

  /// The most requests that one `advance` moves if aged requests do not come to the front, as in `ordered_queue`.
  /// Otherwise the most classes that change their first request in one `front` or `line`.
  static constexpr std::size_t most_aged = 16;

  /// Bytes taken from an `arena`.
  [[nodiscard]] static constexpr std::size_t required_bytes(std::size_t capacity) noexcept {
    return 2 * fixed_vector<R*>::required_bytes(capacity) +
           fixed_vector<time_point>::required_bytes(room_for_due(capacity));
  }

  /// An empty queue of at most `capacity` requests. `classes` must outlive it.
  class_queue(arena& memory, std::size_t capacity, const D& d, const Classes& classes) noexcept
      : discipline_{d},
        classes_{&classes},
        order_{by_class{this}},
        heads_{memory, capacity},
        line_{memory, capacity},
        due_heads_{memory, room_for_due(capacity)},
        due_{make_due(this)} {}
  class_queue(const class_queue&) = delete;
  class_queue& operator=(const class_queue&) = delete;

  /// How many there are. O(1).
  [[nodiscard]] std::size_t size() const noexcept { return order_.size(); }
  /// Whether there is none. O(1).
  [[nodiscard]] bool empty() const noexcept { return order_.empty(); }
  /// The number of classes that have requests. O(1).
  [[nodiscard]] std::size_t classes() const noexcept { return heads_.size(); }

  /// The request to serve first, at the time last told; null if the queue is empty.
  [[nodiscard]] R* front() noexcept {
    find_heads();
    return heads_.empty() ? nullptr : heads_[0];
  }
  /// The same, for reading. A request that is due is moved all the same, which is not observable.
  [[nodiscard]] const R* front() const noexcept { return const_cast<class_queue*>(this)->front(); }

  /// Whether `r` is in this queue. O(log n); O(1) if it is in none.
  [[nodiscard]] bool contains(const R& r) const noexcept {
    if (!linked(r)) return false;
    const auto node = order_.iterator_to(r).pointed_node();
    return tree::node_algorithms::get_header(node) == order_.end().pointed_node();
  }

  /// Queues a request at the place that it has, or that `discipline().enter` gave it. Requires: `r` is in no queue.
  void insert(R& r) noexcept {
    TESSERA_ASSERT(!linked(r), "the request is already queued");
    const auto i = order_.insert(r);
    if (i == order_.begin() || !same_class(*std::prev(i), r)) {
      if (const auto j = std::next(i); j != order_.end() && same_class(*j, r) && j->state().leads) drop_head(*j);
      due_.insert(*this, r);
      add_head(r);
    } else {
      due_.insert(*this, r);
      if constexpr (detail::ages_to_front<D>) {
        R& head = head_of(r);
        time_point& due = due_heads_[place_of(heads_, head, 0)];
        if (head.priority == r.priority) due = std::min(due, discipline_.due_at(r));
        is_behind_ = is_behind_ || !(now_ < due);
      }
    }
  }

  /// Takes a request out, wherever it is. It keeps its place, for `insert`. Requires: `r` is in this queue.
  void erase(R& r) noexcept {
    TESSERA_ASSERT(contains(r), "the request is not queued here");
    due_.erase(r);
    const auto i = order_.erase(order_.iterator_to(r));
    if (!r.state().leads) return;
    drop_head(r);
    if (i != order_.end() && same_class(*i, r) && !i->state().leads) add_head(*i);
  }

  /// Calls `f(r)`, which may change what the order reads, and moves `r` to its new place. The class must stay as it is.
  /// O(log n). Requires: `r` is in this queue.
  template <std::invocable<R&> F>
  void update(R& r, F&& f) noexcept {
    erase(r);
    f(r);
    insert(r);
  }

  /// Tells the time to the discipline and to ageing requests. O(1), or O(log n) for each request that it moves.
  void advance(time_point now) noexcept {
    discipline_.advance(now);
    now_ = now;
    is_current_ = false;
    if constexpr (D::ages && !detail::ages_to_front<D>) {
      for (std::size_t n = 0; n != most_aged && !due_.tree.empty(); ++n) {
        R& r = *due_.tree.begin();
        if (now < discipline_.due_at(r)) return;
        age(r);
      }
    }
  }

  /// Calls `f(r)` for each request, const, in the order in which they are served. O(n (log n + c)). Not while a plan is
  /// being made.
  template <std::invocable<const R&> F>
  void for_each(F&& f) const {
    line all{const_cast<class_queue&>(*this)};  // requests that are due move, which is not observable
    for (const R* r = all.first(); r != nullptr; r = all.take()) f(*r);
  }

  /// The order's parameters and counters.
  [[nodiscard]] D& discipline() noexcept { return discipline_; }
  /// The order's parameters and counters.
  [[nodiscard]] const D& discipline() const noexcept { return discipline_; }

  /// Walks through the queue as a plan does: the next request of each open class, in the order of the discipline. At
  /// most one walk at a time. The queue must not change meanwhile, except by ageing.
  class line {
   public:
    /// Over `q`, which must outlive it.
    explicit line(class_queue& q) noexcept : q_{&q} {
      q.find_heads();
      q.line_.clear();
    }

    /// The first request, or null.
    [[nodiscard]] R* first() noexcept { return here(); }
    /// Takes the present request; the one behind it in its class may follow. Returns the next, or null.
    [[nodiscard]] R* take() noexcept {
      auto& met = q_->line_;
      R* const follows = q_->successor(*met[at_]);
      if (follows == nullptr) return close();
      const std::size_t to = q_->place_of(met, *follows, at_ + 1);
      std::memmove(met.begin() + at_, met.begin() + at_ + 1, (to - at_ - 1) * sizeof(R*));
      met[to - 1] = follows;
      return here();
    }
    /// Closes the class of the present request: no other of it comes. Returns the next, or null.
    [[nodiscard]] R* close() noexcept {
      erase_at(q_->line_, at_);
      return here();
    }
    /// Defers the class of the present request: no other of it comes, unless `go_to` goes back. Returns the next, or
    /// null.
    [[nodiscard]] R* defer() noexcept {
      ++at_;
      return here();
    }

    /// The number of deferred classes. They stand before the present request.
    [[nodiscard]] std::size_t place() const noexcept { return at_; }
    /// The request at which a class was deferred.
    [[nodiscard]] const R& operator[](std::size_t place) const noexcept { return *q_->line_[place]; }
    /// Goes back to a place: from there on classes are open again. Returns the request there.
    [[nodiscard]] R* go_to(std::size_t place) noexcept {
      at_ = place;
      return here();
    }

   private:
    /// The present request. First requests of classes are fetched when their turn comes.
    [[nodiscard]] R* here() noexcept {
      auto& met = q_->line_;
      const auto& heads = q_->heads_;
      while (fetched_ != heads.size() && (at_ == met.size() || q_->discipline_.before(*heads[fetched_], *met[at_]))) {
        insert_at(met, at_, heads[fetched_++]);
      }
      return at_ == met.size() ? nullptr : met[at_];
    }

    class_queue* q_;
    std::size_t at_ = 0;
    std::size_t fetched_ = 0;  ///< The number of first requests that are in the array.
  };

 private:
  struct by_class {
    const class_queue* q;
    bool operator()(const R& a, const R& b) const noexcept {
      const std::uint64_t c = q->classes_->class_of(a);
      const std::uint64_t d = q->classes_->class_of(b);
      return c != d ? c < d : q->discipline_.before(a, b);
    }
  };
  using tree = boost::intrusive::multiset<R, boost::intrusive::base_hook<detail::rank_hook>,
                                          boost::intrusive::compare<by_class>>;

  /// Requests that have yet to age: by class, priority and time, or by time alone where they do not come to the front.
  struct sooner {
    const class_queue* q;
    bool operator()(const R& a, const R& b) const noexcept {
      if constexpr (detail::ages_to_front<D>) {
        const std::uint64_t c = q->classes_->class_of(a);
        const std::uint64_t d = q->classes_->class_of(b);
        if (c != d) return c < d;
        if (a.priority != b.priority) return a.priority > b.priority;
      }
      const time_point due_a = q->discipline_.due_at(a);
      const time_point due_b = q->discipline_.due_at(b);
      return due_a != due_b ? due_a < due_b : a.state().sequence < b.state().sequence;
    }
  };
  struct no_due {
    void insert(const class_queue&, R&) noexcept {}
    void erase(R&) noexcept {}
  };
  struct due_tree {
    using type =
        boost::intrusive::multiset<R, boost::intrusive::base_hook<detail::due_hook>, boost::intrusive::compare<sooner>,
                                   boost::intrusive::constant_time_size<false>>;
    type tree;
    void insert(const class_queue& q, R& r) noexcept {
      if (q.discipline_.due_at(r) != time_point::never()) tree.insert(r);
    }
    void erase(R& r) noexcept {
      if (static_cast<const detail::due_hook&>(r).is_linked()) tree.erase(tree.iterator_to(r));
    }
  };
  using due_set = std::conditional_t<D::ages, due_tree, no_due>;

  [[nodiscard]] static due_set make_due(const class_queue* q) noexcept {
    if constexpr (D::ages) {
      return due_tree{typename due_tree::type{sooner{q}}};
    } else {
      static_cast<void>(q);
      return {};
    }
  }
  [[nodiscard]] static constexpr std::size_t room_for_due(std::size_t capacity) noexcept {
    return detail::ages_to_front<D> ? capacity : 0;
  }
  [[nodiscard]] static bool linked(const R& r) noexcept { return static_cast<const detail::rank_hook&>(r).is_linked(); }
  [[nodiscard]] bool same_class(const R& a, const R& b) const noexcept {
    return classes_->class_of(a) == classes_->class_of(b);
  }

  /// Moves a request that is due to its new place.
  void age(R& r) noexcept {
    update(r, [this](R& aged) noexcept { discipline_.age(aged); });
  }
  /// The earliest due request of the class and priority of `like`, if it is due now; else null.
  [[nodiscard]] R* due_first(const R& like) noexcept {
    R* const next = next_to_age(like);
    return next == nullptr || now_ < discipline_.due_at(*next) ? nullptr : next;
  }
  /// The request of the class and priority of `like` that ages first; null if there is none.
  [[nodiscard]] R* next_to_age(const R& like) noexcept {
    struct kind {
      std::uint64_t its_class;
      int priority;
    };
    const kind key{classes_->class_of(like), like.priority};
    const auto i = due_.tree.lower_bound(key, [this](const auto& a, const auto& b) noexcept {
      const auto kind_of = [this]<class T>(const T& t) noexcept {
        if constexpr (std::same_as<T, kind>) {
          return t;
        } else {
          return kind{classes_->class_of(t), t.priority};
        }
      };
      const kind x = kind_of(a);
      const kind y = kind_of(b);
      return x.its_class != y.its_class ? x.its_class < y.its_class : x.priority > y.priority;
    });
    return i != due_.tree.end() && i->priority == like.priority && same_class(*i, like) ? &*i : nullptr;
  }
  /// Each class may have due requests of the same priority as its first request. The earliest of them becomes the first
  /// of the class. This is done for the `most_aged` classes that were due first.
  void find_heads() noexcept {
    if constexpr (detail::ages_to_front<D>) {
      if (is_current_) return;
      struct late {
        R* head;
        time_point due;
      };
      std::array<late, most_aged> first{};
      std::size_t n = 0;
      bool are_more = false;
      for (std::size_t i = 0; i != heads_.size(); ++i) {
        const time_point due = due_heads_[i];
        if (now_ < due) continue;
        are_more = are_more || n == most_aged;
        if (n == most_aged && !(due < first[n - 1].due)) continue;
        std::size_t at = n == most_aged ? n - 1 : n++;
        for (; at != 0 && due < first[at - 1].due; --at) first[at] = first[at - 1];
        first[at] = {heads_[i], due};
      }
      for (const late& l : std::span{first}.first(n)) {
        if (R* const due = due_first(*l.head); due != nullptr) age(*due);
        // The other due requests of its class stand behind it, and requests that become due later stand behind these.
        R& head = head_of(*l.head);
        const bool has_aged = discipline_.due_at(head) == time_point::never();
        due_heads_[place_of(heads_, head, 0)] = has_aged ? time_point::never() : due_after(head);
      }
      is_behind_ = are_more;
      is_current_ = true;
    }
  }
  /// The first request of the class of `r`.
  [[nodiscard]] R& head_of(const R& r) noexcept {
    const std::uint64_t its_class = classes_->class_of(r);
    const auto is_before = [this](const R& a, std::uint64_t c) noexcept { return classes_->class_of(a) < c; };
    return *order_.lower_bound(its_class, is_before);
  }
  /// When the first request of the class and priority of `r` is due; `never()` if none has yet to age.
  [[nodiscard]] time_point due_after(const R& r) noexcept {
    const R* const next = next_to_age(r);
    return next == nullptr ? time_point::never() : discipline_.due_at(*next);
  }
  /// The request behind `r` in its class, or null. If others of its priority are due to age, the first of these goes to
  /// its place before, as in `ordered_queue`.
  [[nodiscard]] R* successor(R& r) noexcept {
    const auto i = std::next(order_.iterator_to(r));
    if (i == order_.end() || !same_class(*i, r)) return nullptr;
    R* const here = &*i;
    if constexpr (detail::ages_to_front<D>) {
      // A class with a first request that is yet to change keeps its order: a due request would come before `r`.
      if (is_behind_ && !(now_ < due_heads_[place_of(heads_, head_of(r), 0)])) return here;
      if (R* const due = due_first(*here); due != nullptr) {
        age(*due);
        if (due == here || discipline_.before(*due, *here)) return due;
      }
    }
    return here;
  }

  /// The first place from `from` on at which the request is not before `r`.
  [[nodiscard]] std::size_t place_of(const fixed_vector<R*>& all, const R& r, std::size_t from) const noexcept {
    std::size_t high = all.size();
    while (from < high) {
      const std::size_t middle = from + (high - from) / 2;
      if (discipline_.before(*all[middle], r)) {
        from = middle + 1;
      } else {
        high = middle;
      }
    }
    return from;
  }
  template <class T>
  static void insert_at(fixed_vector<T>& all, std::size_t at, T r) noexcept {
    static_cast<void>(all.extend(1));
    std::memmove(all.begin() + at + 1, all.begin() + at, (all.size() - 1 - at) * sizeof(T));
    all[at] = r;
  }
  template <class T>
  static void erase_at(fixed_vector<T>& all, std::size_t at) noexcept {
    std::memmove(all.begin() + at, all.begin() + at + 1, (all.size() - 1 - at) * sizeof(T));
    all.pop_back();
  }
  void add_head(R& r) noexcept {
    const std::size_t at = place_of(heads_, r, 0);
    insert_at(heads_, at, &r);
    if constexpr (detail::ages_to_front<D>) {
      insert_at(due_heads_, at, due_after(r));
      is_behind_ = is_behind_ || !(now_ < due_heads_[at]);
    }
    request_access::state(r).leads = true;
  }
  void drop_head(R& r) noexcept {
    std::size_t at = place_of(heads_, r, 0);
    if (at == heads_.size() || heads_[at] != &r) [[unlikely]] {
      TESSERA_ASSERT(false, "what the order looks at changed outside `update`, or the class did");
      for (at = 0; at != heads_.size() && heads_[at] != &r;) ++at;
      if (at == heads_.size()) return;
    }
    erase_at(heads_, at);
    if constexpr (detail::ages_to_front<D>) erase_at(due_heads_, at);
    request_access::state(r).leads = false;
  }

  D discipline_;
  const Classes* classes_;
  tree order_;
  fixed_vector<R*> heads_;  ///< The first request of each class, in order.
  fixed_vector<R*> line_;   ///< For `line`: one request of each class that has been looked at, in order.
  /// Where requests age to the front: when another request of the priority of the first one is due to come before it.
  fixed_vector<time_point> due_heads_;
  [[no_unique_address]] due_set due_;
  time_point now_{};
  bool is_current_ = false;  ///< `find_heads` has run since the time was told: calls between two plans change nothing.
  bool is_behind_ = false;   ///< There may be classes with a first request that is yet to change.
};

TESSERA_NAMESPACE_END
