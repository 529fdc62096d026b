// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/planning/cascade_plan.hpp>
#include <tessera/sim/planning/due_first_config.hpp>
#include <tessera/sim/planning/layout_trials.hpp>
#include <tessera/sim/planning/staged_layout.hpp>
#include <tessera/sim/planning/steady_trial.hpp>
#include <tessera/sim/systems/instance_layout.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {
namespace detail {

tried_stages try_stages(const due_first_config& asked, std::span<const tokens> usual_steps, layout_trials& trials,
                        const cascade_plan& large, const cascade_plan* small, const cascade_plan& published) {
  tried_stages best{.stages = steady_cascade(large)};
  best.outcome = trials.staged(best.stages);
  const auto try_others = [&](cascade::config stages, double gain) {
    const trial_outcome other = trials.staged(stages);
    if (best.outcome.worth(other, gain)) best = {.stages = std::move(stages), .outcome = other};
  };
  if (small != nullptr) try_others(steady_cascade(*small), asked.least_fine_gain);
  try_others(published_cascade(published), asked.least_full_gain);
  if (usual_steps.empty()) return best;
  const trial_outcome bounded = trials.staged(best.stages, usual_steps);
  best.bounded = best.outcome.worth(bounded, asked.least_bounded_gain);
  if (best.bounded) best.outcome = bounded;
  return best;
}

instance_layout staged_layout(const cluster_options& o, const due_first_config& config,
                              std::span<const tokens> usual_steps, layout_trials& trials, steady_trial trial,
                              const std::optional<trial_outcome>& without, const seen_traffic& seen,
                              const instance_layout& now) {
  const std::span<const trace_row> rows = seen.rows;
  instance_layout best;
  if (!config.stages || o.instances < 2 || o.instances > most_in_stages || rows.empty()) return best;
  const bool is_tried = trial != steady_trial::impossible;
  // A few large stages hold up better than the plan knows: no instance is alone with the requests that have come to it.
  // More stages, if they carry more, or are faster in a trial.
  const std::size_t least = std::max<std::size_t>(1, o.instances / 4);
  cascade_plan plan = plan_cascade(o, rows, seen.rate, layout::steady, least);
  std::optional<cascade_plan> finer;
  if (least > 1 && (is_tried || plan.carried < 1)) {
    finer = plan_cascade(o, rows, seen.rate, layout::steady);
    if (plan.carried < 0.95 * finer->carried) plan = *finer;
  }
  best.stages = steady_cascade(plan);

  // The present stages need only do as well as others; a trial decides whether they do.
  const bool are_there = now.kind == layout_kind::stages;
  // The number of small ones differs from plan to plan.
  const bool are_small = are_there && now.stages.backlog_weight == best.stages.backlog_weight &&
                         std::any_of(now.stages.stages.begin(), now.stages.stages.end(),
                                     [&](const partition::stage& s) { return s.instances < least; });
  bool bounded = are_there && !now.bounds.empty();
  due_first_config asked = config;
  if (are_there) asked.least_stage_gain = asked.least_tried_gain = 1;
  if (are_small) asked.least_fine_gain = 1;
  if (bounded) asked.least_bounded_gain = 1;

  const double gain = is_tried && finer ? std::max(plan.gain, finer->gain / asked.least_fine_gain) : plan.gain;
  const double wanted = is_tried ? asked.least_tried_gain : are_there ? config.kept_gain : config.least_gain;
  bool pays = gain >= wanted;
  best.why = fmt::format("at {:.3g} requests a second stages by length are expected to gain {:.3g} times, {} than {:g}",
                         seen.rate, gain, pays ? "not less" : "less", wanted);
  if (!pays) return best;
  if (is_tried) {
    if (trial == steady_trial::too_early) {
      best.why += ", and too little is known for a trial";
      return best;
    }
    const cascade_plan published = plan_cascade(o, rows, seen.rate);
    if (alike({.kind = layout_kind::stages, .stages = published_cascade(published), .bounds = now.bounds}, now)) {
      asked.least_full_gain = 1;
    }
    const trial_outcome colocated = without ? *without : trials.colocated();
    const bool differ = finer && finer->stages != plan.stages;
    tried_stages found = try_stages(asked, usual_steps, trials, plan, differ ? &*finer : nullptr, published);
    best.stages = std::move(found.stages);
    bounded = found.bounded;
    pays = colocated.worth(found.outcome, asked.least_stage_gain);
    best.why += fmt::format("; they took {:.3g} s a request in a trial, colocated {:.3g} s{}", found.outcome.e2e_s,
                            colocated.e2e_s, broken_promises(o, found.outcome, colocated));
  }
  if (!pays) return best;
  best.kind = layout_kind::stages;
  if (bounded) best.bounds.assign(usual_steps.begin(), usual_steps.end());
  best.why += ":";
  for (const partition::stage& s : best.stages.stages) {
    best.why += fmt::format(" {} from {} tokens on", s.instances, s.from.count());
    best.why += &s == &best.stages.stages.back() ? "" : ",";
  }
  if (bounded) best.why += ", prompts bounded";
  return best;
}

}  // namespace detail
}  // namespace sim
TESSERA_NAMESPACE_END
