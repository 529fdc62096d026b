// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/measure/request_record.hpp>
#include <tessera/sim/measure/session_waits.hpp>

#include <cstdint>
#include <map>
#include <span>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

std::vector<double> session_waits(std::span<const request_record> requests, const measured_window& window) {
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
