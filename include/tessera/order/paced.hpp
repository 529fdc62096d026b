// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/reader_levels.hpp>

#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace order {

/// Answers just in time, reasoning before everything that can wait: (priority, level, place on it, sequence).
///
/// - Level 0, urgent. First, requests that have stalled (see below). Then answers with a reader that runs dry within
///   `margin` or has no token yet. Then answers of requests that have not begun. Earliest deadline first. An urgent
///   request stays urgent for a slice of tokens.
/// - Level 1: reasoning. Requests in their first quantum, then those in their second, ... up to `young_quanta`, then
///   all others; by age among equals. So a short request ends quickly. A request that has reasoned for long is
///   interrupted by young ones, not by others like it.
/// - Level 2, calm: answers with enough buffered for their readers. Earliest deadline first.
///
/// A calm answer costs other requests nothing. It runs in the memory that is left, fills its reader's buffer, and gives
/// its blocks up to any request that needs them. It is boosted to urgent before the reader notices, whether it waits or
/// holds blocks outside of the batch.
/// Reasoning gets all memory except what readers need at their pace. Past saturation that share remains, so answers do
/// not starve, and new requests wait as under `fcfs`. No request is demoted, because long reasoning cannot starve
/// answers.
///
/// A waiting request displaces a resident on a later level, and on level 1 one that ranks behind it. Calm answers do
/// not displace each other: those that run end sooner.
///
/// Starvation is bounded. A reasoning request has *stalled* if it has generated tokens, and then none for one to two
/// times `patience`. It is served before everything else of its priority, the longest-stalled first, until it has
/// generated a slice. So the gap between two of its tokens is at most `2 * patience` plus the wait for a free place
/// behind requests that stalled earlier.
/// A reasoning request that has generated nothing for `patience` queues with the answers that have not begun, as if it
/// had come then. So its first token comes as under `fcfs`, later by at most what arrives within `patience`. Answers
/// that have begun are bounded by their readers. Each becomes urgent `margin` before its reader runs dry, and only
/// answers with readers that run dry sooner go before it.
///
/// When to use: instead of `two_phase` wherever the engine keeps a token pacer per request.
/// Source: the token pacer of PASCAL (section IV-C) made a part of the order, as Andes schedules by its readers'
/// buffers. Both papers leave the rule open.
/// @tparam Deadline a `reader_deadline`; by default the request's member `pacer`.
template <class Deadline = pacer_member>
struct paced {
  static constexpr bool ages = true;            ///< Whether a request gets another place when its time has come.
  static constexpr bool ages_to_front = false;  ///< A stalled request goes before those that were due before it.

  /// The state that it keeps about each request.
  template <clock_policy Clock>
  using state = reader_place<Clock>;

  tokens quantum{500};             ///< Tokens generated between two places of a reasoning request. At least 1.
  std::uint64_t young_quanta = 2;  ///< After this many quanta, reasoning requests are ordered by age alone.
  tokens slice{250};               ///< Tokens generated between two looks at an answer's reader. At least 1.
  /// An answer becomes urgent this long before its reader runs dry: the time of a few steps. `duration::forever()`:
  /// always.
  duration margin = duration{1.0};
  /// Time without a token after which a reasoning request is served first. Positive; `duration::forever()`: never.
  duration patience = duration{60.0};
  double heard = 0;                           ///< The time last told, in seconds.
  [[no_unique_address]] Deadline deadline{};  ///< Says when a request's reader runs out of tokens.

  /// Whether the parameters are valid. A scheduler asserts this at construction.
  [[nodiscard]] constexpr bool is_possible() const noexcept {
    return quantum >= tokens{1} && slice >= tokens{1} && margin >= duration{};
  }

  /// A place for a request that joins.
  template <schedulable R>
  void enter(R& r, typename R::time_point now) noexcept {
    if (now.seconds() > heard) heard = now.seconds();
    take_place(r);
  }

  /// Accounts for tokens that were run; true if the request is due for a new place.
  template <schedulable R>
  [[nodiscard]] bool charge(R& r, tokens ran) noexcept {
    auto& place = request_access::order_state<paced>(r);
    place.quantum_used += ran;
    if (ran > tokens{}) place.served = true;
    const bool by_slice = r.state().phase == phase::answering || place.level == detail::urgent;
    return place.quantum_used >= (by_slice ? slice : quantum);
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
    auto& place = request_access::order_state<paced>(r);
    place.level = detail::urgent;
    place.lane = urgent_lane::reader;
  }

  /// Called when a request has ended or left.
  template <schedulable R>
  void leave(R& /*r*/) noexcept {}

  /// Called with the time before each plan.
  template <clock_policy Clock>
  void advance(basic_time_point<Clock> now) noexcept {
    heard = now.seconds();
  }

  /// When it becomes urgent. For a request without a reader: when it is to be checked. `never()` if it is urgent.
  template <schedulable R>
  [[nodiscard]] static typename R::time_point due_at(const R& r) noexcept {
    return detail::due_by_level<paced>(r);
  }
  /// Makes it urgent. For a request without a reader: checks whether it has waited for too long.
  template <schedulable R>
  void age(R& r) noexcept {
    static_cast<void>(detail::age_by_level<paced>(r, patience, heard));
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
    // Patience alone is no reason to drop KV: a reasoning request that has not begun displaces what it could before.
    const bool is_patient = w.lane == urgent_lane::newcomer && waiting.state().phase == phase::reasoning;
    const std::uint8_t level = is_patient ? detail::unread : w.level;
    if (level != r.level) return level < r.level;
    if (level != detail::unread) return false;
    return w.turn != r.turn ? w.turn < r.turn : waiting.state().sequence < resident.state().sequence;
  }

 private:
  template <schedulable R>
  void take_place(R& r) noexcept {
    static_assert(reader_deadline<Deadline, R>,
                  "tessera: `paced` needs requests with a token pacer as a member `pacer`, or a Deadline with "
                  "`R::time_point operator()(const R&) const noexcept`");
    detail::place_by_reader<paced>(r, r.state().phase == phase::answering, deadline, margin, patience, heard);
  }
};

}  // namespace order
TESSERA_NAMESPACE_END
