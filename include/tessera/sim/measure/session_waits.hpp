// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/measure/request_record.hpp>

#include <cstdint>
#include <span>
#include <vector>

/// @file
/// What an agent or a conversation waits for: all its turns.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The seconds that each session waits for its turns, from arrival to last token, all together; times of thought are
/// none of them. Only of sessions all of whose turns arrived in the window and ended: what is cut off has waited for
/// less. By the sessions' numbers. O(n log n).
[[nodiscard]] std::vector<double> session_waits(std::span<const request_record> requests,
                                                const measured_window& window = {});

}  // namespace sim
TESSERA_NAMESPACE_END
