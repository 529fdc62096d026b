// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/boost_time.hpp>
#include <tessera/order/concepts.hpp>

#include <concepts>
#include <cstdint>

/// @file
/// The common part of the orders that look at readers: three levels, and the rule for a request's level.

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

/// Says when the reader of a request's answer runs dry if no more tokens come; `never()` before the first answering
/// token.
/// Requires: (1) copyable; (2) `f(r) noexcept` is an `R::time_point`.
/// Not checked: it is up to date with the tokens of a step when the step is committed. Complexity: called once per
/// slice and request. Models: `order::pacer_member`.
template <class F, class R>
concept reader_deadline = std::copyable<F> && schedulable<R> && requires(const F& f, const R& r) {
  { f(r) } noexcept -> std::same_as<typename R::time_point>;
};

/// The order of urgent requests on level 0.
enum class urgent_lane : std::uint8_t {
  stalled,   ///< Has generated tokens, and then none for the order's `patience`.
  reader,    ///< Its reader runs dry, or has no token yet though the reasoning has ended.
  newcomer,  ///< Has not generated anything.
};

/// The state that `paced` and `earliest_due` keep about each request.
template <clock_policy Clock>
struct reader_place {
  std::uint64_t turn = 0;  ///< Place of a request without a reader.
  tokens quantum_used{};   ///< Tokens generated since it took its place.
  /// When its reader must be served. For a request without a reader: the end of its hold (`earliest_due`). On level 0:
  /// the sort key within the lane.
  basic_time_point<Clock> urgent_at = basic_time_point<Clock>::never();
  /// For a request without a reader: when the order checks whether it got a token.
  basic_time_point<Clock> look_at = basic_time_point<Clock>::never();
  std::uint8_t level = 0;                    ///< 0: urgent. 1: no reader yet. 2: calm.
  urgent_lane lane = urgent_lane::newcomer;  ///< On level 0.
  bool served = false;                       ///< Whether it got a token since the last check, or since it took its
                                             ///< place.
  bool begun = false;  ///< Whether it has been served. Used by `earliest_due` only; it fills padding.
};

namespace detail {

inline constexpr std::uint8_t urgent = 0;  // the level to which requests age
inline constexpr std::uint8_t unread = 1;  // requests without a reader
inline constexpr std::uint8_t calm = 2;    // answers with enough buffered for their readers

// For an order `D` with a `reader_place` as its `state`. On the unread level, a request without tokens waits by its
// order for `patience`. It then comes next after the readers, in the order in which this happened. A request with
// tokens is checked every `patience`. If it got none since the last check, it is next of all, for a slice. So it gets a
// token within two of these times, plus the time for requests that stalled before it.

/// When a request ages: a calm one becomes urgent; one without a reader ends its hold, or is to be checked. `never()`
/// if it is urgent.
template <class D, schedulable R>
[[nodiscard]] typename R::time_point due_by_level(const R& r) noexcept {
  const auto& s = order_state<D>(r);
  if (s.level == urgent) return R::time_point::never();
  return s.level == unread && s.look_at < s.urgent_at ? s.look_at : s.urgent_at;
}

/// Ages a calm request, or checks one without a reader. False: it was due for something else.
/// @param now the time last told, in seconds.
template <class D, schedulable R>
[[nodiscard]] bool age_by_level(R& r, duration patience, double now) noexcept {
  auto& s = request_access::order_state<D>(r);
  const bool has_begun = r.generated() > tokens{};
  if (s.level == calm) {
    s.level = urgent;
    s.lane = has_begun ? urgent_lane::reader : urgent_lane::newcomer;
    return true;
  }
  if (!(s.look_at < s.urgent_at)) return false;
  if (has_begun && s.served) {
    s.served = false;
    s.look_at = moved_by(typename R::time_point{}, now + patience.seconds());
    return true;
  }
  s.level = urgent;
  s.lane = has_begun ? urgent_lane::stalled : urgent_lane::newcomer;
  s.urgent_at = s.look_at;
  s.quantum_used = tokens{};
  return true;
}

/// By priority, then level, then within the level, then arrival. Within a level: unread requests by `turn`; urgent ones
/// by lane, then by `urgent_at`. Calm ones by `urgent_at`.
template <class D, schedulable R>
[[nodiscard]] bool before_by_level(const R& a, const R& b) noexcept {
  if (a.priority != b.priority) return a.priority > b.priority;
  const auto& s = order_state<D>(a);
  const auto& t = order_state<D>(b);
  if (s.level != t.level) return s.level < t.level;
  if (s.level == unread) {
    if (s.turn != t.turn) return s.turn < t.turn;
  } else {
    if (s.level == urgent && s.lane != t.lane) return s.lane < t.lane;
    if (s.urgent_at != t.urgent_at) return s.urgent_at < t.urgent_at;
  }
  return a.state().sequence < b.state().sequence;
}

/// Gives a new place. An answer is calm until its time comes. If its time is now, it becomes urgent before the next
/// plan. This holds for a request that has ended its reasoning and has no token for its reader.
/// @param now the time last told, in seconds.
template <class D, schedulable R, reader_deadline<R> Deadline>
void place_by_reader(R& r, bool is_read, const Deadline& deadline, duration margin, duration patience,
                     double now) noexcept {
  using time_point = typename R::time_point;
  auto& s = request_access::order_state<D>(r);
  s.quantum_used = tokens{};
  s.served = false;
  if (!is_read) {
    s.level = unread;
    s.urgent_at = time_point::never();
    s.look_at = r.generated() > tokens{} ? moved_by(time_point{}, now + patience.seconds())
                                         : moved_by(r.state().arrived, patience.seconds());
    return;
  }
  const time_point dry = deadline(static_cast<const R&>(r));
  s.level = calm;
  s.urgent_at = dry == time_point::never() ? r.state().answering_since : moved_by(dry, -margin.seconds());
}

}  // namespace detail
}  // namespace order
TESSERA_NAMESPACE_END
