// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/concepts.hpp>

#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace order {

/// Round-robin with a token quantum: (priority, turn, sequence). Both phases alike. A request that has used its quantum
/// moves behind its peers. A waiting request displaces a resident with a later turn.
///
/// `fewest_quanta_first` selects what *behind* means. False, circular (the default): behind all present requests; a new
/// request comes last as well. True: behind requests that have used fewer quanta, by age among equals. A new request
/// then goes before all that have used a quantum, and the longest requests wait for all others.
///
/// Starvation: in a circle, the wait is bounded. It is at most one quantum of each present request of its priority,
/// divided by the places. By quanta there is no bound.
///
/// When to use: as the time-sharing baseline; short requests get through quickly, long ones are interrupted often.
/// Source: PASCAL, section II-C and figure 2(c).
struct round_robin {
  static constexpr bool ages = false;  ///< Whether waiting too long moves a request to the front.

  /// The state that it keeps about each request.
  template <clock_policy Clock>
  struct state {
    std::uint64_t turn = 0;  ///< Smaller is earlier.
    tokens quantum_used{};   ///< Tokens generated since it took that turn.
  };

  tokens quantum{500};               ///< Tokens generated between two turns. At least 1.
  bool fewest_quanta_first = false;  ///< False: circular.
  std::uint64_t turns = 0;           ///< Turns given so far; circular only.

  /// Whether the parameters are valid. A scheduler asserts this at construction.
  [[nodiscard]] constexpr bool is_possible() const noexcept { return quantum >= tokens{1}; }

  /// A place for a request that joins.
  template <schedulable R>
  void enter(R& r, typename R::time_point /*now*/) noexcept {
    auto& s = request_access::order_state<round_robin>(r);
    s.quantum_used = tokens{};
    s.turn = fewest_quanta_first ? 0 : ++turns;
  }

  /// Accounts for tokens that were run; true if the request is due for a new place.
  template <schedulable R>
  [[nodiscard]] bool charge(R& r, tokens ran) noexcept {
    auto& s = request_access::order_state<round_robin>(r);
    s.quantum_used += ran;
    return s.quantum_used >= quantum;
  }

  /// A new place for a request that was due.
  template <schedulable R>
  void requeue(R& r) noexcept {
    auto& s = request_access::order_state<round_robin>(r);
    s.quantum_used = tokens{};
    s.turn = fewest_quanta_first ? s.turn + 1 : ++turns;
  }

  /// A new place for a request that begins to answer.
  template <schedulable R>
  void change_phase(R& /*r*/) noexcept {}

  /// Called when a request has ended or left.
  template <schedulable R>
  void leave(R& /*r*/) noexcept {}

  /// Called with the time before each plan.
  template <clock_policy Clock>
  void advance(basic_time_point<Clock> /*now*/) noexcept {}

  /// By priority, then by turn, then by arrival.
  template <schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    const auto& s = order_state<round_robin>(a);
    const auto& t = order_state<round_robin>(b);
    if (s.turn != t.turn) return s.turn < t.turn;
    return a.state().sequence < b.state().sequence;
  }

  /// Whether a waiting request may take the blocks of a resident.
  template <schedulable R>
  [[nodiscard]] static bool displaces(const R& waiting, const R& resident) noexcept {
    return before(waiting, resident);
  }
};

}  // namespace order
TESSERA_NAMESPACE_END
