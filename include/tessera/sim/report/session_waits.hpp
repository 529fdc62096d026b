// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/report/request_record.hpp>

#include <cstdint>
#include <map>
#include <span>
#include <vector>

/// @file
/// What an agent or a conversation waits for: all its turns.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The seconds that each session waits for its turns, from arrival to last token, all together; times of thought are
/// none of them. Only of sessions all of whose turns arrived in the window and ended: what is cut off has waited for
/// less. By the sessions' numbers. O(n log n).
[[nodiscard]] inline std::vector<double> session_waits(std::span<const request_record> requests,
                                                       const measured_window& window = {}) {
  struct wait {
    double seconds = 0;
    bool whole = true;
  };
  std::map<std::int64_t, wait> sessions;
  for (const request_record& r : requests) {
    if (r.session < 0) continue;
    wait& w = sessions[r.session];
    if (r.completed() && window.contains(r.arrival)) {
      w.seconds += r.e2e();
    } else {
      w.whole = false;
    }
  }
  std::vector<double> out;
  for (const auto& [id, w] : sessions) {
    if (w.whole) out.push_back(w.seconds);
  }
  return out;
}

}  // namespace sim
TESSERA_NAMESPACE_END
