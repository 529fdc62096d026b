// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/concepts.hpp>

#include <concepts>

/// @file
/// The request with the shortest predicted rest goes first; predictions are refined while requests run.

TESSERA_NAMESPACE_BEGIN
namespace order {

/// What is left of the output length that the engine wrote into the request's member `expected_output`: a prediction
/// that is not refined. At least 1: a request that has outgrown it is expected to end with every token.
struct rest_of_expected_output {
  /// Reads `r.expected_output`.
  template <schedulable R>
    requires requires(const R& r) {
      { r.expected_output } -> std::convertible_to<tokens>;
    }
  [[nodiscard]] tokens operator()(const R& r) const noexcept {
    return max(tokens{r.expected_output} - r.generated(), tokens{1});
  }
};

/// Predicts the tokens that a request has still to generate, given those that it has generated.
/// Requires: (1) copyable; (2) `f(r) noexcept -> tokens`.
/// Not checked: it changes only with what the request has generated. Complexity: called when a request joins, and once
/// per slice. Models: `order::rest_of_expected_output`, `rank::expected_rest`.
template <class F, class R>
concept rest_predictor = std::copyable<F> && schedulable<R> && requires(const F& f, const R& r) {
  { f(r) } noexcept -> std::same_as<tokens>;
};

/// Shortest predicted rest first, preemptive while a request is young: (priority, past the point of no return,
/// predicted rest, sequence). The prediction is made when a request joins, and again after every `slice` tokens. A
/// waiting request displaces a resident that is expected to generate more. It does not displace one that has generated
/// `preemptible` of its first prediction: the KV of such a request is large, and its rest small.
///
/// Starvation: there is no bound, as in the paper. Under overload, requests with long predictions wait for ever. A
/// request that has generated less than `preemptible` of its length may stop for ever. `earliest_due` orders by lengths
/// as well, and has a bound.
///
/// When to use: predictions that improve while a request runs (`rank::length_distribution`, or a probe of the model's
/// embeddings). KV memory must allow for some preemption.
/// Source: TRAIL (Shahout et al., "Don't Stop Me Now: Embedding Based Scheduling for LLMs", 2024), section 3: shortest
/// predicted remaining processing time with limited preemption.
/// @tparam Rest a `rest_predictor`; by default what is left of the request's member `expected_output`.
template <class Rest = rest_of_expected_output>
struct shortest_rest {
  static constexpr bool ages = false;  ///< Whether waiting too long moves a request to the front.

  /// The state that it keeps about each request.
  template <clock_policy Clock>
  struct state {
    tokens rest{};       ///< Predicted rest when it took its place.
    tokens used{};       ///< Tokens generated since.
    tokens yields_to{};  ///< Tokens generated after which it keeps its place.
    bool keeps = false;  ///< It has generated them.
  };

  tokens slice{32};                      ///< Tokens generated between two predictions. At least 1.
  double preemptible = 0.8;              ///< The paper's C, a fraction of the first prediction.
  [[no_unique_address]] Rest rest_of{};  ///< Predicts the tokens that a request has still to generate.

  /// Whether the parameters are valid. A scheduler asserts this at construction.
  [[nodiscard]] constexpr bool is_possible() const noexcept { return slice >= tokens{1} && preemptible >= 0; }

  /// A place for a request that joins.
  template <schedulable R>
  void enter(R& r, typename R::time_point /*now*/) noexcept {
    static_assert(rest_predictor<Rest, R>,
                  "tessera: `shortest_rest` needs requests with a member `expected_output`, or a Rest with "
                  "`tokens operator()(const R&) const noexcept`");
    auto& s = request_access::order_state<shortest_rest>(r);
    s = {};
    s.rest = rest_of(static_cast<const R&>(r));
    const auto all = static_cast<double>((s.rest + r.generated()).count());
    s.yields_to = max(tokens{static_cast<std::int64_t>(preemptible * all)}, tokens{1});
    s.keeps = r.generated() >= s.yields_to;
  }

  /// Accounts for tokens that were run; true if the request is due for a new place.
  template <schedulable R>
  [[nodiscard]] bool charge(R& r, tokens ran) noexcept {
    auto& s = request_access::order_state<shortest_rest>(r);
    s.used += ran;
    return s.used >= slice || (!s.keeps && r.generated() >= s.yields_to);
  }

  /// A new place for a request that was due.
  template <schedulable R>
  void requeue(R& r) noexcept {
    auto& s = request_access::order_state<shortest_rest>(r);
    s.rest = rest_of(static_cast<const R&>(r));
    s.used = tokens{};
    s.keeps = s.keeps || r.generated() >= s.yields_to;
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

  /// By priority, then those that keep their place, then by predicted rest, then by arrival.
  template <schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    const auto& s = order_state<shortest_rest>(a);
    const auto& t = order_state<shortest_rest>(b);
    if (s.keeps != t.keeps) return s.keeps;
    if (s.rest != t.rest) return s.rest < t.rest;
    return a.state().sequence < b.state().sequence;
  }

  /// Whether a waiting request may take the blocks of a resident.
  template <schedulable R>
  [[nodiscard]] static bool displaces(const R& waiting, const R& resident) noexcept {
    if (waiting.priority != resident.priority) return waiting.priority > resident.priority;
    return !order_state<shortest_rest>(resident).keeps &&
           (order_state<shortest_rest>(waiting).keeps ||
            order_state<shortest_rest>(waiting).rest < order_state<shortest_rest>(resident).rest);
  }
};

}  // namespace order
TESSERA_NAMESPACE_END
