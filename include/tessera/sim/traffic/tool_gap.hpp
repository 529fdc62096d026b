// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/trace_row.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The 90th percentile of the gap between a tool call in `rows` and the turn that follows it; 0 without any. O(n).
[[nodiscard]] double tool_gap_p90_s(std::span<const trace_row> rows);

}  // namespace sim
TESSERA_NAMESPACE_END
