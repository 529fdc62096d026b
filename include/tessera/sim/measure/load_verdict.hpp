// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/measure/request_record.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// Whether a cluster carries the load that arrives, found from how its queue grows.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// The state of the cluster at one moment.
struct timeline_point {
  double time = 0;     ///< In simulated seconds.
  double running = 0;  ///< Requests that hold blocks.
  double waiting = 0;  ///< Requests that do not: new or preempted.
  double kv_used = 0;  ///< Part of the KV blocks in use, 0 to 1.
  double live = 0;     ///< Instances that are not dead.
};

/// What can be said of a load.
enum class load_state {
  unknown,    ///< Too few samples: nothing can be said.
  carried,    ///< Nothing grows.
  unsettled,  ///< No more wait than before, but more and more run: the run is too short to tell where that ends.
  overload,   ///< The queue grows: latencies say how long the run was, not how good the policy is.
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

/// Whether the cluster carries what arrives.
struct load_verdict {
  load_state state = load_state::unknown;  ///< The verdict.
  /// Requests by which the queue grows, or that wait when it is longest, as a part of those that arrive; 0 if it is
  /// carried.
  double left_behind = never;
};

/// A trend of a series that is as strong as it is sure.
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
/// A trend of all the window does not see a queue that grows late, or that has grown and been worked off, as traffic
/// that comes and goes makes one. So where more wait at some time than run, and more than one in twenty of all that
/// arrive, that is an overload, too: of that time the latencies say how long it was. Not so in a closed loop, where so
/// many wait as there are (`open` is false).
///
/// A queue that is not overloaded comes and goes: after the first quarter, in which the cluster fills, it has no trend.
/// Neighbouring samples of a queue are not independent, so the window is cut into 16 parts and their means are looked
/// at (batch means), and a trend counts only if it is worth something: if at least one of a hundred that arrive is left
/// behind. A queue near saturation has busy times that are longer than a run; these it takes for an overload, which for
/// that run they are.
[[nodiscard]] load_verdict judge_load(std::span<const timeline_point> timeline, const measured_window& window,
                                      double arrivals_per_s, bool open = true);

/// How much a queue grows, in per cent: `1.4 %`, `62 %`.
[[nodiscard]] std::string show_growth(double left_behind);

}  // namespace sim
TESSERA_NAMESPACE_END
