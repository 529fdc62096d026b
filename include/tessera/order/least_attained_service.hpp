// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/boost_time.hpp>
#include <tessera/order/concepts.hpp>
#include <tessera/order/program_service.hpp>

#include <concepts>
#include <cstdint>

/// @file
/// For programs of many calls: the program with the least service goes first.

TESSERA_NAMESPACE_BEGIN
namespace order {

/// The program in the request's member `program`, a pointer; null: the request is a program of its own.
struct program_member {
  /// Reads `r.program`.
  template <schedulable R>
    requires requires(const R& r) {
      { r.program } -> std::convertible_to<program_service*>;
    }
  [[nodiscard]] program_service* operator()(const R& r) const noexcept {
    return r.program;
  }
};

/// Maps a request to its program.
/// Requires: (1) copyable; (2) `f(r) noexcept -> program_service*`, null for a request that is a program of its own.
/// Not checked: the same for as long as the request is in a scheduler. Models: `order::program_member`.
template <class F, class R>
concept program_of_request = std::copyable<F> && schedulable<R> && requires(const F& f, const R& r) {
  { f(r) } noexcept -> std::same_as<program_service*>;
};

/// Least attained service of the program first, in levels: (priority, boosted, then age among the boosted or level
/// among the rest, sequence). A call begins on the level given by the service of its program's earlier calls, and goes
/// down as it is served itself. Level 0 ends at `first`, and each further level is twice as wide as the one before it.
/// Within a level, first come, first served. A request on an earlier level displaces one on a later level.
///
/// So calls of short programs overtake calls of long ones. The later calls of a long program keep its level instead of
/// starting at the top. No lengths need to be known. A call that came longer than `threshold` ago is boosted ahead of
/// all that came later, so that none starves.
///
/// When to use: agents, chats and workflows, where the latency of the whole program counts. Without programs it is
/// multi-level feedback over single requests.
/// Source: Autellix (arXiv 2502.13965), program-level attained service (PLAS) in its multi-level form. `critical_path`
/// is its variant for programs with calls that run side by side (ATLAS). The paper promotes by the ratio of a program's
/// waiting to its service; here it is the age of a call, as in `ranked`. Service is counted in generated tokens, not in
/// seconds.
/// @tparam Program a `program_of_request`; by default the request's member `program`.
template <class Program = program_member>
struct least_attained_service {
  static constexpr bool ages = true;  ///< Whether a request moves to the front when its time has come.

  /// The state that it keeps about each request.
  template <clock_policy Clock>
  struct state {
    tokens had{};                        ///< Service of its program when it joined.
    tokens next_at{};                    ///< Service at which it goes a level down.
    tokens path{};                       ///< Service along the path to it, when it joined.
    basic_time_point<Clock> boost_at{};  ///< When it is boosted.
    std::uint8_t level = 0;              ///< 0 is served first.
    bool boosted = false;                ///< Whether it has been boosted.
  };

  tokens first{256};                           ///< Service at which level 0 ends. At least 1.
  std::uint8_t levels = 8;                     ///< Number of levels. At least 1.
  bool critical_path = false;                  ///< A program's service is that of its longest chain of calls, not of
                                               ///< all calls: calls side by side count once.
  duration threshold = duration{600.0};        ///< Age at which a call is boosted; `duration::forever()`: never.
  [[no_unique_address]] Program program_of{};  ///< Maps a request to its program.

  /// Whether the parameters are valid. A scheduler asserts this at construction.
  [[nodiscard]] constexpr bool is_possible() const noexcept {
    return first >= tokens{1} && levels >= 1 && threshold >= duration{};
  }

  /// A place for a request that joins.
  template <schedulable R>
  void enter(R& r, typename R::time_point arrived) noexcept {
    static_assert(program_of_request<Program, R>,
                  "tessera: `least_attained_service` needs requests with a pointer `program` to an "
                  "`order::program_service`, or a Program with `program_service* operator()(const R&) const noexcept`");
    auto& s = request_access::order_state<least_attained_service>(r);
    s = {};
    s.had = r.generated();
    if (const program_service* const p = program_of(static_cast<const R&>(r))) s.path = p->attained;
    s.boost_at = detail::moved_by(arrived, threshold.seconds());
    take_level(r);
  }

  /// Accounts for tokens that were run; true if the request is due for a new place.
  template <schedulable R>
  [[nodiscard]] bool charge(R& r, tokens /*ran*/) noexcept {
    const auto& s = order_state<least_attained_service>(r);
    return s.level + 1 < levels && r.generated() >= s.next_at;
  }

  /// A new place for a request that was due.
  template <schedulable R>
  void requeue(R& r) noexcept {
    take_level(r);
  }

  /// A new place for a request that begins to answer.
  template <schedulable R>
  void change_phase(R& /*r*/) noexcept {}

  /// Called when a request has ended or left: its service is added to its program's.
  template <schedulable R>
  void leave(R& r) noexcept {
    auto& s = request_access::order_state<least_attained_service>(r);
    const tokens given = r.generated() - s.had;
    if (program_service* const p = program_of(static_cast<const R&>(r))) {
      p->attained = critical_path ? max(p->attained, s.path + given) : p->attained + given;
    }
    s.path += given;
    s.had = r.generated();
  }

  /// Called with the time before each plan.
  template <clock_policy Clock>
  void advance(basic_time_point<Clock> /*now*/) noexcept {}

  /// When it will be boosted; `never()` if it has been.
  template <schedulable R>
  [[nodiscard]] static typename R::time_point due_at(const R& r) noexcept {
    const auto& s = order_state<least_attained_service>(r);
    return s.boosted ? R::time_point::never() : s.boost_at;
  }
  /// Boosts it.
  template <schedulable R>
  void age(R& r) noexcept {
    request_access::order_state<least_attained_service>(r).boosted = true;
  }

  /// By priority, then the boosted ones by age, then by level, then by arrival.
  template <schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    const auto& s = order_state<least_attained_service>(a);
    const auto& t = order_state<least_attained_service>(b);
    if (s.boosted != t.boosted) return s.boosted;
    if (s.boosted) {
      if (s.boost_at != t.boost_at) return s.boost_at < t.boost_at;
    } else if (s.level != t.level) {
      return s.level < t.level;
    }
    return a.state().sequence < b.state().sequence;
  }

  /// Whether a waiting request may take the blocks of a resident.
  template <schedulable R>
  [[nodiscard]] static bool displaces(const R& waiting, const R& resident) noexcept {
    if (waiting.priority != resident.priority) return waiting.priority > resident.priority;
    const auto& s = order_state<least_attained_service>(waiting);
    const auto& t = order_state<least_attained_service>(resident);
    return !s.boosted && !t.boosted && s.level < t.level;
  }

 private:
  /// Sets the level by the service of its program and its own, and the service at which the next level begins.
  template <schedulable R>
  void take_level(R& r) noexcept {
    auto& s = request_access::order_state<least_attained_service>(r);
    const program_service* const p = program_of(static_cast<const R&>(r));
    const tokens before = p == nullptr ? tokens{} : critical_path ? s.path : p->attained;
    const tokens given = before + r.generated() - s.had;
    s.level = 0;
    std::int64_t end = first.count();
    while (s.level + 1 < levels && given.count() >= end) {
      ++s.level;
      end = end > (std::int64_t{1} << 61U) ? end : 2 * end;
    }
    s.next_at = tokens{end} - before + s.had;
  }
};

}  // namespace order
TESSERA_NAMESPACE_END
