// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/earliest_due.hpp>
#include <tessera/order/least_attained_service.hpp>
#include <tessera/rank/expected_rest.hpp>

#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// The expected output of a request, plus `weight` times the service that its program has received. An
/// `order::output_predictor` with which `order::earliest_due` lets calls of young programs go before calls of programs
/// with much service. Each token of service defers a call by `weight` times the order's pace, on the order's clock
/// (`order::crowd_clock`). So no call is deferred for ever.
/// It is read when a call joins, and once per slice while it reasons; then `earliest_due` bounds it to `revised` times
/// the first answer.
///
/// When to use: agents, if a cluster cannot carry all programs and some are to be served well. New ones are, at the
/// cost of old ones: docs/results/due_first shows the effect of a weight. 0, or a request without a program:
/// `Expected`. The component that ends a call adds its generated tokens to its program's `attained`: the order under
/// `least_attained_service`, the engine under `earliest_due`. Whole tokens count: a `weight` of 0.04 has no effect on
/// 20 of them.
///
/// O(1) in addition to `Expected`.
/// Source: ours. The service is Autellix's (arXiv 2502.13965), there in levels, here as a due time.
/// @tparam Expected an `order::output_predictor`. @tparam Program an `order::program_of_request`.
template <class Expected = expected_length<>, class Program = order::program_member>
struct program_length {
  // Before the members below: clang 16 misplaces what follows an empty [[no_unique_address]] member.
  double weight = 0;                           ///< Weight per token that its program has received. Not negative.
  [[no_unique_address]] Expected expected{};   ///< The predictor for a request alone.
  [[no_unique_address]] Program program_of{};  ///< Maps a request to its program.

  /// Reads the service of the request's program.
  template <schedulable R>
  [[nodiscard]] tokens operator()(const R& r) const noexcept {
    static_assert(order::output_predictor<Expected, R>,
                  "tessera: the Expected of `program_length` does not say how long these requests will be: "
                  "`rank::expected_length` reads a member `score`, `order::expected_output_member` a member "
                  "`expected_output`");
    static_assert(
        order::program_of_request<Program, R>,
        "tessera: `program_length` needs requests with a pointer `program` to an `order::program_service`, or "
        "a Program with `program_service* operator()(const R&) const noexcept`");
    const tokens own = expected(r);
    const order::program_service* const p = program_of(r);
    if (p == nullptr) return own;
    const double put_off = weight * static_cast<double>(p->attained.count());
    constexpr double most = 1e15;  // in effect for ever, without overflow
    return put_off > 0 ? own + tokens{static_cast<std::int64_t>(put_off < most ? put_off : most)} : own;
  }
  /// The bias of the request alone.
  template <schedulable R>
    requires order::biased_predictor<Expected, R>
  [[nodiscard]] double length_bias(const R& r) const noexcept {
    return expected.length_bias(r);
  }
};

}  // namespace rank
TESSERA_NAMESPACE_END
