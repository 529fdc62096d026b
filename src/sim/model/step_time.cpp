// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/units.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/model/step_time.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

double prompt_token_seconds(const step_timer& timer, tokens length) {
  step_shape step;
  step.add_prefill(tokens{}, length);
  return timer(step) / static_cast<double>(length.count());
}

double swap_seconds(const profile& p, tokens length) noexcept {
  return static_cast<double>(length.count()) * p.kv_bytes_per_token() / p.parallel.devices() / p.links.host_bytes_per_s;
}

double transfer_seconds(const profile& p, tokens length) noexcept {
  return static_cast<double>(length.count()) * p.kv_bytes_per_token() / p.links.fabric_bytes_per_s;
}

}  // namespace sim
TESSERA_NAMESPACE_END
