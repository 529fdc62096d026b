// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/crowd_clock.hpp>
#include <tessera/order/reader_levels.hpp>
#include <tessera/order/recent_mean.hpp>

#include <concepts>
#include <cstdint>

/// @file
/// Readers just in time, and before them whoever is due first by expected length.

TESSERA_NAMESPACE_BEGIN
namespace order {

/// The expected output length that the engine wrote into the request's member `expected_output`.
struct expected_output_member {
  /// Reads `r.expected_output`.
  template <schedulable R>
    requires requires(const R& r) {
      { r.expected_output } -> std::convertible_to<tokens>;
    }
  [[nodiscard]] tokens operator()(const R& r) const noexcept {
    return r.expected_output;
  }
};

/// Says how many tokens a request is expected to generate in all, reasoning and what it has generated included.
/// Requires: (1) copyable; (2) `f(r) noexcept -> tokens`.
/// Not checked: it does not depend on the time. 0 or less: not known. Complexity: called when a
/// request joins, and once per slice while it reasons. Models: `order::expected_output_member`,
/// `rank::expected_length`, `rank::program_length`.
template <class F, class R>
concept output_predictor = std::copyable<F> && schedulable<R> && requires(const F& f, const R& r) {
  { f(r) } noexcept -> std::same_as<tokens>;
};

/// A predictor that also knows how many times as long as a request's output the output is that a token belongs to,
/// E[X^2] / E[X]^2, among requests of which as much is expected: the heavier the tail, the more. Models:
/// `rank::expected_length`, `rank::program_length`.
template <class F, class R>
concept biased_predictor = output_predictor<F, R> && requires(const F& f, const R& r) {
  { f.length_bias(r) } noexcept -> std::same_as<double>;
};

/// What `earliest_due` keeps about each request.
template <clock_policy Clock>
struct due_place : reader_place<Clock> {
  tokens first{};      ///< Output that was expected of it when it joined.
  double entered = 0;  ///< What the order's clock showed when it arrived, and from when it has been held for its prompt
                       ///< on, what it showed then. What is expected of it counts from there.
};

/// Answers just in time, as `paced`; before them, whoever is due first: (priority, level, place on it, sequence).
///
/// - Level 0, urgent: first requests that have stalled (see below); then answers whose reader runs dry within `margin`,
///   and those that have reasoned and have no token yet; then requests that have not begun for `patience`. Earliest
///   deadline first. One that became urgent stays so until its slice is used up, and stores meanwhile.
/// - Level 1: what has no reader yet, reasoning or a prompt before its first token. Each is due when its reader
///   would have been through, had it begun on arrival: arrival + expected output x `pace`, by a clock that goes slower
///   the more wait (`crowd_clock`). Who has a longer prompt than others arrives later, by `prompt_pace` for each token
///   more. Earliest due first.
/// - Level 2, calm: answers whose reader has enough to read. Earliest deadline first.
///
/// Who has reasoned for a slice is asked about anew: with a predictor that looks at what a request has generated
/// (`rank::expected_length`), those who have reasoned for long are expected to be long, and stand behind who is new, of
/// whom nothing is known yet: young first, as far as experience says that it helps. What is expected counts for no more
/// than so many times what was expected first (`revised`), so that the long ones are overtaken for so long and no
/// longer. Where a few long ones generate most of what there is, and all others would wait for them, that is longer.
///
/// So short requests overtake long ones that came a little earlier, by as much as they are shorter. Where nothing is
/// known of the lengths, or all are alike, and prompts count for nothing, it is arrival order.
///
/// Starvation is bounded by `patience`. The order's clock alone would let a request of 4,000 expected tokens be
/// overtaken for hours while a line stands.
/// - A request that has generated nothing for `patience / 4 * (waiting + begun) / begun` is next after the readers, the
///   longest-waiting first. So its first token comes as under `fcfs`, later by at most what arrives within that time.
///   The time grows with the line: a fixed one would be arrival order as soon as all wait for longer.
/// - A reasoning request that has generated tokens, and then none for one to two times `patience`, has *stalled*: it is
///   served before everything else of its priority until it has generated a slice. So the gap between two of its tokens
///   is at most `2 * patience` and the time in which a place becomes free for it and for those that stalled before it.
/// - An answer that has begun is urgent `margin` before its reader runs dry; only those whose readers run dry sooner,
///   and stalled requests, go before it.
///
/// While a long prompt is computed those who have not begun wait for it, and steps are longer: short ones go ahead of
/// long ones. A request is *held* for what its prompt is longer than the mean of the last thousand or so: by the
/// engine's clock, so that the time is the same however many wait. When it is over it arrives, as if it came only then.
/// It may be served meanwhile, at the place that it would have if the line stayed as it is. So of requests with the
/// same prompt and the same expectation who came first is first, once it has been held; before that each is where the
/// line that it found has put it. (The mean rises no faster than would let the time of a later one be over first.) Who
/// comes with its KV waits for no prompt, and is not held.
///
/// What is urgent displaces everything else, and reasoning displaces calm answers, whose readers do not notice; where
/// everybody waits while KV is moved (`move_pace`), only those whose readers have enough for longer than all who are
/// here would wait for it, taken together: whoever reasons begins so much earlier, and the others lose as much. A
/// prompt that nobody has reasoned about takes nobody's place, for its answer would soon be as calm; nor does anyone
/// take a place on his own level: a prediction is too weak a reason to throw KV out. (The first in line speaks for the
/// line: behind a prompt that has no place yet, reasoning waits too.) A stalled request displaces as what is urgent
/// does; one that has not begun displaces for its patience nothing that it did not displace before.
///
/// When to use: an engine that keeps a token pacer per request and can say, however roughly, how long outputs will be
/// (`rank::length_calibrator` makes lengths of PARS's scores).
/// Where lengths are known of some requests only, give the others the mean (a `length_calibrator` does, for NaN): 0
/// tokens would put them ahead of everyone.
///
/// Source: ours. Level 1 is earliest due date first, which keeps the greatest lateness least where all are there at
/// once (Jackson 1955), with a due date in proportion to the length, so that what is kept low is the time per token;
/// the other levels are those of `paced`.
/// @tparam Expected an `output_predictor`; by default the request's member `expected_output`.
/// @tparam Deadline a `reader_deadline`; by default the request's member `pacer`.
template <class Expected = expected_output_member, class Deadline = pacer_member>
struct earliest_due {
  static constexpr bool ages = true;            ///< Whether a request gets another place when its time has come.
  static constexpr bool ages_to_front = false;  ///< Who has been held may stand behind others all the same.

