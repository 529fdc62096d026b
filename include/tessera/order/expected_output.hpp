// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/concepts.hpp>

#include <concepts>

/// @file
/// What an order expects of a request's output.

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

/// Predicts the total output of a request: reasoning and tokens generated so far included. Requires: (1) copyable; (2)
/// `f(r) noexcept -> tokens`.
/// Not checked: it does not depend on the time. 0 or less: unknown. Complexity: called when a
/// request joins, and once per slice while it reasons. Models: `order::expected_output_member`,
/// `rank::expected_length`, `rank::program_length`.
template <class F, class R>
concept output_predictor = std::copyable<F> && schedulable<R> && requires(const F& f, const R& r) {
  { f(r) } noexcept -> std::same_as<tokens>;
};

}  // namespace order
TESSERA_NAMESPACE_END
