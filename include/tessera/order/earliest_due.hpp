// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/crowd_clock.hpp>
#include <tessera/order/expected_output.hpp>
#include <tessera/order/reader_levels.hpp>
#include <tessera/order/recent_mean.hpp>

#include <concepts>
#include <cstdint>

/// @file
/// Streaming answers are paced to reading speed. Before them, the request with the earliest deadline by expected
/// length.

TESSERA_NAMESPACE_BEGIN
namespace order {

/// A predictor that also knows the length bias E[X^2] / E[X]^2 among requests with the same expected output. This is
/// the mean output that a token belongs to, over the mean output; heavier tails have more. Models:
/// `rank::expected_length`, `rank::program_length`.
template <class F, class R>
concept biased_predictor = output_predictor<F, R> && requires(const F& f, const R& r) {
  { f.length_bias(r) } noexcept -> std::same_as<double>;
};

/// The state that `earliest_due` keeps about each request.
template <clock_policy Clock>
struct due_place : reader_place<Clock> {
  tokens first{};      ///< Expected output when it joined.
  double entered = 0;  ///< Value of the order's clock when it arrived. For a request held for its prompt: at the end of
                       ///< the hold. Its expected output counts from there.
};

/// Answers just in time, as `paced`; before them, the request with the earliest deadline: (priority, level, place on
/// it, sequence).
///
/// - Level 0, urgent. First, requests that have stalled (see below). Then answers with a reader that runs dry within
///   `margin`, and requests that have ended their reasoning and have no token yet. Then requests that have not begun
///   for `patience`. Earliest deadline first. An urgent request stays urgent until its slice is used up, and buffers
///   tokens meanwhile.
/// - Level 1: requests without a reader, in reasoning or before the first token. The deadline is arrival + expected
///   output x `pace`: when a reader that began on arrival would have finished. It is on a clock that slows down as the
///   queue grows (`crowd_clock`). A request with a prompt longer than the mean arrives later, by `prompt_pace` per
///   extra token. Earliest deadline first.
/// - Level 2, calm: answers with enough buffered for their readers. Earliest deadline first.
///
/// The expected length of a reasoning request is updated after each slice. A predictor that looks at the tokens
/// generated so far (`rank::expected_length`) expects requests that have reasoned for long to be long. New requests,
/// with unknown length, then go before them: young first, as far as experience supports it.
/// An updated expectation counts for at most `revised` times the first one, which bounds how long a long request is
/// overtaken. If few long requests generate most of the output, and all others would wait for them, the bound is
/// larger.
///
/// So short requests overtake long ones that came a little earlier, by the difference of their lengths. If lengths are
/// unknown or equal, and prompts do not count, the order is arrival order.
///
/// Starvation is bounded by `patience`. On the order's clock alone, a request of 4,000 expected tokens could be
/// overtaken for hours while the queue is long.
/// - A request that has generated nothing for `patience / 4 * (waiting + begun) / begun` comes next after the readers,
///   the longest-waiting first. So its first token comes as under `fcfs`, later by at most what arrives within that
///   time. The time grows with the queue: a fixed time would be arrival order as soon as all requests wait for longer.
/// - A reasoning request has *stalled* if it has generated tokens, and then none for one to two times `patience`. It is
///   served before everything else of its priority until it has generated a slice. So the gap between two of its tokens
///   is at most `2 * patience` plus the wait for a free place behind requests that stalled earlier.
/// - An answer that has begun becomes urgent `margin` before its reader runs dry. Only answers with readers that run
///   dry sooner, and stalled requests, go before it.
///
/// Long prompts: while one is computed, requests that have not begun wait, and steps are longer. So short prompts go
/// first. A request is *held* for the tokens by which its prompt exceeds the mean of the last thousand or so prompts.
/// The hold runs on the engine's clock, so it does not depend on the queue.
/// After the hold the request counts as arrived at that moment. It may be served earlier, at the place that it would
/// have with an unchanged queue. So among requests with the same prompt and expectation the first to come is the first
/// to be served, once it has been held. Before that, each stands where the queue that it found has put it.
/// (The mean rises slowly enough that the hold of a later request does not end first.) A request that comes with its KV
/// waits for no prompt, and is not held.
///
/// Preemption: an urgent request displaces all others, and reasoning displaces calm answers, with readers that do not
/// notice. If KV transfers delay all requests (`move_pace`), reasoning displaces fewer answers. The buffer of the
/// answer's reader must then last longer than the total delay of all present requests. The time that one request gains
/// is lost by the others.
/// A prompt without reasoning displaces nothing, because its answer would soon be calm as well. No request displaces
/// one of its own level: a prediction is too weak a reason to drop KV. (The first waiting request decides for the
/// queue: behind a prompt that may not displace, reasoning waits as well.) A stalled request displaces as an urgent one
/// does. A request that became urgent because it has not begun displaces nothing more than before.
///
/// When to use: an engine that keeps a token pacer per request and can predict output lengths, however roughly
/// (`rank::length_calibrator` turns PARS's scores into lengths). If only some lengths are known, give the other
/// requests the mean (a `length_calibrator` does so for NaN). A length of 0 tokens would put them first.
///
/// Source: ours. Level 1 is earliest due date first, which minimises the greatest lateness if all requests are there at
/// once (Jackson 1955). The due date is proportional to the length, so what is kept low is the time per token. The
/// other levels are those of `paced`.
/// @tparam Expected an `output_predictor`; by default the request's member `expected_output`.
/// @tparam Deadline a `reader_deadline`; by default the request's member `pacer`.
template <class Expected = expected_output_member, class Deadline = pacer_member>
struct earliest_due {
  static constexpr bool ages = true;            ///< Whether a request gets another place when its time has come.
  static constexpr bool ages_to_front = false;  ///< A request that has been held may stand behind others when its hold
                                                ///< ends.

