// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>
#include <tessera/core/units.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// What is known of the length of a request.
struct known_length {
  tokens length{};     ///< All of it, or what there is so far.
  bool ended = true;   ///< Otherwise it is at least one token longer.
  bool newer = false;  ///< Which of the two halves it belongs to.
};

/// Whether lengths have shifted: the log-rank statistic of the newer requests against the older ones. Positive if the
/// newer are longer, negative if they are shorter; standard normal if nothing has shifted. 0 if nothing can be said.
///
/// Those that still run count for what they have, so that traffic that has just begun, of which the short requests have
/// ended and the long ones run, is not taken for one that grows longer. Of any two traffics it sees best a difference
/// in the rate at which outputs of the same age end. A plain series without any that run, such as prompts, may be
/// given, too.
///
/// Sorts `seen`. O(n log n), allocates nothing.
/// Source: Mantel, "Evaluation of survival data and two new rank order statistics arising in its consideration" (1966).
[[nodiscard]] inline double length_shift(std::span<known_length> seen) noexcept {
  std::sort(seen.begin(), seen.end(), [](const known_length& a, const known_length& b) { return a.length < b.length; });
  double left = static_cast<double>(seen.size());  // that are as long at least
  double newer_left =
      static_cast<double>(std::count_if(seen.begin(), seen.end(), [](const known_length& k) { return k.newer; }));
  double fewer_ended = 0;  // of the newer, than expected
  double variance = 0;
  for (std::size_t first = 0, past = 0; first != seen.size(); first = past) {
    double ended = 0;
    double newer_ended = 0;
    double newer = 0;
    for (; past != seen.size() && seen[past].length == seen[first].length; ++past) {
      ended += seen[past].ended ? 1 : 0;
      newer_ended += seen[past].ended && seen[past].newer ? 1 : 0;
      newer += seen[past].newer ? 1 : 0;
    }
    const double part = newer_left / left;
    fewer_ended += ended * part - newer_ended;
    if (left > 1) variance += ended * part * (1 - part) * (left - ended) / (left - 1);
    left -= static_cast<double>(past - first);
    newer_left -= newer;
  }
  return variance > 0 ? fewer_ended / std::sqrt(variance) : 0;
}

/// A shift that traffic which stays as it is shows less often than once in a million looks.
inline constexpr double surely_shifted = 5;

}  // namespace rank
TESSERA_NAMESPACE_END
