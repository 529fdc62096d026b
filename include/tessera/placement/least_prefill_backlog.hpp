// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/placement/phi.hpp>
#include <tessera/placement/turn.hpp>

#include <concepts>
#include <cstddef>
#include <limits>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// `error`: the uncertainty of `phi`, in the same unit, not negative; 0: exact. `prefill_backlog`: the work before a
/// request that comes now, for instance FLOPs of prompts, or its delay for itself and others.
template <class View>
concept shows_prefill_backlog = requires(const View& v) {
  { v.error } -> std::convertible_to<double>;
  { v.prefill_backlog } -> std::convertible_to<double>;
};

/// The worker with the highest Phi, as `highest_phi` chooses. While that worker has at least `phi_low_watermark`,
/// others may count as equal. These are workers with at least `phi_high_watermark`, and workers with at least
/// `phi_low_watermark` and a Phi that equals the highest within their error. Among equals, the one with the least
/// `prefill_backlog`; ties go round-robin.
///
/// A request does not know about headroom by expected lengths. If every request follows it to the last block, one
/// instance gets all requests of a second, because a request has just ended there. Each then waits behind the prompt of
/// the one before.
///
/// When to use: workers that decode and prefill, by the smaller of Phi_T and Phi_S. A good `error` is the deviation of
/// exponential lengths. It is the root of the sum of squares of the expected final blocks of its requests, prompts
/// included, over the worker's blocks. If workers differ in speed, use an error of 0 and a `phi_high_watermark` that no
/// worker reaches. A slow worker with an empty `prefill_backlog` is not an equal.
///
/// O(workers), no allocation. `nowhere` for an empty range.
/// Source: ours.
struct least_prefill_backlog {
  double phi_low_watermark = 0.5;    ///< Below this, only the highest Phi counts.
  double phi_high_watermark = 0.75;  ///< From this on, Phi is not compared.
  highest_phi highest{};             ///< Chooses below `phi_low_watermark`.
  turn ties{};                       ///< Round-robin position for ties, from `phi_low_watermark` on.

  /// The index of the chosen worker. Advances a round-robin position.
  template <instance_views V>
    requires shows_phi<view_t<V>> && shows_requests<view_t<V>> && shows_prefill_backlog<view_t<V>>
  [[nodiscard]] constexpr std::size_t operator()(const V& workers) noexcept {
    TESSERA_ASSERT(phi_low_watermark <= phi_high_watermark, "the low watermark is at most the high one");
    const double most = most_of(workers);
    if (!(most >= phi_low_watermark)) return highest(workers);
    return ties.least(
        0, workers.size(), [&](std::size_t i) noexcept { return static_cast<double>(workers[i].prefill_backlog); },
        [&](std::size_t i) noexcept { return is_equal(workers[i], most); });
  }
  /// The highest Phi of these workers; minus infinity if there is none. O(workers).
  template <instance_views V>
    requires shows_phi<view_t<V>>
  [[nodiscard]] static constexpr double most_of(const V& workers) noexcept {
    double most = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i != workers.size(); ++i) {
      const auto phi = static_cast<double>(workers[i].phi);
      most = phi > most ? phi : most;
    }
    return most;
  }
  /// Whether a worker's Phi is as good as the highest, `most`. O(1).
  template <class W>
  [[nodiscard]] constexpr bool is_equal(const W& w, double most) const noexcept {
    return w.phi >= phi_high_watermark || (w.phi >= phi_low_watermark && (w.phi >= most || w.phi + w.error >= most));
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