  /// What it keeps about each request.
  template <clock_policy Clock>
  using state = due_place<Clock>;

  duration pace = duration{0.1};  ///< What a token of expected output weighs against waiting. Not negative.
  tokens slice{250};              ///< Tokens generated between two looks at an answer's reader. At least 1.
  /// An answer is urgent so long before its reader runs dry: the time of a few steps. `duration::forever()`: always.
  duration margin = duration{1.0};
  /// What is expected later counts at most for so many times the first expectation; with a `biased_predictor` for
  /// 1 + (`revised` - 1) max(1, bias - 1) times: by default for 2 times, or for as many as the bias is, if that is
  /// more, as it is with tails heavier than the exponential's. At least 1: never for more; infinity: without a bound.
  double revised = 2;
  /// Time for which a request is held for each token by which its prompt is longer than the mean: some times, say 32,
  /// what a token of a prompt takes to be computed. 0: prompts count for nothing, as they should where most of them is
  /// cached. Finite, not negative.
  duration prompt_pace{};
  /// Time for which everybody waits for each token that room is made for, whose KV makes way and comes back, or is
  /// computed again: counted by the tokens of the request that reasons. 0, as where copies overlap with steps: nothing.
  /// Finite, not negative.
  duration move_pace{};
  /// Time without a token after which a request without a reader that has begun goes to the front, within another
  /// `patience`. For one that has not begun a quarter of it counts for each batch that is there
  /// (`crowd_clock::batches`). Positive; `duration::forever()`: never.
  duration patience = duration{60.0};
  // Before the others: clang 16 writes what comes after an empty [[no_unique_address]] member elsewhere.
  crowd_clock clock{};                        ///< By which requests arrive.
  recent_mean prompts{};                      ///< Of their prompts, in tokens.
  [[no_unique_address]] Expected expected{};  ///< Tells how long a request's output will be.
  [[no_unique_address]] Deadline deadline{};  ///< Tells when a request's reader runs out of tokens.

  /// Whether its values can be meant: a scheduler asserts it when it is made.
  [[nodiscard]] constexpr bool is_possible() const noexcept {
    return pace >= duration{} && slice >= tokens{1} && margin >= duration{} && revised >= 1 &&
           prompt_pace >= duration{} && prompt_pace < duration::forever() && move_pace >= duration{} &&
           move_pace < duration::forever() && patience > duration{};
  }

