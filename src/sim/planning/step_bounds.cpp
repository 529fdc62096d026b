// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/cluster/cluster_options.hpp>
#include <tessera/sim/planning/due_first_config.hpp>
#include <tessera/sim/planning/step_bounds.hpp>
#include <tessera/sim/systems/disaggregated.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

std::vector<tokens> step_bounds(const cluster_options& o, const prefill_model& model, double seconds) {
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

std::vector<std::vector<tokens>> longer_steps(const cluster_options& o, const prefill_model& model, double seconds) {
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

cluster_options bounded_steps(cluster_options o, std::span<const tokens> bounds) {
  o.instance.prefill_budget = bounds.empty() ? tokens{} : bounds.front();
  for (std::size_t i = 0; i != o.each.size(); ++i) o.each[i].prefill_budget = bounds.empty() ? tokens{} : bounds[i];
  return o;
}

cluster_options bounded_steps(const cluster_options& o) {
  const prefill_model model = calibrate_prefill(o.instance.timer, default_ttft_target);
  return bounded_steps(o, step_bounds(o, model, due_first_config{}.step_s));
}

}  // namespace sim
TESSERA_NAMESPACE_END
