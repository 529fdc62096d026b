// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/config.hpp>
#include <tessera/sim/measure/distribution.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

double percentile(std::span<const double> sorted, double p) noexcept {
  if (sorted.empty()) return never;
  const double rank = p * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(rank);
  if (low + 1 >= sorted.size()) return sorted.back();
  return sorted[low] + (rank - static_cast<double>(low)) * (sorted[low + 1] - sorted[low]);
}

distribution describe(std::vector<double> samples) {
  std::erase_if(samples, [](double x) { return std::isnan(x); });
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  double sum = 0;
  for (const double x : samples) sum += x;
  return {.count = samples.size(),
          .mean = sum / static_cast<double>(samples.size()),
          .p50 = percentile(samples, 0.5),
          .p90 = percentile(samples, 0.9),
          .p95 = percentile(samples, 0.95),
          .p99 = percentile(samples, 0.99),
          .max = samples.back()};
}

}  // namespace sim
TESSERA_NAMESPACE_END
