// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/cluster_options.hpp>
#include <tessera/sim/policies/disaggregated.hpp>
#include <tessera/sim/policies/due_first_config.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Steps of more than this are as good as not bounded.
inline constexpr double most_step_s = 1;

/// By instance: the prompt tokens in a step, beside one for each resident, for which a decode step of one sequence
/// leaves time in `seconds`. With a full batch, or far into a long prompt, a step takes longer: this bounds what
/// prompts add. At least one block's worth, lest a slow device compute none, and no more than a step may have.
[[nodiscard]] inline std::vector<tokens> step_bounds(const cluster_options& o, const prefill_model& model,
                                                     double seconds) {
  step_shape decode;
  decode.add_decode(tokens{1});
  const auto bound = [&](const instance_options& one, const prefill_model& own) {
    const tokens within = own.cost.within(own.budget.peak_flops * (seconds - one.timer(decode)));
    return min(max(within, one.limits.block_size), one.step.token_budget);
  };
  std::vector<tokens> bounds;
  for (const instance_options& one : o.each) {
    bounds.push_back(bound(one, calibrate_prefill(one.timer, model.budget.ttft)));
  }
  if (bounds.empty()) bounds.assign(o.instances, bound(o.instance, model));
  return bounds;
}

/// Longer ones, in the order in which they are tried: for twice `seconds`, four times, and so on below `most_step_s`,
/// and for half of the promised TPOT, as `due_first_config::step_s` is half of a usual promise. None is longer than the
/// promised TPOT: longer steps break it for all that decode while prompts are computed.
[[nodiscard]] inline std::vector<std::vector<tokens>> longer_steps(const cluster_options& o, const prefill_model& model,
                                                                   double seconds) {
  const double promised = o.promised.tpot_s;
  const auto fits = [&](double s) { return s < most_step_s && !(promised > 0 && s > promised); };
  std::vector<double> lengths;
  if (promised / 2 > seconds && fits(promised / 2)) lengths.push_back(promised / 2);
  for (double s = 2 * seconds; fits(s); s *= 2) {
    if (s != promised / 2) lengths.push_back(s);
  }
  std::sort(lengths.begin(), lengths.end());
  std::vector<std::vector<tokens>> longer;
  for (const double s : lengths) longer.push_back(step_bounds(o, model, s));
  return longer;
}

/// The same cluster with such bounds, by instance; none: without bounds.
[[nodiscard]] inline cluster_options bounded_steps(cluster_options o, std::span<const tokens> bounds) {
  o.instance.prefill_budget = bounds.empty() ? tokens{} : bounds.front();
  for (std::size_t i = 0; i != o.each.size(); ++i) o.each[i].prefill_budget = bounds.empty() ? tokens{} : bounds[i];
  return o;
}
/// The same cluster with the prefill model and the bound that `due-first` has by default.
[[nodiscard]] inline cluster_options bounded_steps(const cluster_options& o) {
  const prefill_model model = calibrate_prefill(o.instance.timer, default_ttft_target);
  return bounded_steps(o, step_bounds(o, model, due_first_config{}.step_s));
}

}  // namespace sim
TESSERA_NAMESPACE_END
