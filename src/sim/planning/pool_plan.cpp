// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/assert.hpp>
#include <tessera/sim/cluster/pool_sizes.hpp>
#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/measure/load_verdict.hpp>
#include <tessera/sim/measure/metrics.hpp>
#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/planning/load_search.hpp>
#include <tessera/sim/planning/pool_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

std::vector<trace_row> hurried(std::span<const trace_row> rows, double factor) {
  std::vector<trace_row> out{rows.begin(), rows.end()};
  for (trace_row& r : out) r.arrival_s = rows.front().arrival_s + (r.arrival_s - rows.front().arrival_s) / factor;
  return out;
}

std::vector<pool_sizes> pool_divisions(std::size_t instances, bool mixed) {
  TESSERA_ASSERT(instances >= 2, "one to prefill and one to decode");
  const std::size_t step = std::max<std::size_t>(1, instances / (mixed ? 8 : 32));
  std::vector<pool_sizes> all;
  for (std::size_t p = step; p < instances; p += step) {
    if (!mixed) {
      all.push_back({.prefill = p, .decode = instances - p, .mixed = 0});
      continue;
    }
    for (std::size_t d = step; p + d <= instances; d += step) {
      all.push_back({.prefill = p, .decode = d, .mixed = instances - p - d});
    }
  }
  return all;
}

}  // namespace sim
TESSERA_NAMESPACE_END
