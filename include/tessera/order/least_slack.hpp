// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/boost_time.hpp>
#include <tessera/order/concepts.hpp>

#include <concepts>

/// @file
/// The request that must be served soonest to meet its deadlines goes first.

TESSERA_NAMESPACE_BEGIN
namespace order {

/// The deadlines promised for a request.
struct token_deadlines {
  duration ttft = duration{2.0};  ///< From the arrival to the first token.
  duration tpot = duration{0.1};  ///< From each token to the next. An early token leaves more time for the next ones.
};

/// The same deadlines for every request.
struct promise_to_all {
  token_deadlines promised{};  ///< The deadlines.

  /// Does not read the request.
  template <schedulable R>
  [[nodiscard]] constexpr token_deadlines operator()(const R& /*r*/) const noexcept {
    return promised;
  }
};

/// The deadlines promised for a request.
/// Requires: (1) copyable; (2) `f(r) noexcept -> token_deadlines`.
/// Not checked: a pure function of members that do not change; nothing is negative. Complexity: called when a request
/// joins and once per slice. Models: `order::promise_to_all`.
template <class F, class R>
concept deadline_promise = std::copyable<F> && schedulable<R> && requires(const F& f, const R& r) {
  { f(r) } noexcept -> std::same_as<token_deadlines>;
};

/// Least slack first: (priority, the latest moment at which it must be served, sequence). A request without a token
/// must start before its first token is due, earlier by the time of its prefill. A request with tokens must be served
/// when its next one is due. So prefills go before decodes that are early, and late decodes go before prefills that
/// have time. A waiting request displaces a resident that has more slack by `margin`.
///
/// It is optimal in the sense of earliest due dates: if one engine can serve all in time, it does. If it cannot, it
/// serves the latest request first, and many miss by a little. Refuse at `submit` what cannot be met.
///
/// Starvation: a request's deadline does not move while it gets no token. So only requests with earlier deadlines go
/// before it: new requests as long as the deadlines differ by more, and then none.
///
/// When to use: promises of TTFT and TPOT that differ from request to request, below saturation.
/// Source: least slack time (Mok and Dertouzos 1978) over the two deadlines of a stream of tokens. The SLO-aware queues
/// of JITServe and Tempo (arXiv 2504.20068) use them as well, with value functions, which are left out here.
/// @tparam Promise a `deadline_promise`.
template <class Promise = promise_to_all>
struct least_slack {
  static constexpr bool ages = false;  ///< Whether waiting too long moves a request to the front.

  /// The state that it keeps about each request.
  template <clock_policy Clock>
  struct state {
    basic_time_point<Clock> start_by{};  ///< When it must be served, computed when it took its place.
    tokens used{};                       ///< Tokens generated since.
  };

  duration prefill_per_token = duration{60e-6};  ///< Prefill time of a token.
  duration margin = duration{1.0};               ///< A difference in slack that is worth a preemption.
  tokens slice{32};                              ///< Tokens generated between two looks at a request. At least 1.
  [[no_unique_address]] Promise promise{};       ///< Gives the promised deadlines.

  /// Whether the parameters are valid. A scheduler asserts this at construction.
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

  /// Called when a request has ended or left.
  template <schedulable R>
  void leave(R& /*r*/) noexcept {}

  /// Called with the time before each plan.
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
    // An infinite time per token with a finite time to the first one: infinity times 0 tokens must be 0.
    const double tokens_s = generated > 0 ? promised.tpot.seconds() * generated : 0;
    s.start_by = detail::moved_by(r.state().arrived, promised.ttft.seconds() + tokens_s - prompt);
    s.used = tokens{};
  }
};

}  // namespace order
TESSERA_NAMESPACE_END
