// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/concepts.hpp>

#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace order {

/// PASCAL's two queues in one order: (priority, level, turn, sequence). Level 0, high: reasoning. Level 1, low:
/// answering, and reasoning with more KV than `demote_above`. Each level is round-robin with a token quantum. A high
/// request is served before every low one, and displaces it.
///
/// The paper leaves open when the quantum restarts. Here it restarts when a request *enters* the low queue. A demoted
/// request is in it already, so when its reasoning ends it keeps its turn and its used quantum. A request that starts
/// in answering enters the low queue at once. A demoted request never goes back to high, not even when a preemption
/// makes it compute its KV anew.
///
/// A level takes turns in a circle (the default), or by the quanta that a request has used on its level
/// (`fewest_quanta_first`), as in `round_robin`. The paper's text speaks for the second. Requests "receive
/// progressively lower priority" as they consume quanta (section V-B). An answer in its first quantum is "more likely
/// to be scheduled next" (section IV-B), which does not hold in a circle.
///
/// Starvation: there is no bound, as in the paper. Low requests stop as long as high ones fill all places. By quanta,
/// new requests also go before those of their level that have used one. `paced` has a bound.
///
/// When to use: reasoning models with answers that are read as they stream, when KV memory binds.
/// Source: PASCAL, section IV-C.
struct two_phase {
  static constexpr bool ages = false;  ///< Whether waiting too long moves a request to the front.

  /// The state that it keeps about each request.
  template <clock_policy Clock>
  struct state {
    std::uint64_t turn = 0;  ///< Place within its level: smaller is earlier.
    tokens quantum_used{};   ///< Tokens generated since it took that turn.
    std::uint8_t level = 0;  ///< 0: high; 1: low.
  };

  tokens quantum{500};               ///< Tokens generated between two turns, on either level. At least 1.
  tokens demote_above{5000};         ///< KV length above which a reasoning request is demoted.
  bool fewest_quanta_first = false;  ///< False: circular.
  std::uint64_t turns = 0;           ///< Turns given so far; circular only.

  /// Whether the parameters are valid. A scheduler asserts this at construction.
  [[nodiscard]] constexpr bool is_possible() const noexcept { return quantum >= tokens{1} && demote_above >= tokens{}; }

  /// Whether a request is reasoning, but in the low queue. This moves with it to another instance.
  template <schedulable R>
  [[nodiscard]] static bool is_demoted(const R& r) noexcept {
    return r.state().carried != 0;
  }

  /// A place for a request that joins.
  template <schedulable R>
  void enter(R& r, typename R::time_point /*now*/) noexcept {
    set_demoted(r, r.state().phase == phase::reasoning && (is_demoted(r) || outgrown(r)));
    take_first_turn(r, r.state().phase == phase::answering || is_demoted(r) ? 1 : 0);
  }

  /// Accounts for tokens that were run; true if the request is due for a new place.
  template <schedulable R>
  [[nodiscard]] bool charge(R& r, tokens ran) noexcept {
    auto& place = request_access::order_state<two_phase>(r);
    place.quantum_used += ran;
    return place.quantum_used >= quantum || outgrown(r);
  }

  /// A new place for a request that was due.
  template <schedulable R>
  void requeue(R& r) noexcept {
    if (outgrown(r)) {
      set_demoted(r, true);
      take_first_turn(r, 1);
    } else {
      auto& place = request_access::order_state<two_phase>(r);
      place.quantum_used = tokens{};
      place.turn = fewest_quanta_first ? place.turn + 1 : ++turns;
    }
  }

  /// A new place for a request that begins to answer.
  template <schedulable R>
  void change_phase(R& r) noexcept {
    set_demoted(r, false);
    if (order_state<two_phase>(r).level == 0) take_first_turn(r, 1);
  }

  /// Called when a request has ended or left.
  template <schedulable R>
  void leave(R& /*r*/) noexcept {}

  /// Called with the time before each plan.
  template <clock_policy Clock>
  void advance(basic_time_point<Clock> /*now*/) noexcept {}

  /// By priority, level, turn, then by arrival.
  template <schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    const auto& s = order_state<two_phase>(a);
    const auto& t = order_state<two_phase>(b);
    if (s.level != t.level) return s.level < t.level;
    if (s.turn != t.turn) return s.turn < t.turn;
    return a.state().sequence < b.state().sequence;
  }

  /// Whether a waiting request may take the blocks of a resident.
  template <schedulable R>
  [[nodiscard]] static bool displaces(const R& waiting, const R& resident) noexcept {
    return before(waiting, resident);
  }

  /// Reasoning, still high, and with too much KV for it.
  template <schedulable R>
  [[nodiscard]] bool outgrown(const R& r) const noexcept {
    const auto& s = r.state();
    return s.phase == phase::reasoning && !is_demoted(r) && s.computed > demote_above;
  }

 private:
  template <schedulable R>
  static void set_demoted(R& r, bool is) noexcept {
    request_access::state(r).carried = is ? 1 : 0;
  }

  /// The turn of a request that is new on its level, with a fresh quantum.
  template <schedulable R>
  void take_first_turn(R& r, std::uint8_t level) noexcept {
    auto& place = request_access::order_state<two_phase>(r);
    place.turn = fewest_quanta_first ? 0 : ++turns;
    place.quantum_used = tokens{};
    place.level = level;
  }
};

}  // namespace order
TESSERA_NAMESPACE_END
