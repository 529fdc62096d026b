// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/trace_row.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Nine of ten later turns of sessions in `rows` come no longer than this after the one before; 0 without any. O(n).
[[nodiscard]] inline double usual_think_s(std::span<const trace_row> rows) {
  std::vector<double> times;
  std::unordered_set<std::int64_t> begun;
  for (const trace_row& r : rows) {
    if (r.session >= 0 && !begun.insert(r.session).second) times.push_back(r.think_s);
  }
  if (times.empty()) return 0;
  const auto at = times.begin() + static_cast<std::ptrdiff_t>(times.size() * 9 / 10);
  std::nth_element(times.begin(), at, times.end());
  return *at;
}

}  // namespace sim
TESSERA_NAMESPACE_END
