// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/boost_time.hpp>
#include <tessera/order/concepts.hpp>

#include <concepts>

/// @file
/// Whoever must be served soonest to keep what was promised to its user.

TESSERA_NAMESPACE_BEGIN
namespace order {

/// What a request's user was promised.
struct token_deadlines {
  duration ttft = duration{2.0};  ///< From the arrival to the first token.
  duration tpot = duration{0.1};  ///< From each token to the next. A token that came early leaves the next ones time.
};

/// The same promise to everybody.
struct promise_to_all {
  token_deadlines promised{};  ///< What it is.

  /// Reads nothing of the request.
  template <schedulable R>
  [[nodiscard]] constexpr token_deadlines operator()(const R& /*r*/) const noexcept {
    return promised;
  }
};

/// Says what a request's user was promised.
/// Requires: (1) copyable; (2) `f(r) noexcept -> token_deadlines`.
/// Not checked: a pure function of members that do not change; nothing is negative. Complexity: called when a request
/// joins and once per slice. Models: `order::promise_to_all`.
template <class F, class R>
concept deadline_promise = std::copyable<F> && schedulable<R> && requires(const F& f, const R& r) {
  { f(r) } noexcept -> std::same_as<token_deadlines>;
};

/// Least slack first: (priority, the latest moment at which it must be served, sequence). A request without a token
/// must start so long before its first one is due as its prompt takes; one that has some must be served when the next
/// one is due. So prompts go ahead of decodes that are early, and decodes that fall behind ahead of prompts that have
/// time. Who waits displaces a resident that has more slack by `margin`.
///
/// It is optimal in the sense of earliest due dates: what one engine can serve in time, it does. It is not where it
/// cannot: then it serves whoever is latest, and many miss by a little. Refuse at `submit` what cannot be met.
///
/// Starvation: a request's deadline does not move while it gets no token. So only requests whose deadlines are earlier
/// go before it: new ones for as long as the promises differ, and then none.
///
/// When to use: promises of TTFT and TPOT that differ from request to request, below saturation.
/// Source: least slack time (Mok and Dertouzos 1978) over the two deadlines of a stream of tokens, as the SLO-aware
/// queues of JITServe and Tempo (arXiv 2504.20068) have them, without their value functions.
/// @tparam Promise a `deadline_promise`.
template <class Promise = promise_to_all>
struct least_slack {
  static constexpr bool ages = false;  ///< Whether waiting too long moves a request to the front.

  /// What it keeps about each request.
  template <clock_policy Clock>
  struct state {
    basic_time_point<Clock> start_by{};  ///< When it must be served, as of when it took its place.
    tokens used{};                       ///< Tokens generated since.
  };

  duration prefill_per_token = duration{60e-6};  ///< Time that a token of a prompt takes.
  duration margin = duration{1.0};               ///< Less slack by this much is worth a preemption.
  tokens slice{32};                              ///< Tokens generated between two looks at a request. At least 1.
  [[no_unique_address]] Promise promise{};       ///< Says what was promised.

  /// Whether its values can be meant: a scheduler asserts it when it is made.
  [[nodiscard]] constexpr bool is_possible() const noexcept {
    return prefill_per_token >= duration{} && margin >= duration{} && slice >= tokens{1};
  }

  /// A place for a request that joins.
  template <schedulable R>
  void enter(R& r, typename R::time_point /*arrived*/) noexcept {
    static_assert(deadline_promise<Promise, R>,
                  "tessera: `least_slack` needs a Promise with `token_deadlines operator()(const R&) const noexcept`");
    take_place(r);
  }

  /// Accounts for tokens that were run; true if the request is due for a new place.
  template <schedulable R>
  [[nodiscard]] bool charge(R& r, tokens ran) noexcept {
    auto& s = request_access::order_state<least_slack>(r);
    s.used += ran;
    const bool has_begun = ran > tokens{} && r.generated() == ran;  // another deadline counts from now on
    return s.used >= slice || has_begun;
  }

  /// A new place for a request that was due.
  template <schedulable R>
  void requeue(R& r) noexcept {
    take_place(r);
  }

  /// A new place for a request that begins to answer.
  template <schedulable R>
  void change_phase(R& /*r*/) noexcept {}

  /// Hears that a request has ended or left.
  template <schedulable R>
  void leave(R& /*r*/) noexcept {}

  /// Hears the time.
  template <clock_policy Clock>
  void advance(basic_time_point<Clock> /*now*/) noexcept {}

  /// By priority, then by the moment at which it must be served, then by arrival.
  template <schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    const auto& s = order_state<least_slack>(a);
    const auto& t = order_state<least_slack>(b);
    if (s.start_by != t.start_by) return s.start_by < t.start_by;
    return a.state().sequence < b.state().sequence;
  }

  /// Whether a waiting request may take the blocks of a resident.
  template <schedulable R>
  [[nodiscard]] bool displaces(const R& waiting, const R& resident) const noexcept {
    if (waiting.priority != resident.priority) return waiting.priority > resident.priority;
    return detail::moved_by(order_state<least_slack>(waiting).start_by, margin.seconds()) <
           order_state<least_slack>(resident).start_by;
  }

 private:
  template <schedulable R>
  void take_place(R& r) noexcept {
    auto& s = request_access::order_state<least_slack>(r);
    const token_deadlines promised = promise(static_cast<const R&>(r));
    const auto generated = static_cast<double>(r.generated().count());
    const double prompt = generated > 0 ? 0 : prefill_per_token.seconds() * static_cast<double>(r.prompt.count());
    // Who is promised no time for a token may be promised one for the first: forever times no token is no time.
    const double tokens_s = generated > 0 ? promised.tpot.seconds() * generated : 0;
    s.start_by = detail::moved_by(r.state().arrived, promised.ttft.seconds() + tokens_s - prompt);
    s.used = tokens{};
  }
};

}  // namespace order
TESSERA_NAMESPACE_END
