// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "variants.hpp"

#include "settings.hpp"

namespace reproduce {

std::vector<sim::policy> compared_with() {
  std::vector<sim::policy> all = sim::published_policies();
  for (sim::policy& p : variants()) all.push_back(std::move(p));
  return all;
}

}  // namespace reproduce
