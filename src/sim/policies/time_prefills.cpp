// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/sim/model/step_time.hpp>

#include <algorithm>
#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace sim {

cost::prefill_in_time time_prefills(const step_timer& timer, double target_s) {
  constexpr std::int64_t decodes = 64;
  constexpr tokens context{4096};
  constexpr tokens prompt{2048};
  const auto seconds = [&](std::int64_t n, tokens length, tokens prefill) {
    step_shape step;
    for (std::int64_t i = 0; i != n; ++i) step.add_decode(length);
    if (prefill > tokens{}) step.add_prefill(tokens{}, prefill);
    return timer(step);
  };
  const double one = seconds(1, tokens{1}, {});
  const double many = seconds(decodes, tokens{1}, {});
  const double far = seconds(decodes, context, {});
  cost::prefill_in_time out{.target_s = target_s};
  out.per_decode_s = std::max(0.0, (many - one) / static_cast<double>(decodes - 1));
  out.per_context_s = std::max(0.0, (far - many) / static_cast<double>(decodes * (context.count() - 1)));
  out.step_s = std::max(0.0, one - out.per_decode_s);
  out.per_prefill_s = std::max(0.0, (seconds(1, tokens{1}, prompt) - one) / static_cast<double>(prompt.count()));
  return out;
}

}  // namespace sim
TESSERA_NAMESPACE_END
