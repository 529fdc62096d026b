// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/config.hpp>
#include <tessera/sim/measure/tenant_shares.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

std::vector<double> fair_shares(std::span<const double> asked, double all) {
  std::vector<std::size_t> by_size(asked.size());
  for (std::size_t t = 0; t != asked.size(); ++t) by_size[t] = t;
  std::sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) { return asked[a] < asked[b]; });
  std::vector<double> due(asked.size(), 0.0);
  std::size_t left = asked.size();
  for (const std::size_t t : by_size) {
    due[t] = std::min(asked[t], all / static_cast<double>(left--));
    all -= due[t];
  }
  return due;
}

double worst_share(std::span<const double> asked, std::span<const double> given) {
  std::vector<double> wanted(asked.begin(), asked.end());
  double all = 0;
  for (std::size_t t = 0; t != given.size(); ++t) {
    wanted[t] = std::max(wanted[t], given[t]);
    all += given[t];
  }
  const std::vector<double> due = fair_shares(wanted, all);
  double worst = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t t = 0; t != given.size(); ++t) {
    if (due[t] > 0 && !(worst <= given[t] / due[t])) worst = given[t] / due[t];
  }
  return worst;
}

}  // namespace sim
TESSERA_NAMESPACE_END
