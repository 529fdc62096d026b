// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/measure/distribution.hpp>
#include <tessera/sim/report/replicates.hpp>

#include <boost/math/distributions/students_t.hpp>

#include <atomic>
#include <cmath>
#include <cstddef>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

estimate estimate_mean(std::span<const double> samples) {
  estimate e;
  double sum = 0;
  for (const double x : samples) {
    if (std::isnan(x)) continue;
    sum += x;
    ++e.count;
  }
  if (e.count == 0) return e;
  const auto n = static_cast<double>(e.count);
  e.mean = sum / n;
  if (e.count < 2) return e;
  double squares = 0;
  for (const double x : samples) {
    if (!std::isnan(x)) squares += (x - e.mean) * (x - e.mean);
  }
  const boost::math::students_t_distribution<double> t{n - 1};
  e.half_width = boost::math::quantile(t, 0.975) * std::sqrt(squares / (n - 1) / n);
  return e;
}

}  // namespace sim
TESSERA_NAMESPACE_END
