// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/concepts.hpp>

TESSERA_NAMESPACE_BEGIN
namespace order {

/// First come, first served: (priority, sequence). Both phases alike. No request is ever due for a new place.
///
/// Starvation: within a priority no request that came later goes before one that waits.
///
/// When to use: memory never binds, or as the baseline. Also the base of your own order: derive and hide `before`. Hide
/// `displaces` as well if a waiting request of equal priority may evict a resident one. Both may use your parameters.
/// Source: PASCAL, section II-C.
struct fcfs {
  static constexpr bool ages = false;  ///< Whether waiting too long moves a request to the front.

  /// A place for a request that joins.
  template <schedulable R>
  void enter(R& /*r*/, typename R::time_point /*now*/) noexcept {}

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
  void advance(basic_time_point<Clock> /*now*/) noexcept {}

  /// By priority, then by arrival.
  template <schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    return a.state().sequence < b.state().sequence;
  }

  /// Only a higher priority displaces: among equals, a resident arrived earlier than any waiting request.
  template <schedulable R>
  [[nodiscard]] static bool displaces(const R& waiting, const R& resident) noexcept {
    return waiting.priority > resident.priority;
  }
};

}  // namespace order
TESSERA_NAMESPACE_END
