// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/measure/request_record.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// Whether a cluster carries the load that arrives, judged by the growth of its queue.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// The state of the cluster at one moment.
struct timeline_point {
  double time = 0;     ///< In simulated seconds.
  double running = 0;  ///< Requests that hold blocks.
  double waiting = 0;  ///< Requests without blocks: new or preempted.
  double kv_used = 0;  ///< Fraction of the KV blocks in use, 0 to 1.
  double live = 0;     ///< Instances that are not dead.
};

/// The possible verdicts on a load.
enum class load_state {
  unknown,    ///< Too few samples.
  carried,    ///< Nothing grows.
  unsettled,  ///< The queue does not grow, but more and more requests run: the run is too short to tell the end.
  overload,   ///< The queue grows: latencies depend on the length of the run, not on the policy.
};

/// A lower-case word.
[[nodiscard]] constexpr std::string_view to_string(load_state s) noexcept {
  switch (s) {
    case load_state::unknown: return "unknown";
    case load_state::carried: return "carried";
    case load_state::unsettled: return "unsettled";
    case load_state::overload: return "overload";
  }
  return "?";
}

/// Whether the cluster carries the arriving load.
struct load_verdict {
  load_state state = load_state::unknown;  ///< The verdict.
  /// Growth of the queue, or its greatest length, as a fraction of the arriving requests; 0 if the load is carried.
  double left_behind = never;
};

/// A trend of a series, with its strength and its significance.
struct trend {
  double z = 0;  ///< Mann and Kendall's statistic: standard normal if there is no trend and samples are independent.
  double slope = 0;  ///< Theil and Sen's: the median of the slopes between all pairs, per sample.
};

/// The trend of `samples`, at equal distances. O(n^2 log n): give it a few dozen.
/// Source: Mann, "Nonparametric tests against trend" (1945); Sen, "Estimates of the regression coefficient based on
/// Kendall's tau" (1968).
[[nodiscard]] trend find_trend(std::span<const double> samples);

/// Judges the load in a window while requests arrive at `arrivals_per_s`.
///
/// A trend over the whole window misses a queue that grows late, or that has grown and drained, as varying traffic
/// makes one. So there is a second condition for overload. At some time, more requests wait than run, and more than one
/// in twenty of all that arrive. The latencies then depend on the length of that time. This does not apply to a closed
/// loop, in which the number of waiting requests is given (`open` is false).
///
/// Without overload a queue rises and falls: after the first quarter, in which the cluster fills, it has no trend.
/// Neighbouring samples of a queue are not independent. So the window is cut into 16 parts, and their means are
/// examined (batch means). A trend counts only if it matters: if at least one in a hundred arriving requests is left
/// behind. A queue near saturation has busy times longer than a run. They count as overload, which for that run they
/// are.
[[nodiscard]] load_verdict judge_load(std::span<const timeline_point> timeline, const measured_window& window,
                                      double arrivals_per_s, bool open = true);

/// The growth of a queue, in per cent: `1.4 %`, `62 %`.
[[nodiscard]] std::string show_growth(double left_behind);

}  // namespace sim
TESSERA_NAMESPACE_END
