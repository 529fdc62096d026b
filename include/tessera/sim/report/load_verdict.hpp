// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/report/request_record.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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
[[nodiscard]] inline trend find_trend(std::span<const double> samples) {
  const std::size_t n = samples.size();
  if (n < 2) return {};
  std::vector<double> slopes;
  slopes.reserve(n * (n - 1) / 2);
  double s = 0;
  for (std::size_t i = 0; i != n; ++i) {
    for (std::size_t k = i + 1; k != n; ++k) {
      const double rise = samples[k] - samples[i];
      s += rise > 0 ? 1 : rise < 0 ? -1 : 0;
      slopes.push_back(rise / static_cast<double>(k - i));
    }
  }
  const auto middle = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2);
  std::nth_element(slopes.begin(), middle, slopes.end());
  const auto count = static_cast<double>(n);
  const double deviation = std::sqrt(count * (count - 1) * (2 * count + 5) / 18);
  return {.z = s == 0 ? 0 : (s - (s > 0 ? 1 : -1)) / deviation, .slope = *middle};
}

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
[[nodiscard]] inline load_verdict judge_load(std::span<const timeline_point> timeline, const measured_window& window,
                                             double arrivals_per_s, bool open = true) {
  constexpr std::size_t parts = 16;
  constexpr double sure = 2.33;  // one in a hundred, one-sided
  constexpr double matters = 0.01;
  constexpr double grows = 0.1;  // of its mean, over the time looked at
  constexpr double many = 0.05;  // of those that arrive in that time
  constexpr double fewest = 32;  // arrivals, of which anything can be said
  const double from = window.from + window.length() / 4;
  const double part_s = (window.to - from) / parts;
  if (!(part_s > 0) || !std::isfinite(part_s) || !(arrivals_per_s * window.length() >= fewest)) return {};
  struct sum {
    double waiting = 0;
    double running = 0;
    double samples = 0;
  };
  std::vector<sum> sums(parts);
  for (const timeline_point& p : timeline) {
    if (p.time < from || p.time > window.to) continue;
    sum& s = sums[std::min(static_cast<std::size_t>((p.time - from) / part_s), parts - 1)];
    s.waiting += p.waiting;
    s.running += p.running;
    s.samples += 1;
  }
  std::vector<double> waiting;
  std::vector<double> running;
  double all = 0;
  for (const sum& s : sums) {
    if (s.samples == 0) return {};
    waiting.push_back(s.waiting / s.samples);
    running.push_back(s.running / s.samples);
    all += running.back();
  }
  const trend queue = find_trend(waiting);
  const double left_behind = queue.slope / part_s / arrivals_per_s;
  if (queue.z > sure && left_behind > matters) return {load_state::overload, std::min(left_behind, 1.0)};
  const double longest = *std::max_element(waiting.begin(), waiting.end());
  const double waits = longest / (arrivals_per_s * (window.to - from));
  if (open && waits > many && longest > all / parts) return {load_state::overload, std::min(waits, 1.0)};
  const trend batch = find_trend(running);
  if (batch.z > sure && batch.slope * parts > grows * all / parts) return {load_state::unsettled, 0};
  return {load_state::carried, 0};
}

/// How much a queue grows, in per cent: `1.4 %`, `62 %`.
[[nodiscard]] inline std::string show_growth(double left_behind) {
  const double percent = 100 * left_behind;
  return percent < 9.95 ? fmt::format("{:.2g} %", percent) : fmt::format("{:.0f} %", percent);
}

}  // namespace sim
TESSERA_NAMESPACE_END
