// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/sim/cluster/pool_sizes.hpp>
#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/measure/load_verdict.hpp>
#include <tessera/sim/measure/metrics.hpp>
#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/planning/load_search.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

/// @file
/// Finds by trial how many instances prefill and how many decode.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// A division of the instances, and the load that it carries.
struct pool_plan {
  pool_sizes sizes{};  ///< The best division found.
  double factor = 0;   ///< The largest load within the objectives, as a multiple of the trial's; 0: none.
  double within = 0;   ///< Fraction of the requests within all bounds at the trial's own load.
};

/// The same requests, arriving `factor` times as fast, from the first one on.
[[nodiscard]] std::vector<trace_row> hurried(std::span<const trace_row> rows, double factor);

/// The divisions that a plan tries: all pairs of a prefill and a decode pool, and with `mixed` also those with a rest.
/// Steps are an eighth of a large cluster. Each pool except the mixed one has an instance.
[[nodiscard]] std::vector<pool_sizes> pool_divisions(std::size_t instances, bool mixed);

/// A split of the instances, and its cost.
template <class Cost>
struct pool_split {
  pool_sizes sizes{};  ///< Those that prefill, and those that decode.
  Cost cost{};         ///< The cost given to `best_split`.
};

/// The split of the instances into prefill and decode with the least `cost(sizes)`. It is found by descent from `start`
/// prefill instances, in steps of an eighth of a large cluster. `less(a, b)`: whether the cost `a` is less. Requires
/// `instances >= 2` and `0 < start < instances`.
template <class F, class Less = std::less<>, class Cost = std::invoke_result_t<F&, const pool_sizes&>>
[[nodiscard]] pool_split<Cost> best_split(std::size_t instances, std::size_t start, F&& cost, Less&& less = {}) {
  TESSERA_ASSERT(start > 0 && start < instances, "one to prefill and one to decode");
  const std::size_t step = std::max<std::size_t>(1, instances / 8);
  const auto sizes = [&](std::size_t prefill) {
    return pool_sizes{.prefill = prefill, .decode = instances - prefill, .mixed = 0};
  };
  std::size_t best = start;
  Cost least = cost(sizes(best));
  for (const bool up : {true, false}) {
    const std::size_t from = best;
    while (up ? best + step < instances : best > step) {
      const std::size_t next = up ? best + step : best - step;
      const Cost found = cost(sizes(next));
      if (!less(found, least)) break;
      least = found;
      best = next;
    }
    if (best != from) break;
  }
  return {sizes(best), least};
}

/// The division of `instances` that carries most within the objectives: DistServe's planning (section 4), by trial
/// instead of by a model of the queues. For each division, the load is raised while the objectives are met and the
/// queue does not grow for ever. It is then narrowed to a twentieth. The division with the highest load wins. Ties: the
/// most requests within the bounds at the trial's own load, then the most even division, then the first.
/// Deterministic, if `run` is. A trial shows effects only of its own duration: it should be many times a request's
/// latency.
/// @param run `run(sizes, factor)` simulates the trial on that division, with requests that arrive `factor` times as
///        fast, and returns its `run_result`. About ten calls for each division.
/// @param slo the objectives, at least one bound.
/// @param mixed whether a division may leave instances to a mixed pool.
template <class Run>
[[nodiscard]] pool_plan plan_pools(std::size_t instances, std::span<const slo_bound> slo, bool mixed, Run&& run) {
  TESSERA_ASSERT(!slo.empty(), "objectives to plan for");
  const auto smallest = [](const pool_sizes& s) { return std::min(s.prefill, s.decode); };
  pool_plan best;
  bool first = true;
  for (const pool_sizes& sizes : pool_divisions(instances, mixed)) {
    const auto report = [&](double factor) {
      const run_result r = run(sizes, factor);
      slo_report held = evaluate_slo(slo, r.requests, r.window);
      // A longer trial would not meet the objectives.
      held.met = held.met && r.numbers.load.state != load_state::overload;
      return held;
    };
    const slo_report own = report(1);
    const double good = highest_load(own.met, 0.05, [&](double factor) { return report(factor).met; });
    const auto better = [&] {
      if (good != best.factor) return good > best.factor;
      if (own.attainment != best.within) return own.attainment > best.within;
      return smallest(sizes) > smallest(best.sizes);
    };
    if (first || better()) {
      best = {.sizes = sizes, .factor = good, .within = own.attainment};
    }
    first = false;
  }
  return best;
}

}  // namespace sim
TESSERA_NAMESPACE_END