  /// A place for a request that joins.
  template <schedulable R>
  void enter(R& r, typename R::time_point arrived) noexcept {
    static_assert(output_predictor<Expected, R>,
                  "tessera: `earliest_due` needs requests with a member `expected_output`, or an Expected with "
                  "`tokens operator()(const R&) const noexcept`");
    auto& place = request_access::order_state<earliest_due>(r);
    clock.advance(arrived.seconds());
    place.entered = clock.at(arrived.seconds());
    place.first = max(expected(static_cast<const R&>(r)), tokens{});
    const double wait = held_for(r, arrived.seconds());
    take_place(r, wait > 0 ? detail::moved_by(arrived, wait) : R::time_point::never());
    place.turn = due(r);
    clock.joins();
  }

  /// Accounts for tokens that were run; true if the request is due for a new place.
  template <schedulable R>
  [[nodiscard]] bool charge(R& r, tokens ran) noexcept {
    auto& place = request_access::order_state<earliest_due>(r);
    place.quantum_used += ran;
    if (ran > tokens{}) place.served = true;
    if (!place.begun) {
      place.begun = true;
      clock.begins();
    }
    if (r.state().phase != phase::answering) {
      if (place.quantum_used < slice) return false;
      place.quantum_used = tokens{};
      return place.level == detail::urgent || due(r) != place.turn;
    }
    const bool has_no_reader =
        place.level == detail::unread || (place.level == detail::urgent && place.lane == urgent_lane::newcomer);
    return place.quantum_used >= slice || (has_no_reader && r.generated() > tokens{});
  }

  /// A new place for a request that was due.
  template <schedulable R>
  void requeue(R& r) noexcept {
    const auto& place = order_state<earliest_due>(r);
    take_place(r, place.level == detail::unread ? place.urgent_at : R::time_point::never());
    if (r.state().phase == phase::reasoning) request_access::order_state<earliest_due>(r).turn = due(r);
  }

  /// A resident that has just ended its reasoning is urgent at once.
  template <schedulable R>
  void change_phase(R& r) noexcept {
    take_place(r, R::time_point::never());
    auto& place = request_access::order_state<earliest_due>(r);
    place.level = detail::urgent;
    place.lane = urgent_lane::reader;
  }

  /// Hears that a request has ended or left.
  template <schedulable R>
  void leave(R& r) noexcept {
    clock.leaves(order_state<earliest_due>(r).begun);
  }

  /// Hears the time.
  template <clock_policy Clock>
  void advance(basic_time_point<Clock> now) noexcept {
    clock.advance(now.seconds());
  }

  /// When it becomes urgent, or, without a reader, has been held for long enough or is looked at; `never()` if it is
  /// urgent.
  template <schedulable R>
  [[nodiscard]] static typename R::time_point due_at(const R& r) noexcept {
    return detail::due_by_level<earliest_due>(r);
  }
  /// Makes it urgent; or, without a reader, looks whether it has waited for too long, or has it arrive now.
  template <schedulable R>
  void age(R& r) noexcept {
    auto& place = request_access::order_state<earliest_due>(r);
    const bool is_newcomer = place.level == detail::unread && r.generated() == tokens{};
    if (is_newcomer && place.look_at < place.urgent_at) {
      const auto until = newcomer_waits_until(r);
      if (clock.heard() < until.seconds()) {
        // The line may get shorter meanwhile: it is looked at again after a quarter of the patience.
        const auto again = detail::moved_by(typename R::time_point{}, clock.heard() + patience.seconds() / 4);
        place.look_at = until < again ? until : again;
        return;
      }
      static_cast<void>(detail::age_by_level<earliest_due>(r, patience, clock.heard()));
      place.urgent_at = until;  // by this those that have waited for too long are sorted
      return;
    }
    if (detail::age_by_level<earliest_due>(r, patience, clock.heard())) return;
    // Who was out of sight when its time was over, suspended perhaps, has come no later than by the engine's clock.
    const double latest = place.entered + held(r);
    place.entered = clock.now() < latest ? clock.now() : latest;
    place.urgent_at = R::time_point::never();
    place.turn = due(r);
  }

  /// By priority, then level, then place on it, then arrival.
  template <schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    return detail::before_by_level<earliest_due>(a, b);
  }

