// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/concepts.hpp>

#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace order {

/// Round-robin with a token quantum: (priority, turn, sequence). Both phases alike. A request that has used its
/// quantum goes behind its peers, and one that waits displaces a resident whose turn is later.
///
/// When to use: as the time-sharing baseline; short requests get through quickly, long ones are interrupted often.
/// Source: PASCAL, section II-C and figure 2(c).
struct round_robin {
  static constexpr bool ages = false;

  tokens quantum{500};      ///< Tokens generated between two turns. At least 1.
  std::uint64_t turns = 0;  ///< Turns given so far.

  template <schedulable R>
  void enter(R& r, typename R::time_point /*now*/) noexcept {
    requeue(r);
  }

  template <schedulable R>
  [[nodiscard]] bool charge(R& r, tokens ran) noexcept {
    auto& s = request_access::state(r);
    s.quantum_used += ran;
    return s.quantum_used >= quantum;
  }

  template <schedulable R>
  void requeue(R& r) noexcept {
    auto& s = request_access::state(r);
    s.quantum_used = tokens{};
    s.turn = ++turns;
  }

  template <schedulable R>
  void change_phase(R& /*r*/) noexcept {}

  template <schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.state().turn != b.state().turn) return a.state().turn < b.state().turn;
    return a.state().sequence < b.state().sequence;
  }

  template <schedulable R>
  [[nodiscard]] static bool displaces(const R& waiting, const R& resident) noexcept {
    return before(waiting, resident);
  }
};

}  // namespace order
TESSERA_NAMESPACE_END
