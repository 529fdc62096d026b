// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/concepts.hpp>

#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace order {

/// PASCAL's two queues in one order: (priority, level, turn, sequence). Level 0, high: reasoning. Level 1, low:
/// answering, and reasoning whose KV has outgrown `demote_above`. Each level is round-robin with a token quantum.
/// Whatever is high is served before, and displaces, whatever is low.
///
/// Left open by the paper, and decided here: the quantum restarts when a request *enters* the low queue. One that was
/// demoted is in it already, so when its reasoning ends it keeps its turn and what it has used of its quantum. One
/// that starts in answering enters the low queue at once. A demoted request never goes back to high, not even when a
/// preemption makes it compute its KV anew.
///
/// How a level takes turns, there are two readings of: in a circle (the default), or by the quanta that a request has
/// used on its level (`fewest_quanta_first`), as for `round_robin`. The paper's text speaks for the second: requests
/// "receive progressively lower priority" as they consume quanta (section V-B), and an answer that has not used up its
/// first quantum is "more likely to be scheduled next" (section IV-B), which in a circle it is not.
///
/// When to use: reasoning models whose answers are read as they stream, when KV memory binds.
/// Source: PASCAL, section IV-C.
struct two_phase {
  static constexpr bool ages = false;  ///< Whether waiting too long moves a request to the front.

  tokens quantum{500};               ///< Tokens generated between two turns, on either level. At least 1.
  tokens demote_above{5000};         ///< KV length above which a reasoning request is demoted.
  bool fewest_quanta_first = false;  ///< False: in a circle.
  std::uint64_t turns = 0;           ///< Turns given so far, in a circle.

  /// A place for a request that joins.
  template <schedulable R>
  void enter(R& r, typename R::time_point /*now*/) noexcept {
    auto& s = request_access::state(r);
    s.demoted = s.phase == phase::reasoning && (s.demoted || outgrown(s));
    s.level = s.phase == phase::answering || s.demoted ? 1 : 0;
    take_first_turn(s);
  }

  /// Accounts for tokens that were run; true if the request is due for a new place.
  template <schedulable R>
  [[nodiscard]] bool charge(R& r, tokens ran) noexcept {
    auto& s = request_access::state(r);
    s.quantum_used += ran;
    return s.quantum_used >= quantum || outgrown(s);
  }

  /// A new place for a request that was due.
  template <schedulable R>
  void requeue(R& r) noexcept {
    auto& s = request_access::state(r);
    if (outgrown(s)) {
      s.demoted = true;
      s.level = 1;
      take_first_turn(s);
    } else {
      s.quantum_used = tokens{};
      s.turn = fewest_quanta_first ? s.turn + 1 : ++turns;
    }
  }

  /// A new place for a request that begins to answer.
  template <schedulable R>
  void change_phase(R& r) noexcept {
    auto& s = request_access::state(r);
    s.demoted = false;
    if (s.level == 1) return;
    s.level = 1;
    take_first_turn(s);
  }

  /// By priority, level, turn, then by arrival.
  template <schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    const auto& s = a.state();
    const auto& t = b.state();
    if (s.level != t.level) return s.level < t.level;
    if (s.turn != t.turn) return s.turn < t.turn;
    return s.sequence < t.sequence;
  }

  /// Whether a waiting request may take the blocks of a resident.
  template <schedulable R>
  [[nodiscard]] static bool displaces(const R& waiting, const R& resident) noexcept {
    return before(waiting, resident);
  }

  /// Reasoning, still high, and too large for it.
  template <clock_policy Clock>
  [[nodiscard]] bool outgrown(const request_state<Clock>& s) const noexcept {
    return s.phase == phase::reasoning && !s.demoted && s.computed > demote_above;
  }

  /// The turn of one that is new on its level, with a fresh quantum.
  template <clock_policy Clock>
  void take_first_turn(request_state<Clock>& s) noexcept {
    s.quantum_used = tokens{};
    s.turn = fewest_quanta_first ? 0 : ++turns;
  }
};

}  // namespace order
TESSERA_NAMESPACE_END
