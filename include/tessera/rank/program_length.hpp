// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/earliest_due.hpp>
#include <tessera/order/least_attained_service.hpp>
#include <tessera/rank/expected_rest.hpp>

#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// What a request is expected to generate, and `weight` times what its program has been given before: an
/// `order::output_predictor` with which `order::earliest_due` lets the calls of young programs go ahead of those of
/// programs that have had much. Each token that was given puts a call off by `weight` times the order's pace, by the
/// order's clock (`order::crowd_clock`), so that nobody is put off for ever. It is read when the order asks: when a
/// call joins, and once per slice while it reasons, where `earliest_due` lets it count for some times (`revised`) the
/// first answer.
///
/// When to use: agents, where a cluster cannot carry all programs and some are to be served well. The new ones are, and
/// the old ones pay: docs/results/due_first has what a weight buys. 0, and where a request has no program: `Expected`.
/// Whoever ends a call adds what was generated for it to its program's `attained`: under `least_attained_service` the
/// order does, under `earliest_due` the engine. Whole tokens count: a `weight` of 0.04 is nothing to 20 of them.
///
/// O(1) beside `Expected`.
/// Source: ours. The service that counts is Autellix's (arXiv 2502.13965), there in levels, here as a due time.
/// @tparam Expected an `order::output_predictor`. @tparam Program an `order::program_of_request`.
template <class Expected = expected_length<>, class Program = order::program_member>
struct program_length {
  // Before the others: clang 16 writes what comes after an empty [[no_unique_address]] member elsewhere.
  double weight = 0;                           ///< Of a token that its program has had. Not negative.
  [[no_unique_address]] Expected expected{};   ///< Of a request alone.
  [[no_unique_address]] Program program_of{};  ///< Says to which program a request belongs.

  /// Reads what the request's program has been given.
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
    constexpr double most = 1e15;  // as good as for ever, and nothing overflows
    return put_off > 0 ? own + tokens{static_cast<std::int64_t>(put_off < most ? put_off : most)} : own;
  }
  /// That of the request alone.
  template <schedulable R>
    requires order::biased_predictor<Expected, R>
  [[nodiscard]] double length_bias(const R& r) const noexcept {
    return expected.length_bias(r);
  }
};

}  // namespace rank
TESSERA_NAMESPACE_END
