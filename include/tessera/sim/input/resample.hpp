// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/sim/input/trace_row.hpp>
#include <tessera/sim/random.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// @file
/// Other traces like one that was recorded: how far a number would differ on another day.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Windows that `resample` cuts such rows into: at most 24, of 32 requests each in the mean. 0: they are too few, or
/// come all at once, or have sessions or prefixes, which a window would cut or have twice. O(rows).
[[nodiscard]] std::size_t resample_windows(std::span<const trace_row> rows) noexcept;

/// Rows like `rows`: the time is cut into `windows` equal parts, and each has what came in a part as long that begins
/// up to one window earlier or later, drawn evenly. So days and peaks stay where they are, and bursts of seconds too.
/// Requires rows in order of arrival and `resample_windows(rows) == windows != 0`. O(rows).
/// Source: Paparoditis and Politis, "Local block bootstrap" (2002).
[[nodiscard]] std::vector<trace_row> resample(std::span<const trace_row> rows, std::size_t windows, std::uint64_t seed);

}  // namespace sim
TESSERA_NAMESPACE_END
