// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/compose/due_first.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/kv/csr_tables.hpp>
#include <tessera/kv/evict_by_time.hpp>
#include <tessera/rank/program_length.hpp>
#include <tessera/sim/cluster/turns.hpp>
#include <tessera/sim/planning/best_layout.hpp>
#include <tessera/sim/planning/step_bounds.hpp>
#include <tessera/sim/policies/due_first.hpp>
#include <tessera/sim/systems/replanning.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

policy due_first_policy(std::string name, const due_first_config& config) {
  std::vector<policy_parameter> parameters;
  for (const due_first_parameter& x : due_first_parameters) {
    parameters.push_back({x.name, x.least, x.most, [config, at = x.at](std::string own_name, double value) {
                            due_first_config changed = config;
                            changed.*at = value;
                            return due_first_policy(std::move(own_name), changed);
                          }});
  }
  return {
      .name = name,
      .summary =
          "ours: readers first, then the earliest deadline by predicted length; bounded steps, headroom, stages, pools",
      .run =
          [name, config](const cluster_options& options, std::span<const trace_row> rows,
                         const progress_callback& progress) {
            run_result result = run_due_first(options, rows, {}, config, progress);
            result.numbers.policy = name;
            return result;
          },
      .placement = "own",
      .parameters = std::move(parameters)};
}

run_result run_due_first(const cluster_options& options, std::span<const trace_row> rows,
                         std::span<const trace_row> history, const due_first_config& config,
                         const progress_callback& progress) {
  // KV of a turn that ends with a tool call is kept for the next turn.
  constexpr double until_it_comes_s = 1e9;
  using store = kv::basic_prefix_cache<kv::keep_until<>>;
  using scheduler = tessera::due_first<request, rank::program_length<>, order::pacer_member, store, kv::csr_tables,
                                       gate::fair_tenants>;
  learned_lengths lengths;
  cluster_options own = options;
  due_first_config parts = config;
  const bool shares = options.prefix_cache && turns{rows, options.instance.limits.block_size.count(), true}.shares();
  // Cached tokens take no time, and they are unknown before a request is placed.
  const double per_prompt_token_s = shares ? 0 : prompt_token_seconds(options.instance.timer, tokens{1000});
  // Among tenants the earliest deadline does not count: the tenant that sends most would have most of the earliest
  // deadlines.
  const scheduler::config ordered{.pace = duration{config.pace},
                                  .revised = config.revised,
                                  .prompt_pace = duration{config.prompts * per_prompt_token_s},
                                  .move_pace = duration{move_token_seconds(options.instance)},
                                  .expected = {.weight = config.programs, .expected = lengths.expected()}};
  if (shares) {
    own.kept_s = until_it_comes_s;
    // Requests that share prefixes go where these are cached: neither the plan of stages nor pools know about them.
    parts.stages = parts.pools = false;
  }
  // A promise above the default is no reason to give prompts less weight against memory.
  const duration target = std::min(ttft_target(own.promised), default_ttft_target);
  const prefill_model model = calibrate_prefill(own.instance.timer, target);
  std::vector<tokens> usual_steps;
  if (config.bounded_steps) usual_steps = step_bounds(own, model, config.step_s);
  const cluster_options bounded = config.bounded_steps ? bounded_steps(own, usual_steps) : own;
  replanning::config r{.model = model, .by_headroom = config.by_headroom, .predicts = config.predicts};
  for (std::size_t i = 0; i != own.instances; ++i) r.bounds.push_back(bounded.of(i).prefill_budget);
  std::vector<std::vector<tokens>> longer;
  if (config.bounded_steps && !shares) longer = longer_steps(own, model, config.step_s);
  const engine_maker engines = engines_of<scheduler>(ordered);
  layout_trials trials{bounded, model, engines, progress, config.by_headroom};
  auto control = std::make_unique<replanning>(std::move(r), lengths, history,
                                              [&](const seen_traffic& seen, const instance_layout& now) {
                                                return best_layout(own, parts, usual_steps, longer, trials, seen, now);
                                              });
  cluster c{own, engines, std::move(control)};
  return c.run(rows, progress);
}

}  // namespace sim
TESSERA_NAMESPACE_END
