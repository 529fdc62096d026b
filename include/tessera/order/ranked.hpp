// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/boost_time.hpp>
#include <tessera/order/concepts.hpp>

#include <limits>

TESSERA_NAMESPACE_BEGIN
namespace order {

/// The score that the engine wrote into the request.
struct score_member {
  /// Reads `r.score`.
  template <schedulable R>
  [[nodiscard]] float operator()(const R& r) const noexcept {
    return r.score;
  }
};

/// Says how long a request is expected to take; only the order of scores matters, smaller goes first.
/// Requires: (1) copyable; (2) `s(r) noexcept -> float`.
/// Not checked: a pure function of members that do not change. Complexity: called once per request, when it joins.
/// Models: `order::score_member`.
template <class S, class R>
concept request_scorer = std::copyable<S> && requires(const S& s, const R& r) {
  { s(r) } noexcept -> std::convertible_to<float>;
};

/// Smallest score first, with ageing: (priority, boosted, then age among the boosted or score among the rest,
/// sequence). A request that came longer than `threshold` ago is boosted ahead of all that came later, the oldest
/// first, so none starves. Its age counts from `submit`, the time that it has run included: one that is preempted after
/// it has run for long may be boosted at once. A score that is NaN ranks last.
///
/// Not preemptive: only a higher priority displaces a resident, so a score never takes a resident's blocks for a
/// waiting request. (When residents outgrow the memory, the one that ranks last gives way, as in every order.) A
/// request that is preempted keeps its score and its age.
///
/// When to use: prompts whose output lengths can be ranked ahead; cuts the mean latency most where the waiting queue
/// is long.
/// Source: PARS (shortest-job-first by a learned ranking, with starvation prevention).
/// @tparam Scorer a `request_scorer`; by default the request's member `score`.
template <class Scorer = score_member>
struct ranked {
  static constexpr bool ages = true;  ///< Whether a request moves to the front when its time has come.

  /// Time after its `submit` when a request is boosted, rounded to ticks of the request's clock. `duration::forever()`:
  /// never.
  duration threshold = duration{120.0};
  [[no_unique_address]] Scorer scorer{};  ///< Called once per request, when it joins.

  /// A place for a request that joins.
  template <schedulable R>
  void enter(R& r, typename R::time_point now) noexcept {
    static_assert(request_scorer<Scorer, R>, "tessera: the scorer lacks `float operator()(const R&) const noexcept`");
    auto& s = request_access::state(r);
    const float score = static_cast<float>(scorer(static_cast<const R&>(r)));
    s.rank = score == score ? score : std::numeric_limits<float>::infinity();
    s.level = 1;
    s.boost_at = boost_time(now);
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

  /// By priority, then the boosted ones by age, then by score, then by arrival.
  template <schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    const auto& s = a.state();
    const auto& t = b.state();
    if (s.level != t.level) return s.level < t.level;
    if (s.level == 0) {
      if (s.boost_at != t.boost_at) return s.boost_at < t.boost_at;
    } else if (s.rank != t.rank) {
      return s.rank < t.rank;
    }
    return s.sequence < t.sequence;
  }

  /// Whether a waiting request may take the blocks of a resident.
  template <schedulable R>
  [[nodiscard]] static bool displaces(const R& waiting, const R& resident) noexcept {
    return waiting.priority > resident.priority;
  }

  /// When a request that arrived at `now` will be boosted; `never()` if the clock cannot tell that time.
  template <clock_policy Clock>
  [[nodiscard]] basic_time_point<Clock> boost_time(basic_time_point<Clock> now) const noexcept {
    return detail::moved_by(now, threshold.seconds());
  }
};

}  // namespace order
TESSERA_NAMESPACE_END
