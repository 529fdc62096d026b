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

/// The known part of the length of a request.
struct known_length {
  tokens length{};          ///< The whole length, or the length so far.
  bool ended = true;        ///< Otherwise it is at least one token longer.
  bool newer = false;       ///< Which of the two halves it belongs to.
  std::uint32_t group = 0;  ///< Only requests of one group are compared.
};

/// Whether lengths have drifted: the log-rank statistic of the newer requests against the older ones. Positive if the
/// newer are longer, negative if they are shorter; standard normal without a drift. 0 if there are too few data.
///
/// Running requests count with their present length. So new traffic, in which the short requests have ended and the
/// long ones run, is not mistaken for longer traffic. It is most sensitive to a difference in the rate at which outputs
/// of the same age end. A plain series without running requests, such as prompts, is allowed as well.
///
/// A request's progress must not depend on its length. It does if requests with short expectations are served first:
/// while others queue, the newer short ones have ended and the long ones wait. So put requests with similar
/// expectations into a `group`; the results of the groups are added up (a stratified test).
///
/// Sorts `seen`. O(n log n), allocates nothing.
/// Source: Mantel, "Evaluation of survival data and two new rank order statistics arising in its consideration" (1966).
[[nodiscard]] inline double length_drift_z(std::span<known_length> seen) noexcept {
  std::sort(seen.begin(), seen.end(), [](const known_length& a, const known_length& b) {
    return a.group != b.group ? a.group < b.group : b.length < a.length;
  });
  double left = 0;  // requests of the group that are at least this long
  double newer_left = 0;
  double fewer_ended = 0;  // newer requests that ended, against expectation
  double variance = 0;
  for (std::size_t first = 0, past = 0; first != seen.size(); first = past) {
    if (first == 0 || seen[first].group != seen[first - 1].group) left = newer_left = 0;
    double ended = 0;
    double newer_ended = 0;
    for (; past != seen.size() && seen[past].group == seen[first].group && seen[past].length == seen[first].length;
         ++past) {
      ended += seen[past].ended ? 1 : 0;
      newer_ended += seen[past].ended && seen[past].newer ? 1 : 0;
      newer_left += seen[past].newer ? 1 : 0;
    }
    left += static_cast<double>(past - first);
    const double part = newer_left / left;
    fewer_ended += ended * part - newer_ended;
    if (left > 1) variance += ended * part * (1 - part) * (left - ended) / (left - 1);
  }
  return variance > 0 ? fewer_ended / std::sqrt(variance) : 0;
}

/// Unchanged traffic exceeds this less than once in a million looks.
inline constexpr double drift_threshold_z = 5;

}  // namespace rank
TESSERA_NAMESPACE_END