  /// The state that it keeps about each request.
  template <clock_policy Clock>
  using state = due_place<Clock>;

  duration pace = duration{0.1};  ///< Deadline per token of expected output, against waiting time. Not negative.
  tokens slice{250};              ///< Tokens generated between two looks at an answer's reader. At least 1.
  /// An answer becomes urgent this long before its reader runs dry: the time of a few steps. `duration::forever()`:
  /// always.
  duration margin = duration{1.0};
  /// An updated expectation counts for at most `revised` times the first. With a `biased_predictor`, the factor is 1 +
  /// (`revised` - 1) max(1, bias - 1). So by default it is 2, or the bias if that is larger, as with tails heavier than
  /// the exponential's. At least 1: an update never raises the expectation. Infinity: no bound.
  double revised = 2;
  /// Time for which a request is held per token by which its prompt exceeds the mean. Good values are some times, for
  /// example 32 times, the prefill time of a token. 0: prompts do not count, which suits prompts that are mostly
  /// cached. Finite, not negative.
  duration prompt_pace{};
  /// Delay of all requests per token that room is made for: KV is moved out and back, or computed again. It counts the
  /// tokens of the reasoning request. 0, if copies overlap with steps: no delay. Finite, not negative.
  duration move_pace{};
  /// Time without a token after which a request that has begun and has no reader goes to the front, within another
  /// `patience`. For one that has not begun, a quarter of it counts per batch present (`crowd_clock::batches`).
  /// Positive; `duration::forever()`: never.
  duration patience = duration{60.0};
  // Before the members below: clang 16 misplaces what follows an empty [[no_unique_address]] member.
  crowd_clock clock{};                        ///< The clock by which requests arrive.
  recent_mean prompts{};                      ///< Mean prompt length, in tokens.
  [[no_unique_address]] Expected expected{};  ///< Predicts a request's output length.
  [[no_unique_address]] Deadline deadline{};  ///< Says when a request's reader runs out of tokens.

  /// Whether the parameters are valid. A scheduler asserts this at construction.
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

  /// The deadline of a request by the present `pace`. Requests with a reader, and urgent ones, keep their places.
  template <schedulable R>
  void retune(R& r) noexcept {
    auto& place = request_access::order_state<earliest_due>(r);
    if (place.level == detail::unread) place.turn = due(r);
  }

  /// Called when a request has ended or left.
  template <schedulable R>
  void leave(R& r) noexcept {
    clock.leaves(order_state<earliest_due>(r).begun);
  }

  /// Called with the time before each plan.
  template <clock_policy Clock>
  void advance(basic_time_point<Clock> now) noexcept {
    clock.advance(now.seconds());
  }

