// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/placement/phi.hpp>
#include <tessera/placement/turn.hpp>

#include <concepts>
#include <cstddef>
#include <limits>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// `error`: by how much `phi` may be wrong, in the same unit, not negative; 0: it is known. `line`: what has to be
/// computed before a request that comes now, for instance FLOPs of prompts, or by how much it would delay
/// itself and others.
template <class View>
concept shows_line = requires(const View& v) {
  { v.error } -> std::convertible_to<double>;
  { v.line } -> std::convertible_to<double>;
};

/// The worker with the highest Phi, as `highest_phi` chooses. But while it has plenty: of all that have ample, or
/// plenty and as much as it but for their error, the one with the least in line; then in turn.
///
/// Headroom by expected lengths is not known to a request. Whoever follows it to the last block sends the requests of
/// a second to one instance, because somebody has just ended there, and each waits behind the prompt of the one before.
///
/// When to use: workers that decode and prefill, by the smaller of Phi_T and Phi_S. A good error is the root of the sum
/// of the squares of the blocks that its requests are expected to hold in the end, prompts included, divided by the
/// worker's blocks: what exponential lengths deviate by. Where workers are of unlike speed, an error of 0 and an
/// `ample` that nobody has: a slow one with nothing in line is no equal.
///
/// O(workers), no allocation. `nowhere` for an empty range.
/// Source: ours.
struct least_in_line {
  double plenty = 0.5;    ///< Less Phi than this is compared as it is.
  double ample = 0.75;    ///< As much as this is not compared at all.
  highest_phi highest{};  ///< Chooses then.
  turn ties{};            ///< Whose turn it is, while there is plenty.

  /// The index of the chosen worker. Moves a turn on.
  template <instance_views V>
    requires shows_phi<view_t<V>> && shows_requests<view_t<V>> && shows_line<view_t<V>>
  [[nodiscard]] constexpr std::size_t operator()(const V& workers) noexcept {
    TESSERA_ASSERT(plenty <= ample, "what is plenty is no more than what is ample");
    const double most = most_of(workers);
    if (!(most >= plenty)) return highest(workers);
    return ties.least(
        0, workers.size(), [&](std::size_t i) noexcept { return static_cast<double>(workers[i].line); },
        [&](std::size_t i) noexcept { return is_equal(workers[i], most); });
  }
  /// The highest Phi of these; of none, minus infinity. O(workers).
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
    return w.phi >= ample || (w.phi >= plenty && (w.phi >= most || w.phi + w.error >= most));
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
