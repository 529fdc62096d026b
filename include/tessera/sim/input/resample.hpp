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
/// Traces similar to a recorded one: how much a number would differ on another day.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The number of windows for `resample`: at most 24, with 32 requests each on average. 0: there are too few rows, or
/// all come at once, or they have sessions or prefixes, which a window would cut or repeat. O(rows).
[[nodiscard]] std::size_t resample_windows(std::span<const trace_row> rows) noexcept;

/// Rows like `rows`. The time is cut into `windows` equal parts. Each part gets the requests of a period of the same
/// length that begins up to one window earlier or later, drawn uniformly. So days and peaks stay in place, and so do
/// bursts of seconds. Requires rows in order of arrival and `resample_windows(rows) == windows != 0`. O(rows).
/// Source: Paparoditis and Politis, "Local block bootstrap" (2002).
[[nodiscard]] std::vector<trace_row> resample(std::span<const trace_row> rows, std::size_t windows, std::uint64_t seed);

}  // namespace sim
TESSERA_NAMESPACE_END
