// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/cost/fit.hpp>
#include <tessera/sim/model/cost_profile.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/model/step_time.hpp>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

std::vector<cost::profile_row> profile_costs(const step_timer& time, double kv_tokens, const cost_profile_options& o) {
  std::mt19937_64 random{o.seed};
  const auto between = [&random](std::int64_t least, std::int64_t below) {
    return least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(below - least));
  };
  std::vector<cost::profile_row> rows;
  for (std::int64_t low = o.shortest; low < o.longest; low *= 2) {
    for (std::int64_t n = 1; n <= o.max_batch; n *= 2) {
      if (static_cast<double>(n) * (1.5 * static_cast<double>(low) + static_cast<double>(o.output)) > kv_tokens) break;
      for (int repeat = 0; repeat != o.repeats; ++repeat) {
        cost::batch_features batch;
        step_shape decode;
        double prefills = 0;
        std::int64_t outputs = 0;
        for (std::int64_t i = 0; i != n; ++i) {
          const std::int64_t input = between(low, 2 * low);
          const std::int64_t output = between(o.output / 2, o.output / 2 * 3);
          const tokens length{input + output / 2};
          batch.join({tokens{input}, length});
          decode.add_decode(length);
          step_shape prefill;
          prefill.add_prefill(tokens{0}, tokens{input});
          prefills += time(prefill);
          outputs += output;
        }
        const double mean_output = static_cast<double>(outputs) / static_cast<double>(n);
        rows.push_back({batch.features(), time(decode) + prefills / mean_output});
      }
    }
  }
  return rows;
}

std::vector<cost::profile_row> profile_costs(const profile& p, const cost_profile_options& o) {
  return profile_costs(step_timer{p}, p.kv_tokens(), o);
}

}  // namespace sim
TESSERA_NAMESPACE_END
