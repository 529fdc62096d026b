// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/boost_time.hpp>
#include <tessera/order/concepts.hpp>

#include <limits>

TESSERA_NAMESPACE_BEGIN
namespace order {

/// The score that the engine wrote into the request's member `score`.
struct score_member {
  /// Reads `r.score`.
  template <schedulable R>
    requires requires(const R& r) {
      { r.score } -> std::convertible_to<float>;
    }
  [[nodiscard]] float operator()(const R& r) const noexcept {
    return r.score;
  }
};

/// Predicts the length of a request. Only the order of scores matters: smaller goes first.
/// Requires: (1) copyable; (2) `s(r) noexcept -> float`.
/// Not checked: a pure function of members that do not change. Complexity: called once per request, when it joins.
/// Models: `order::score_member`.
template <class S, class R>
concept request_scorer = std::copyable<S> && requires(const S& s, const R& r) {
  { s(r) } noexcept -> std::convertible_to<float>;
};

/// The state that `ranked` keeps about each request, independent of the scorer.
template <clock_policy Clock>
struct ranked_place {
  basic_time_point<Clock> boost_at{};  ///< When it is boosted.
  float rank = 0;                      ///< Its score when it was queued.
  bool boosted = false;                ///< Whether it has been boosted.
};

/// Smallest score first, with ageing: (priority, boosted, then age among the boosted or score among the rest,
/// sequence). A request that came longer than `threshold` ago is boosted ahead of all that came later, the oldest
/// first, so none starves. Its age counts from `submit` and includes the time that it has run. So a request that is
/// preempted after a long run may be boosted at once. A score that is NaN ranks last.
///
/// Not preemptive: only a higher priority displaces a resident, so a score never takes a resident's blocks for a
/// waiting request. (When residents outgrow the memory, the one that ranks last is evicted, as in every order.) A
/// preempted request keeps its score and its age.
///
/// When to use: prompts that can be ranked by output length in advance. It lowers the mean latency most if the queue is
/// long.
/// Source: PARS (shortest-job-first by a learned ranking, with starvation prevention).
/// @tparam Scorer a `request_scorer`; by default the request's member `score`.
template <class Scorer = score_member>
struct ranked {
  static constexpr bool ages = true;  ///< Whether a request moves to the front when its time has come.

  /// The state that it keeps about each request.
  template <clock_policy Clock>
  using state = ranked_place<Clock>;

  /// Time after its `submit` when a request is boosted, rounded to ticks of the request's clock. `duration::forever()`:
  /// never.
  duration threshold = duration{120.0};
  [[no_unique_address]] Scorer scorer{};  ///< Called once per request, when it joins.

  /// Whether the parameters are valid. A scheduler asserts this at construction.
  [[nodiscard]] constexpr bool is_possible() const noexcept { return threshold >= duration{}; }

  /// A place for a request that joins.
  template <schedulable R>
  void enter(R& r, typename R::time_point now) noexcept {
    static_assert(request_scorer<Scorer, R>,
                  "tessera: `ranked` needs requests with a member `score`, or a Scorer with "
                  "`float operator()(const R&) const noexcept`");
    const float score = static_cast<float>(scorer(static_cast<const R&>(r)));
    request_access::order_state<ranked>(r) = {.boost_at = boost_time(now),
                                              .rank = score == score ? score : std::numeric_limits<float>::infinity()};
  }

  /// Accounts for tokens that were run; true if the request is due for a new place.
  template <schedulable R>
  [[nodiscard]] bool charge(R& /*r*/, tokens /*ran*/) noexcept {
    return false;
  }

  /// A new place for a request that was due.
  template <schedulable R>
  void requeue(R& /*r*/) noexcept {}

  /// A new place for a request that begins to answer.
  template <schedulable R>
  void change_phase(R& /*r*/) noexcept {}

  /// The place of a request by the present `threshold`. A boosted request is boosted again when it is due by that.
  template <schedulable R>
  void retune(R& r) noexcept {
    auto& s = request_access::order_state<ranked>(r);
    s.boost_at = boost_time(r.state().arrived);
    s.boosted = false;
  }

  /// Called when a request has ended or left.
  template <schedulable R>
  void leave(R& /*r*/) noexcept {}

  /// Called with the time before each plan.
  template <clock_policy Clock>
  void advance(basic_time_point<Clock> /*now*/) noexcept {}

  /// When it will be boosted; `never()` if it has been.
  template <schedulable R>
  [[nodiscard]] static typename R::time_point due_at(const R& r) noexcept {
    const auto& s = order_state<ranked>(r);
    return s.boosted ? R::time_point::never() : s.boost_at;
  }
  /// Boosts it.
  template <schedulable R>
  void age(R& r) noexcept {
    request_access::order_state<ranked>(r).boosted = true;
  }

  /// By priority, then the boosted ones by age, then by score, then by arrival.
  template <schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    const auto& s = order_state<ranked>(a);
    const auto& t = order_state<ranked>(b);
    if (s.boosted != t.boosted) return s.boosted;
    if (s.boosted) {
      if (s.boost_at != t.boost_at) return s.boost_at < t.boost_at;
    } else if (s.rank != t.rank) {
      return s.rank < t.rank;
    }
    return a.state().sequence < b.state().sequence;
  }

  /// Whether a waiting request may take the blocks of a resident.
  template <schedulable R>
  [[nodiscard]] static bool displaces(const R& waiting, const R& resident) noexcept {
    return waiting.priority > resident.priority;
  }

  /// When a request that arrived at `now` is boosted; `never()` if the clock cannot represent that time.
  template <clock_policy Clock>
  [[nodiscard]] basic_time_point<Clock> boost_time(basic_time_point<Clock> now) const noexcept {
    return detail::moved_by(now, threshold.seconds());
  }
};

}  // namespace order
TESSERA_NAMESPACE_END
