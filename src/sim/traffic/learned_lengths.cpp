// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/rank/expected_rest.hpp>
#include <tessera/rank/length_calibrator.hpp>
#include <tessera/rank/length_distribution.hpp>
#include <tessera/rank/prompt_clusters.hpp>
#include <tessera/sim/cluster/instance.hpp>
#include <tessera/sim/input/trace_row.hpp>
#include <tessera/sim/traffic/learned_lengths.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

// Defined here, because g++ 12 warns of a dangling pointer if it is inlined.
learned_lengths::learned_lengths() { make_room(1); }

learned_lengths::learned_lengths(std::span<const trace_row> ended) {
  make_room(ended.size());
  std::vector<seen_output> seen;
  for (const trace_row& r : ended) seen.push_back({.score = r.score, .length = tokens{r.output_tokens}});
  lengths_->learn_distributions(seen);
}

void learned_lengths::make_room(std::size_t n) {
  if (memory_ && n <= memory_->limits().window) return;
  lengths_.reset();
  memory_ = std::make_unique<memory>(storage_for<fleet::learned_lengths>({.window = std::max<std::size_t>(n, 1)}));
  lengths_.emplace(*memory_);
}

void expect_lengths(std::vector<trace_row>& rows, std::span<const trace_row> history, bool predicts) {
  if (history.empty()) {
    for (trace_row& r : rows) r.score = 0;
    return;
  }
  const auto scores =
      std::count_if(history.begin(), history.end(), [](const trace_row& r) { return r.score == r.score; });
  const auto steps = static_cast<std::size_t>(scores) / 64;
  const rank::length_calibrator::limits limits{.window = history.size(),
                                               .groups = std::clamp<std::size_t>(steps, 1, 32)};
  auto memory = storage_for<rank::length_calibrator>(limits);
  rank::length_calibrator calibrator{memory};
  constexpr float none = std::numeric_limits<float>::quiet_NaN();
  for (const trace_row& r : history) calibrator.observe(predicts ? r.score : none, tokens{r.output_tokens});
  calibrator.fit();
  for (trace_row& r : rows) r.score = static_cast<float>(calibrator(predicts ? r.score : none).count());
}

}  // namespace sim
TESSERA_NAMESPACE_END
