// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/pool_sizes.hpp>
#include <tessera/sim/measure/metrics.hpp>
#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/planning/load_search.hpp>
#include <tessera/sim/planning/pool_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// The number of instances that a policy needs for a load, or the load that a cluster carries, within objectives.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// One run of a search.
struct capacity_trial {
  std::size_t instances = 0;          ///< Size of the cluster.
  double factor = 1;                  ///< Factor on the workload's rate.
  std::optional<pool_sizes> pools{};  ///< For a policy that divides the instances.
  summary numbers{};                  ///< With the objectives evaluated.

  /// Whether it meets the objectives under a load that is carried; otherwise a longer run would not meet them.
  [[nodiscard]] bool meets() const noexcept { return numbers.slo.met && numbers.load.state != load_state::overload; }
};

/// The distance of a run from its objectives: the largest ratio of a value to its bound; infinite without a
/// measurement.
[[nodiscard]] double strain(const slo_report& slo) noexcept;

/// A run is close to its objectives if its largest ratio of a value to its bound is this near 1. Then the noise of a
/// tail decides.
inline constexpr double alike_margin = 0.01;

/// Whether a run is that close to its objectives, on either side: the load is carried, and the strain within
/// `alike_margin` of 1.
[[nodiscard]] bool is_close(const summary& s) noexcept;

/// The margin by which the nearest objective of a run is kept or missed, as `ttft_p99 0.13 % below`.
[[nodiscard]] std::string describe_margin(const slo_report& slo);

/// Why a run does not meet its objectives, in words.
[[nodiscard]] std::string describe_failure(const summary& s);

/// The result of a search.
struct capacity {
  std::optional<capacity_trial> best{};    ///< The fewest instances, or the highest load, that meet the objectives.
  std::optional<capacity_trial> beyond{};  ///< The nearest that was tried and does not meet them.
  std::size_t runs = 0;                    ///< Simulations of the whole workload.
};

/// The divisions of a cluster that deserve a whole run: the best `most` of all by a short trial each. Those that meet
/// the objectives there come first, and among them those furthest below their bounds.
/// @param trial `trial(sizes)` simulates the beginning of the workload and returns a `summary` with its objectives.
template <class Trial>
[[nodiscard]] std::vector<pool_sizes> likely_divisions(std::size_t instances, bool mixed, std::size_t most,
                                                       Trial&& trial) {
  struct rated {
    pool_sizes sizes;
    bool met;
    double strain;
  };
  std::vector<rated> all;
  for (const pool_sizes& sizes : pool_divisions(instances, mixed)) {
    const summary s = trial(sizes);
    all.push_back({sizes, s.slo.met && s.load.state != load_state::overload, strain(s.slo)});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const rated& a, const rated& b) { return a.met != b.met ? a.met : a.strain < b.strain; });
  std::vector<pool_sizes> best;
  for (std::size_t i = 0; i != std::min(all.size(), most); ++i) best.push_back(all[i].sizes);
  return best;
}

/// The fewest instances from `least` to `most` that meet the objectives, by doubling and bisection. It assumes that
/// more instances never make it worse.
/// @param run `run(instances)` simulates the workload there and returns a `capacity_trial`.
template <class Run>
[[nodiscard]] capacity fewest_instances(std::size_t least, std::size_t most, Run&& run) {
  capacity found;
  static_cast<void>(smallest_size(least, most, [&](std::size_t n) {
    capacity_trial t = run(n);
    ++found.runs;
    const bool good = t.meets();
    std::optional<capacity_trial>& side = good ? found.best : found.beyond;
    if (!side || (good ? n < side->instances : n > side->instances)) side = std::move(t);
    return good;
  }));
  return found;
}

/// The range of the search for the highest load: up to this many times the workload's own, or down to its inverse.
inline constexpr double capacity_range = 1024;

/// The highest load that meets the objectives, to a fiftieth. It assumes that objectives met at a load are met below
/// it.
/// @param run `run(factor)` simulates the workload, arriving `factor` times as fast, and returns a `capacity_trial`.
/// @param least the smallest possible factor, at most 1. @param most the limit of possible factors, exclusive; above 1.
template <class Run>
[[nodiscard]] capacity highest_rate(Run&& run, double least = 1 / capacity_range, double most = capacity_range) {
  capacity found;
  const auto meets = [&](double factor) {
    capacity_trial t = run(factor);
    ++found.runs;
    const bool good = t.meets();
    std::optional<capacity_trial>& side = good ? found.best : found.beyond;
    if (!side || (good ? factor > side->factor : factor < side->factor)) side = std::move(t);
    return good;
  };
  const bool at_one = meets(1);
  static_cast<void>(highest_load(at_one, 0.02, meets, least, most));
  return found;
}

}  // namespace sim
TESSERA_NAMESPACE_END
