// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/boost_time.hpp>
#include <tessera/order/expected_output.hpp>

/// @file
/// The request that has waited longest for its expected service goes first.

TESSERA_NAMESPACE_BEGIN
namespace order {

/// The state that `response_ratio` keeps about each request, independent of the predictor.
template <clock_policy Clock>
struct ratio_place {
  basic_time_point<Clock> rises_at{};  ///< When its level rises.
  double level = 1;                    ///< A power of the order's `step`. Its ratio is at least this.
  double service = 1;                  ///< The time that it is expected to take, in seconds.
};

/// Highest response ratio next: (priority, level of the ratio, sequence). The ratio is (age + service) / service, where
/// the age counts from `submit` and includes the time that the request has run. The service is `pace` times the
/// expected output, as predicted when the request joined.
///
/// Ratios change for all requests all the time, at different rates, so no queue can keep them in order. This order
/// keeps powers of `step` instead: a request's level is the largest power that is no more than its ratio. It rises at
/// moments that are known in advance (`due_at`), and only the requests that rise are moved.
///
/// Bound: the request served first has a ratio of more than `1 / step` of the greatest of its priority.
/// Proof: `level <= ratio < step * level` holds for each request. It holds when a request enters. The ratio grows with
/// the age, and reaches `step * level` at `due_at`, when the level rises. The first request has the greatest level `m`,
/// so its ratio is at least `m`, and that of every other request is less than `step * m`.
/// A queue moves a constant number of requests in each plan. If more are due, the greatest ratio is taken at the
/// earliest `due_at` that is left.
///
/// Cost: O(log n) for each rise. A request with ratio `q` has risen at most log(q) / log(`step`) times.
///
/// Not preemptive: only a higher priority displaces a resident. When residents outgrow the memory, the one that ranks
/// last is evicted, and waits with its age.
///
/// Starvation: a later request with service `s` overtakes one with ratio `q` only if its age is more than
/// `s * (q / step - 1)`, and `q` grows. Under lasting overload there is no bound: enough short requests with that age
/// may be there at all times.
///
/// When to use: lengths can be predicted, the queue is often long, and no fixed threshold of `ranked` suits it.
/// Source: Brinch Hansen, "Short-term scheduling in multiprogramming systems", SOSP 1971.
/// @tparam Expected an `output_predictor`.
template <class Expected = expected_output_member>
struct response_ratio {
  static constexpr bool ages = true;            ///< Whether a request gets another place when its time has come.
  static constexpr bool ages_to_front = false;  ///< A request that rises may stand behind others.

  /// The state that it keeps about each request.
  template <clock_policy Clock>
  using state = ratio_place<Clock>;

  duration pace = duration{0.02};  ///< Expected time for a token of output. Positive, finite.
  double step = 1.25;  ///< Factor between levels: smaller is more exact, and costs more rises. At least 1.01.
  double now = 0;      ///< The time last told, in seconds.
  [[no_unique_address]] Expected expected{};  ///< Predicts a request's output length. Less than 1 counts as 1.

  /// Whether the parameters are valid. A scheduler asserts this at construction.
  [[nodiscard]] constexpr bool is_possible() const noexcept {
    return pace > duration{} && pace < duration::forever() && step >= 1.01;
  }

  /// A place for a request that joins.
  template <schedulable R>
  void enter(R& r, typename R::time_point /*arrived*/) noexcept {
    static_assert(output_predictor<Expected, R>,
                  "tessera: `response_ratio` needs requests with a member `expected_output`, or an Expected with "
                  "`tokens operator()(const R&) const noexcept`");
    const tokens output = max(expected(static_cast<const R&>(r)), tokens{1});
    auto& s = request_access::order_state<response_ratio>(r);
    s.service = pace.seconds() * static_cast<double>(output.count());
    s.rises_at = rise_of(r);
    if (s.rises_at.seconds() <= now) age(r);  // it has waited elsewhere
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

  /// Called when a request has ended or left.
  template <schedulable R>
  void leave(R& /*r*/) noexcept {}

  /// Called with the time before each plan.
  template <clock_policy Clock>
  void advance(basic_time_point<Clock> t) noexcept {
    now = t.seconds();
  }

  /// When its level rises.
  template <schedulable R>
  [[nodiscard]] static typename R::time_point due_at(const R& r) noexcept {
    return order_state<response_ratio>(r).rises_at;
  }
  /// Raises it to its present level. O(1), or O(levels) if the time has made a leap.
  template <schedulable R>
  void age(R& r) noexcept {
    auto& s = request_access::order_state<response_ratio>(r);
    do {
      s.level *= step;
      s.rises_at = rise_of(r);
    } while (s.rises_at.seconds() <= now);
  }

  /// By priority, then by level, then by arrival.
  template <schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    const double p = order_state<response_ratio>(a).level;
    const double q = order_state<response_ratio>(b).level;
    return p != q ? p > q : a.state().sequence < b.state().sequence;
  }

  /// Whether a waiting request may take the blocks of a resident.
  template <schedulable R>
  [[nodiscard]] static bool displaces(const R& waiting, const R& resident) noexcept {
    return waiting.priority > resident.priority;
  }

 private:
  /// When its ratio is that of the next level; `never()` if the clock cannot represent that time.
  template <schedulable R>
  [[nodiscard]] typename R::time_point rise_of(const R& r) const noexcept {
    const auto& s = order_state<response_ratio>(r);
    return detail::moved_by(r.state().arrived, s.service * (s.level * step - 1));
  }
};

}  // namespace order
TESSERA_NAMESPACE_END
