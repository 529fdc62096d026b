// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/partition/bucketed.hpp>
#include <tessera/partition/chain.hpp>
#include <tessera/partition/exact.hpp>
#include <tessera/partition/flat.hpp>
#include <tessera/partition/merge.hpp>
#include <tessera/sim/model/cost_profile.hpp>
#include <tessera/sim/planning/cascade_plan.hpp>
#include <tessera/sim/planning/steady_plan.hpp>
#include <tessera/sim/systems/cascade.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

double most_in_flight(std::span<const trace_row> sample, const cluster_options& o) {
  double length = 0;
  for (const trace_row& r : sample) length += static_cast<double>(r.prompt_tokens + r.output_tokens);
  length /= static_cast<double>(sample.size());
  const double kv =
      static_cast<double>(o.instance.limits.blocks) * static_cast<double>(o.instance.limits.block_size.count());
  const double each = std::max(1.0, std::min(static_cast<double>(o.instance.step.max_batch), kv / length));
  return each * static_cast<double>(o.instances);
}

cascade_plan plan_cascade(const cluster_options& o, std::span<const trace_row> history, double rate, layout how,
                          std::size_t least) {
  TESSERA_ASSERT(!history.empty(), "stages are planned from a history");
  const double kv =
      static_cast<double>(o.instance.limits.blocks) * static_cast<double>(o.instance.limits.block_size.count());
  const double longest = std::min(kv, static_cast<double>(1 << 23));  // longer requests are never served
  std::vector<trace_row> rows;
  const std::size_t every = (history.size() + planning_sample - 1) / planning_sample;
  double output = 0;
  for (std::size_t i = 0; i < history.size(); i += every) {
    if (static_cast<double>(history[i].prompt_tokens + history[i].output_tokens) > longest) continue;
    rows.push_back(history[i]);
    output += static_cast<double>(history[i].output_tokens);
  }
  if (rows.empty()) rows.push_back({});
  output /= static_cast<double>(rows.size());

  cascade_plan plan;
  const cost_profile_options profiled{.output = std::max<std::int64_t>(4, static_cast<std::int64_t>(output))};
  const double room = std::max(kv, 4.0 * static_cast<double>(profiled.output + profiled.shortest));
  const status fitted = cost::fit(profile_costs(o.instance.timer, room, profiled), {}, plan.cost);
  TESSERA_ASSERT(ok(fitted), "step times are positive");
  static_cast<void>(fitted);
  plan.in_flight = o.in_flight != 0 ? static_cast<double>(o.in_flight) : most_in_flight(rows, o);

  using clock = std::chrono::steady_clock;
  const auto seconds_since = [](clock::time_point start) {
    return std::chrono::duration<double>(clock::now() - start).count();
  };
  if (how == layout::steady) {
    const double most = 1e3 * static_cast<double>(o.instances);
    const auto start = clock::now();
    steady_stages best = steady_plan(o.instance.timer,
                                     {.sample = rows,
                                      .rate = rate > 0 ? std::min(rate, most) : most,
                                      .kv_tokens = kv,
                                      .max_batch = o.instance.step.max_batch,
                                      .least = least},
                                     o.instances);
    plan.stages = std::move(best.stages);
    plan.gain = best.gain;
    plan.carried = best.carried;
    plan.seconds = seconds_since(start);
    return plan;
  }
  std::vector<cost::request_lengths> sample;
  for (const trace_row& r : rows)
    sample.push_back({tokens{r.prompt_tokens}, tokens{r.prompt_tokens + r.output_tokens}});
  auto table_memory = storage_for<partition::length_table>({.requests = sample.size()});
  arena of_table{table_memory.memory()};
  partition::length_table table{of_table, {.requests = sample.size()}};
  const status assigned =
      table.assign(sample, {.qoe = plan.cost.model,
                            .transfer = {.per_sequence = 0, .per_token = o.kv_bytes_per_token / o.fabric_bytes_per_s},
                            .in_flight = plan.in_flight});
  TESSERA_ASSERT(ok(assigned), "a history of lengths that fit");
  static_cast<void>(assigned);
  plan.stages.resize(std::min(o.instances, table.size()));
  const auto run = [&](auto* method, const auto& limits) {
    using planner = std::remove_pointer_t<decltype(method)>;
    auto memory = storage_for<planner>(limits);
    arena a{memory.memory()};
    planner p{a, limits};
    const auto start = clock::now();
    const std::size_t stages = p(table, o.instances, plan.stages).stages.size();
    plan.seconds = seconds_since(start);
    plan.stages.resize(stages);
  };
  switch (how) {
    case layout::bucketed:
      run(static_cast<partition::bucketed*>(nullptr), partition::bucketed::limits{.instances = o.instances});
      break;
    case layout::merge: run(static_cast<partition::merge*>(nullptr), partition::merge::limits{}); break;
    case layout::chain:
      run(static_cast<partition::chain*>(nullptr),
          partition::chain::limits{.lengths = table.size(), .instances = o.instances});
      break;
    case layout::flat: plan.stages.resize(partition::flat{}(table, o.instances, plan.stages).stages.size()); break;
    case layout::exact:
    case layout::steady:
      run(static_cast<partition::exact*>(nullptr),
          partition::exact::limits{.lengths = table.size(), .instances = o.instances});
      break;
  }
  return plan;
}

double arrival_rate(std::span<const trace_row> rows) noexcept {
  const double span = rows.empty() ? 0 : rows.back().arrival_s - rows.front().arrival_s;
  return span > 0 ? static_cast<double>(rows.size() - 1) / span : 0;
}

cascade::config published_cascade(const cascade_plan& plan) {
  return {.stages = plan.stages, .model = plan.cost.model};
}

cascade::config steady_cascade(const cascade_plan& plan) {
  return {.stages = plan.stages, .model = plan.cost.model, .backlog_weight = 8};
}

}  // namespace sim
TESSERA_NAMESPACE_END