  /// When it becomes urgent. For a request without a reader: when its hold ends or it is to be checked. `never()` if it
  /// is urgent.
  template <schedulable R>
  [[nodiscard]] static typename R::time_point due_at(const R& r) noexcept {
    return detail::due_by_level<earliest_due>(r);
  }
  /// Makes it urgent. For a request without a reader: checks whether it has waited for too long, or ends its hold.
  template <schedulable R>
  void age(R& r) noexcept {
    auto& place = request_access::order_state<earliest_due>(r);
    const bool is_newcomer = place.level == detail::unread && r.generated() == tokens{};
    if (is_newcomer && place.look_at < place.urgent_at) {
      const auto until = newcomer_waits_until(r);
      if (clock.heard() < until.seconds()) {
        // The queue may get shorter meanwhile: it is checked again after a quarter of the patience.
        const auto again = detail::moved_by(typename R::time_point{}, clock.heard() + patience.seconds() / 4);
        place.look_at = until < again ? until : again;
        return;
      }
      static_cast<void>(detail::age_by_level<earliest_due>(r, patience, clock.heard()));
      place.urgent_at = until;  // sorts the requests that have waited for too long
      return;
    }
    if (detail::age_by_level<earliest_due>(r, patience, clock.heard())) return;
    // A request that was out of sight when its hold ended, suspended perhaps, arrived no later than by the engine's
    // clock.
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
  /// Total delay of all present requests when KV makes way for that of this request, in seconds.
  template <schedulable R>
  [[nodiscard]] double cost_of_room(const R& r) const noexcept {
    return move_pace.seconds() * static_cast<double>(r.state().length.count()) * static_cast<double>(clock.present());
  }
  /// The hold of a request that comes now, in seconds.
  template <schedulable R>
  [[nodiscard]] double held_for(const R& r, double now) noexcept {
    const double a_token = prompt_pace.seconds();
    if (!(a_token > 0) || r.state().computed > tokens{}) return 0;
    const double longer = prompts.excess(static_cast<double>(r.prompt.count()), now, 1 / a_token);
    return longer > 0 ? a_token * longer : 0;
  }
  /// When the reader of a request without one would have finished, by the expected output: of now, or, before the first
  /// token, of its arrival.
  template <schedulable R>
  [[nodiscard]] std::uint64_t due(const R& r) const noexcept {
    const auto& place = order_state<earliest_due>(r);
    const auto first = static_cast<double>(place.first.count());
    const double most = first > 0 ? revised_for(r) * first : 0;  // also if there is no bound
    const double output = r.generated() > tokens{} ? static_cast<double>(expected(r).count()) : first;
    return turn_at(arrival(r) + pace.seconds() * (output > 0 ? (output < most ? output : most) : 0.0));
  }
  /// Its arrival on the order's clock. For a held request: if the clock keeps its present rate.
  template <schedulable R>
  [[nodiscard]] double arrival(const R& r) const noexcept {
    return order_state<earliest_due>(r).entered + held(r) * clock.rate();
  }
  /// The hold of a request, from its arrival on, in seconds; 0 if it is not held, or has been.
  template <schedulable R>
  [[nodiscard]] static double held(const R& r) noexcept {
    const auto& place = order_state<earliest_due>(r);
    const bool is_held = place.level == detail::unread && place.urgent_at != R::time_point::never();
    return is_held ? (place.urgent_at - r.state().arrived).seconds() : 0;
  }
  /// The factor that bounds updates of this request's expectation.
  template <schedulable R>
  [[nodiscard]] double revised_for(const R& r) const noexcept {
    if constexpr (biased_predictor<Expected, R>) {
      const double excess = expected.length_bias(r) - 1;
      if (excess > 1 && revised > 1) return 1 + (revised - 1) * excess;
    }
    return revised;
  }
  /// Places are integers, in microseconds, so that no clock's origin costs precision.
  [[nodiscard]] static std::uint64_t turn_at(double seconds) noexcept {
    constexpr double most = 9e18;
    const double us = seconds * 1e6;
    const double within = us < most ? (us > -most ? us : -most) : most;
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(within)) ^ (std::uint64_t{1} << 63U);
  }

  /// When a request that has generated nothing goes to the front, by the present queue.
  template <schedulable R>
  [[nodiscard]] typename R::time_point newcomer_waits_until(const R& r) const noexcept {
    return detail::moved_by(r.state().arrived, patience.seconds() / 4 * clock.batches());
  }
  template <schedulable R>
  void take_place(R& r, typename R::time_point held_until) noexcept {
    static_assert(reader_deadline<Deadline, R>,
                  "tessera: `earliest_due` needs requests with a token pacer as a member `pacer`, or a Deadline with "
                  "`R::time_point operator()(const R&) const noexcept`");
    // Whether it has begun to answer. A reader waits for a request that has ended its reasoning, although it has no
    // token yet.
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
