// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/measure/request_record.hpp>

#include <cstdint>
#include <span>
#include <vector>

/// @file
/// The total wait of an agent or a conversation over all its turns.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The seconds that each session waits for its turns, from arrival to last token, in total; think times are not
/// included. Only sessions with all turns arrived in the window and ended count: a cut session has waited for less. In
/// the order of session numbers. O(n log n).
[[nodiscard]] std::vector<double> session_waits(std::span<const request_record> requests,
                                                const measured_window& window = {});

}  // namespace sim
TESSERA_NAMESPACE_END
