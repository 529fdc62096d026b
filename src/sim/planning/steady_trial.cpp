// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/planning/due_first_config.hpp>
#include <tessera/sim/planning/layout_trials.hpp>
#include <tessera/sim/planning/steady_trial.hpp>
#include <tessera/sim/systems/instance_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {
namespace detail {

std::size_t steady_trial_rows(std::span<const trace_row> rows) {
  double output = 0;
  for (const trace_row& r : rows) output += static_cast<double>(r.output_tokens);
  const double affordable = most_tried_tokens * static_cast<double>(rows.size()) / output;
  const std::size_t most = std::min(last_trial, most_times_seen * rows.size());
  return std::max(first_trial, affordable >= static_cast<double>(most) ? most : static_cast<std::size_t>(affordable));
}

steady_trial begin_steady_trial(const cluster_options& o, layout_trials& trials, const seen_traffic& seen) {
  const std::span<const trace_row> rows = seen.rows;
  if (o.instances > most_in_trials || rows.empty()) return steady_trial::impossible;
  if (seen.held) {
    if (seen.ended < seen.here) return steady_trial::too_early;
    trials.as_many_as(seen.here, last_held_trial(seen.here), rows);
    return steady_trial::possible;
  }
  const std::size_t n = steady_trial_rows(rows);
  const std::span<const trace_row> recent = rows.last(std::min(n, rows.size()));
  if (!(recent.back().arrival_s > recent.front().arrival_s)) return steady_trial::impossible;
  trials.going_on(recent, n);
  return steady_trial::possible;
}

tried_steps try_steps(const due_first_config& config, std::span<const tokens> usual,
                      std::span<const std::vector<tokens>> longer, layout_trials& trials, steady_trial trial,
                      const instance_layout& now) {
  tried_steps best;
  if (longer.empty()) return best;
  const auto present =
      now.kind == layout_kind::colocated ? std::find(longer.begin(), longer.end(), now.bounds) : longer.end();
  if (trial != steady_trial::possible) {
    if (present != longer.end()) best.bounds = *present;
    return best;
  }
  const auto are_there = present == longer.end() ? 0 : present - longer.begin() + 1;
  const trial_outcome usual_outcome = trials.colocated();
  trial_outcome outcome = usual_outcome;
  std::span<const tokens> last = usual;
  for (const std::vector<tokens>& bounds : longer) {
    // A slow device computes at least a block of prompts, however short its steps should be.
    if (std::equal(bounds.begin(), bounds.end(), last.begin(), last.end())) continue;
    const double gain = &bounds - longer.data() < are_there ? 1 : config.least_step_gain;
    if (outcome.broken == 0 && outcome.e2e_s < gain * (outcome.e2e_s - outcome.wait_s)) break;
    const trial_outcome other = trials.colocated(bounds);
    last = bounds;
    // Among bounds that keep promises one may be worth another, and that a third, but the third not the first.
    if (!outcome.worth(other, gain) || !usual_outcome.worth(other, gain)) continue;
    outcome = other;
    best.bounds = bounds;
  }
  best.outcome = outcome;
  return best;
}

}  // namespace detail
}  // namespace sim
TESSERA_NAMESPACE_END
