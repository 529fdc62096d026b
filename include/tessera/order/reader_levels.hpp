// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/boost_time.hpp>
#include <tessera/order/concepts.hpp>

#include <concepts>
#include <cstdint>

/// @file
/// What the orders that look at readers have in common: three levels, and who is on which.

TESSERA_NAMESPACE_BEGIN
namespace order {

/// The token pacer that the engine keeps in the request's member `pacer`.
struct pacer_member {
  /// Reads `r.pacer`.
  template <schedulable R>
    requires requires(const R& r) {
      { r.pacer.starves_at() } -> std::same_as<typename R::time_point>;
    }
  [[nodiscard]] typename R::time_point operator()(const R& r) const noexcept {
    return r.pacer.starves_at();
  }
};

/// Says when the reader of a request's answer runs dry if nothing more comes; `never()` before the first answering
/// token.
/// Requires: (1) copyable; (2) `f(r) noexcept` is an `R::time_point`.
/// Not checked: it is up to date with the tokens of a step when the step is committed. Complexity: called once per
/// slice and request. Models: `order::pacer_member`.
template <class F, class R>
concept reader_deadline = std::copyable<F> && schedulable<R> && requires(const F& f, const R& r) {
  { f(r) } noexcept -> std::same_as<typename R::time_point>;
};

/// What `paced` and `earliest_due` keep about each request.
template <clock_policy Clock>
struct reader_place {
  std::uint64_t turn = 0;  ///< Place of one that has no reader yet.
  tokens quantum_used{};   ///< Tokens generated since it took its place.
  /// When its reader must be looked after; of one without a reader, until when `earliest_due` holds it.
  basic_time_point<Clock> urgent_at = basic_time_point<Clock>::never();
  std::uint8_t level = 0;  ///< 0: urgent; 1: no reader yet; 2: calm.
  bool begun = false;      ///< Whether it has been served; kept by `earliest_due` alone, in what would be padding.
};

namespace detail {

inline constexpr std::uint8_t urgent = 0;  // answers whose reader runs dry: the level to which they age
inline constexpr std::uint8_t unread = 1;  // what has no reader yet
inline constexpr std::uint8_t calm = 2;    // answers whose reader has enough

// For an order `D` whose `state` is a `reader_place`:

/// When a request ages: a calm one becomes urgent, and one without a reader has been held for long enough. `never()` if
/// it is urgent, or is not held.
template <class D, schedulable R>
[[nodiscard]] typename R::time_point due_by_level(const R& r) noexcept {
  const auto& s = order_state<D>(r);
  return s.level == urgent ? R::time_point::never() : s.urgent_at;
}

/// By priority, then level; on it the unread ones by `turn`, the others by the time at which they become urgent; then
/// by arrival.
template <class D, schedulable R>
[[nodiscard]] bool before_by_level(const R& a, const R& b) noexcept {
  if (a.priority != b.priority) return a.priority > b.priority;
  const auto& s = order_state<D>(a);
  const auto& t = order_state<D>(b);
  if (s.level != t.level) return s.level < t.level;
  if (s.level == unread) {
    if (s.turn != t.turn) return s.turn < t.turn;
  } else if (s.urgent_at != t.urgent_at) {
    return s.urgent_at < t.urgent_at;
  }
  return a.state().sequence < b.state().sequence;
}

/// A new place. An answer is calm until its time comes; if that is now, as for one that has reasoned and has no token
/// for its reader yet, it is urgent before the next plan looks at it.
template <class D, schedulable R, reader_deadline<R> Deadline>
void place_by_reader(R& r, bool is_read, const Deadline& deadline, duration margin) noexcept {
  using time_point = typename R::time_point;
  auto& s = request_access::order_state<D>(r);
  s.quantum_used = tokens{};
  if (!is_read) {
    s.level = unread;
    s.urgent_at = time_point::never();
    return;
  }
  const time_point dry = deadline(static_cast<const R&>(r));
  s.level = calm;
  s.urgent_at = dry == time_point::never() ? r.state().answering_since : moved_by(dry, -margin.seconds());
}

}  // namespace detail
}  // namespace order
TESSERA_NAMESPACE_END
