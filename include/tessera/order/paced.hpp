// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/boost_time.hpp>
#include <tessera/order/concepts.hpp>

#include <concepts>
#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace order {

/// The token pacer that the engine keeps in the request's member `pacer`.
struct pacer_member {
  /// Reads `r.pacer`.
  template <schedulable R>
  [[nodiscard]] typename R::time_point operator()(const R& r) const noexcept {
    return r.pacer.starves_at();
  }
};

/// Says when the reader of a request's answer runs dry if nothing more comes; `never()` before the first answering
/// token.
/// Requires: (1) copyable; (2) `f(r) noexcept` is an `R::time_point`.
/// Not checked: it is up to date with the tokens of a step when the step is committed. Complexity: called once per
/// slice and request. Models: `order::pacer_member`.
template <class F, class R>
concept reader_deadline = std::copyable<F> && schedulable<R> && requires(const F& f, const R& r) {
  { f(r) } noexcept -> std::same_as<typename R::time_point>;
};

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

  tokens quantum{500};             ///< Tokens generated between two places of a reasoning request. At least 1.
  std::uint64_t young_quanta = 2;  ///< From so many quanta on, reasoning requests go by age alone.
  tokens slice{250};               ///< Tokens generated between two looks at an answer's reader. At least 1.
  /// An answer is urgent so long before its reader runs dry: the time of a few steps. `duration::forever()`: always.
  duration margin = duration{1.0};
  [[no_unique_address]] Deadline deadline{};  ///< Tells when a request's reader runs out of tokens.

  /// A place for a request that joins.
  template <schedulable R>
  void enter(R& r, typename R::time_point /*now*/) noexcept {
    request_access::state(r).turn = 0;
    take_place(r);
  }

  /// Accounts for tokens that were run; true if the request is due for a new place.
  template <schedulable R>
  [[nodiscard]] bool charge(R& r, tokens ran) noexcept {
    auto& s = request_access::state(r);
    s.quantum_used += ran;
    return s.quantum_used >= (s.phase == phase::answering ? slice : quantum);
  }

  /// A new place for a request that was due.
  template <schedulable R>
  void requeue(R& r) noexcept {
    auto& s = request_access::state(r);
    if (s.phase == phase::reasoning && s.turn < young_quanta) ++s.turn;
    take_place(r);
  }

  /// A resident that has just ended its reasoning is urgent at once.
  template <schedulable R>
  void change_phase(R& r) noexcept {
    take_place(r);
    request_access::state(r).level = urgent;
  }

  /// By priority, then level, then place on it, then arrival.
  template <schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    const auto& s = a.state();
    const auto& t = b.state();
    if (s.level != t.level) return s.level < t.level;
    if (s.level == reasoning) {
      if (s.turn != t.turn) return s.turn < t.turn;
    } else if (s.boost_at != t.boost_at) {
      return s.boost_at < t.boost_at;
    }
    return s.sequence < t.sequence;
  }

  /// Whether a waiting request may take the blocks of a resident.
  template <schedulable R>
  [[nodiscard]] static bool displaces(const R& waiting, const R& resident) noexcept {
    if (waiting.priority != resident.priority) return waiting.priority > resident.priority;
    const auto& w = waiting.state();
    const auto& r = resident.state();
    if (w.level != r.level) return w.level < r.level;
    return w.level == reasoning && before(waiting, resident);
  }

 private:
  static constexpr std::uint8_t urgent = 0;  // the level to which ageing boosts
  static constexpr std::uint8_t reasoning = 1;
  static constexpr std::uint8_t calm = 2;

  /// An answer is calm until its time comes; if that is now, it is boosted before the next plan looks at it.
  template <schedulable R>
  void take_place(R& r) noexcept {
    static_assert(reader_deadline<Deadline, R>,
                  "tessera: `paced` needs requests with a token pacer as a member `pacer`, or a Deadline with "
                  "`R::time_point operator()(const R&) const noexcept`");
    using time_point = typename R::time_point;
    auto& s = request_access::state(r);
    s.quantum_used = tokens{};
    if (s.phase == phase::reasoning) {
      s.level = reasoning;
      s.boost_at = time_point::never();
      return;
    }
    const time_point dry = deadline(static_cast<const R&>(r));
    s.level = calm;
    s.boost_at = dry == time_point::never() ? s.answering_since : detail::moved_by(dry, -margin.seconds());
  }
};

}  // namespace order
TESSERA_NAMESPACE_END
