// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/reader_levels.hpp>

#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace order {

/// Answers just in time, reasoning before everything that can wait: (priority, level, place on it, sequence).
///
/// - Level 0, urgent: answers whose reader has no token yet, or runs dry within `margin`. Earliest deadline first. One
///   that was urgent stays so for a slice of tokens.
/// - Level 1: reasoning. Requests in their first quantum, then those in their second, ... up to `young_quanta`, then
///   all others; by age among equals. So a short request is through quickly, and one that has reasoned for long is
///   interrupted by the young, not by others of its kind.
/// - Level 2, calm: answers whose reader has enough to read. Earliest deadline first.
///
/// A calm answer costs nobody anything: it runs in the memory that is left, which builds up what its reader has in
/// store, gives its blocks up to whoever needs them, and is boosted to urgent before the reader notices, whether it
/// waits or holds its blocks while others fill the batch. Reasoning gets all the memory except what readers need at
/// their pace; past saturation that share goes on, so answers do not starve, and new requests wait as they do under
/// `fcfs`. Nothing is demoted, because long reasoning cannot starve answers.
///
/// Who waits displaces a resident on a later level, and on level 1 one that ranks behind it. Calm answers do not
/// displace each other: those that run are done sooner.
///
/// When to use: instead of `two_phase` wherever the engine keeps a token pacer per request.
/// Source: the token pacer of PASCAL (section IV-C) made a part of the order, as Andes schedules by its reader's
/// buffer; both papers leave the rule open.
/// @tparam Deadline a `reader_deadline`; by default the request's member `pacer`.
template <class Deadline = pacer_member>
struct paced {
  static constexpr bool ages = true;  ///< Whether a request moves to the front when its time has come.

  /// What it keeps about each request.
  template <clock_policy Clock>
  using state = reader_place<Clock>;

  tokens quantum{500};             ///< Tokens generated between two places of a reasoning request. At least 1.
  std::uint64_t young_quanta = 2;  ///< From so many quanta on, reasoning requests go by age alone.
  tokens slice{250};               ///< Tokens generated between two looks at an answer's reader. At least 1.
  /// An answer is urgent so long before its reader runs dry: the time of a few steps. `duration::forever()`: always.
  duration margin = duration{1.0};
  [[no_unique_address]] Deadline deadline{};  ///< Tells when a request's reader runs out of tokens.

  /// Whether its values can be meant: a scheduler asserts it when it is made.
  [[nodiscard]] constexpr bool is_possible() const noexcept {
    return quantum >= tokens{1} && slice >= tokens{1} && margin >= duration{};
  }

  /// A place for a request that joins.
  template <schedulable R>
  void enter(R& r, typename R::time_point /*now*/) noexcept {
    take_place(r);
  }

  /// Accounts for tokens that were run; true if the request is due for a new place.
  template <schedulable R>
  [[nodiscard]] bool charge(R& r, tokens ran) noexcept {
    auto& place = request_access::order_state<paced>(r);
    place.quantum_used += ran;
    return place.quantum_used >= (r.state().phase == phase::answering ? slice : quantum);
  }

  /// A new place for a request that was due.
  template <schedulable R>
  void requeue(R& r) noexcept {
    auto& place = request_access::order_state<paced>(r);
    if (r.state().phase == phase::reasoning && place.turn < young_quanta) ++place.turn;
    take_place(r);
  }

  /// A resident that has just ended its reasoning is urgent at once.
  template <schedulable R>
  void change_phase(R& r) noexcept {
    take_place(r);
    request_access::order_state<paced>(r).level = detail::urgent;
  }

  /// Hears that a request has ended or left.
  template <schedulable R>
  void leave(R& /*r*/) noexcept {}

  /// Hears the time.
  template <clock_policy Clock>
  void advance(basic_time_point<Clock> /*now*/) noexcept {}

  /// When it becomes urgent; `never()` if it is, or has no reader.
  template <schedulable R>
  [[nodiscard]] static typename R::time_point due_at(const R& r) noexcept {
    return detail::due_by_level<paced>(r);
  }
  /// Makes it urgent.
  template <schedulable R>
  void age(R& r) noexcept {
    request_access::order_state<paced>(r).level = detail::urgent;
  }

  /// By priority, then level, then place on it, then arrival.
  template <schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    return detail::before_by_level<paced>(a, b);
  }

  /// Whether a waiting request may take the blocks of a resident.
  template <schedulable R>
  [[nodiscard]] static bool displaces(const R& waiting, const R& resident) noexcept {
    if (waiting.priority != resident.priority) return waiting.priority > resident.priority;
    const auto& w = order_state<paced>(waiting);
    const auto& r = order_state<paced>(resident);
    if (w.level != r.level) return w.level < r.level;
    return w.level == detail::unread && before(waiting, resident);
  }

 private:
  template <schedulable R>
  void take_place(R& r) noexcept {
    static_assert(reader_deadline<Deadline, R>,
                  "tessera: `paced` needs requests with a token pacer as a member `pacer`, or a Deadline with "
                  "`R::time_point operator()(const R&) const noexcept`");
    detail::place_by_reader<paced>(r, r.state().phase == phase::answering, deadline, margin);
  }
};

}  // namespace order
TESSERA_NAMESPACE_END
