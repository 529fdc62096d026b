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
/// How many instances a policy needs for a load, or how much load so many instances carry, within objectives.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// One run of a search.
struct capacity_trial {
  std::size_t instances = 0;          ///< Of the cluster.
  double factor = 1;                  ///< On the workload's rate.
  std::optional<pool_sizes> pools{};  ///< Of a policy that divides the instances.
  summary numbers{};                  ///< With the objectives evaluated.

  /// Whether it meets the objectives under a load that is carried: in a longer run they would not be met otherwise.
  [[nodiscard]] bool meets() const noexcept { return numbers.slo.met && numbers.load.state != load_state::overload; }
};

/// How far a run is from its objectives: the largest ratio of a value to its bound; infinite where nothing was
/// measured.
[[nodiscard]] double strain(const slo_report& slo) noexcept;

/// Objectives are alike to a run whose largest ratio of a value to its bound is so near 1: noise of a tail decides.
inline constexpr double alike_margin = 0.01;

/// Whether a run is that near its objectives, on whichever side: the load is carried, and the strain within
/// `alike_margin` of 1.
[[nodiscard]] bool is_close(const summary& s) noexcept;

/// By how much the nearest objective of a run is kept or missed, as `ttft_p99 0.13 % below`.
[[nodiscard]] std::string describe_margin(const slo_report& slo);

/// Why a run does not meet its objectives, in words.
[[nodiscard]] std::string describe_failure(const summary& s);

/// What a search found.
struct capacity {
  std::optional<capacity_trial> best{};    ///< The fewest instances, or the highest load, that meets the objectives.
  std::optional<capacity_trial> beyond{};  ///< The nearest that was tried and does not.
  std::size_t runs = 0;                    ///< Simulations of the whole workload that it took.
};

/// The divisions of a cluster that are worth a whole run: the best `most` of all by a short trial each. Those that meet
/// the objectives there come first, and of them, those that are furthest below their bounds.
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

/// The fewest instances from `least` to `most` that meet the objectives, by doubling and bisection: it supposes that
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

/// How far the highest load is looked for: so many times the workload's own, or so small a part of it.
inline constexpr double capacity_range = 1024;

/// The highest load that meets the objectives, to a fiftieth: it supposes that what is met at a load is met below it.
/// @param run `run(factor)` simulates the workload, arriving `factor` times as fast, and returns a `capacity_trial`.
/// @param least the smallest factor at which it can be run, at most 1. @param most none from there on can be; above 1.
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