  /// Whether a waiting request may take the blocks of a resident.
  template <schedulable R>
  [[nodiscard]] bool displaces(const R& waiting, const R& resident) const noexcept {
    if (waiting.priority != resident.priority) return waiting.priority > resident.priority;
    const auto& w = order_state<earliest_due>(waiting);
    const auto& answer = order_state<earliest_due>(resident);
    const bool is_patient = w.level == detail::urgent && w.lane == urgent_lane::newcomer;
    const std::uint8_t level = is_patient ? detail::unread : w.level;
    if (level >= answer.level) return false;
    if (level == detail::urgent) return true;
    if (waiting.state().phase != phase::reasoning) return false;
    const double cost = cost_of_room(waiting);
    return !(cost > 0) || answer.urgent_at.seconds() - clock.heard() >= cost;
  }

 private:
  /// For how long all who are here wait, together, when KV makes way for that of such a request.
  template <schedulable R>
  [[nodiscard]] double cost_of_room(const R& r) const noexcept {
    return move_pace.seconds() * static_cast<double>(r.state().length.count()) * static_cast<double>(clock.present());
  }
  /// For how long a request is held that comes now, in seconds.
  template <schedulable R>
  [[nodiscard]] double held_for(const R& r, double now) noexcept {
    const double a_token = prompt_pace.seconds();
    if (!(a_token > 0) || r.state().computed > tokens{}) return 0;
    const double longer = prompts.excess(static_cast<double>(r.prompt.count()), now, 1 / a_token);
    return longer > 0 ? a_token * longer : 0;
  }
  /// When the reader of a request without one would have been through, by what is expected of it: now, or, if it has
  /// generated nothing, when it came.
  template <schedulable R>
  [[nodiscard]] std::uint64_t due(const R& r) const noexcept {
    const auto& place = order_state<earliest_due>(r);
    const auto first = static_cast<double>(place.first.count());
    const double most = first > 0 ? revised_for(r) * first : 0;  // also without a bound
    const double output = r.generated() > tokens{} ? static_cast<double>(expected(r).count()) : first;
    return turn_at(arrival(r) + pace.seconds() * (output > 0 ? (output < most ? output : most) : 0.0));
  }
  /// When it arrives, by the order's clock; one that is held, if that clock goes on as fast as now.
  template <schedulable R>
  [[nodiscard]] double arrival(const R& r) const noexcept {
    return order_state<earliest_due>(r).entered + held(r) * clock.rate();
  }
  /// For how long a request is held, from its arrival on, in seconds; 0 if it is not, or has been.
  template <schedulable R>
  [[nodiscard]] static double held(const R& r) noexcept {
    const auto& place = order_state<earliest_due>(r);
    const bool is_held = place.level == detail::unread && place.urgent_at != R::time_point::never();
    return is_held ? (place.urgent_at - r.state().arrived).seconds() : 0;
  }
  /// `revised` for its lengths.
  template <schedulable R>
  [[nodiscard]] double revised_for(const R& r) const noexcept {
    if constexpr (biased_predictor<Expected, R>) {
      const double excess = expected.length_bias(r) - 1;
      if (excess > 1 && revised > 1) return 1 + (revised - 1) * excess;
    }
    return revised;
  }
  /// Places are integers: a microsecond each, so that no clock's origin costs precision.
  [[nodiscard]] static std::uint64_t turn_at(double seconds) noexcept {
    constexpr double most = 9e18;
    const double us = seconds * 1e6;
    const double within = us < most ? (us > -most ? us : -most) : most;
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(within)) ^ (std::uint64_t{1} << 63U);
  }

  /// When a request that has generated nothing goes to the front, by the line as it is now.
  template <schedulable R>
  [[nodiscard]] typename R::time_point newcomer_waits_until(const R& r) const noexcept {
    return detail::moved_by(r.state().arrived, patience.seconds() / 4 * clock.batches());
  }
  template <schedulable R>
  void take_place(R& r, typename R::time_point held_until) noexcept {
    static_assert(reader_deadline<Deadline, R>,
                  "tessera: `earliest_due` needs requests with a token pacer as a member `pacer`, or a Deadline with "
                  "`R::time_point operator()(const R&) const noexcept`");
    // Whether it has begun: one that has ended its reasoning is waited for, though its reader has nothing yet.
    const bool is_read = r.state().phase == phase::answering && r.generated() > tokens{};
    detail::place_by_reader<earliest_due>(r, is_read, deadline, margin, patience, clock.heard());
    if (is_read) return;
    auto& place = request_access::order_state<earliest_due>(r);
    place.urgent_at = held_until;
    if (r.generated() == tokens{}) place.look_at = detail::moved_by(r.state().arrived, patience.seconds() / 4);
  }
};

}  // namespace order
TESSERA_NAMESPACE_END
