// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/input/trace_row.hpp>
#include <tessera/sim/traffic/tool_gap.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

double tool_gap_p90_s(std::span<const trace_row> rows) {
  std::vector<double> times;
  std::unordered_set<std::int64_t> calling;  // sessions with a last turn that calls a tool
  for (const trace_row& r : rows) {
    if (r.session < 0) continue;
    if (calling.erase(r.session) != 0) times.push_back(r.think_s);
    if (r.calls_tool) calling.insert(r.session);
  }
  if (times.empty()) return 0;
  const auto at = times.begin() + static_cast<std::ptrdiff_t>(times.size() * 9 / 10);
  std::nth_element(times.begin(), at, times.end());
  return *at;
}

}  // namespace sim
TESSERA_NAMESPACE_END
