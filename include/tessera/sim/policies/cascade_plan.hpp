// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/partition/bucketed.hpp>
#include <tessera/partition/chain.hpp>
#include <tessera/partition/exact.hpp>
#include <tessera/partition/flat.hpp>
#include <tessera/partition/merge.hpp>
#include <tessera/sim/model/cost_profile.hpp>
#include <tessera/sim/policies/cascade.hpp>
#include <tessera/sim/policies/steady_plan.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

/// @file
/// From a workload's history to the configuration of a `cascade`, as an operator would make it.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// How the stages are made: a method of `partition`, or `steady_plan`.
enum class layout : std::uint8_t { exact, bucketed, merge, chain, flat, steady };

/// A plan, and what it was made of.
struct cascade_plan {
  cost::fit_result cost{};                 ///< Fitted to profiled batches of this cluster's instances.
  double in_flight = 0;                    ///< Requests that the sample was taken to be in flight.
  std::vector<partition::stage> stages{};  ///< All instances, all lengths.
  double gain = 1;                         ///< By `layout::steady`: see `steady_stages`.
  double carried = 1;                      ///< Likewise.
  double seconds = 0;                      ///< What the method took, without sorting the sample.
};

/// Most instances that stages are made of: a plan takes time with their square, and so do their reports to each other.
inline constexpr std::size_t most_in_stages = 1024;

/// Rows that planning looks at, evenly spread over the history.
inline constexpr std::size_t planning_sample = 20'000;

/// The most requests like these that all instances together can have in flight: what memory and batch hold.
[[nodiscard]] inline double most_in_flight(std::span<const trace_row> sample, const cluster_options& o) {
  double length = 0;
  for (const trace_row& r : sample) length += static_cast<double>(r.prompt_tokens + r.output_tokens);
  length /= static_cast<double>(sample.size());
  const double kv =
      static_cast<double>(o.instance.limits.blocks) * static_cast<double>(o.instance.limits.block_size.count());
  const double each = std::max(1.0, std::min(static_cast<double>(o.instance.step.max_batch), kv / length));
  return each * static_cast<double>(o.instances);
}

/// Plans for `history` at `rate` requests per second. The cost model is fitted to batches like those of section 4.1,
/// with the history's mean output. The sample is planned for as if all instances were full, because that is when the
/// layout matters; with a closed loop, for as many as are in it. `rate` and `least`, the fewest instances of a stage,
/// are read by `layout::steady` alone. Requests that do not fit on an instance are left out. Requires at least one row;
/// a rate that is not positive, or more than a thousand for each instance, counts as that: more than there is room for.
[[nodiscard]] inline cascade_plan plan_cascade(const cluster_options& o, std::span<const trace_row> history,
                                               double rate, layout how = layout::exact, std::size_t least = 1) {
  TESSERA_ASSERT(!history.empty(), "stages are planned from a history");
  const double kv =
      static_cast<double>(o.instance.limits.blocks) * static_cast<double>(o.instance.limits.block_size.count());
  const double longest = std::min(kv, static_cast<double>(1 << 23));  // what is longer is never served
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

/// The rate of rows in order of arrival; 0 when all come at once.
[[nodiscard]] inline double arrival_rate(std::span<const trace_row> rows) noexcept {
  const double span = rows.empty() ? 0 : rows.back().arrival_s - rows.front().arrival_s;
  return span > 0 ? static_cast<double>(rows.size() - 1) / span : 0;
}

/// CascadeInfer as published: stages by `exact`, ranges refined by quality, the full market, and new requests to the
/// instance of their stage with the fewest tokens.
[[nodiscard]] inline cascade::config published_cascade(const cascade_plan& plan) {
  return {.stages = plan.stages, .model = plan.cost.model};
}

/// The same mechanisms with two changes that the paper leaves room for: meant for `layout::steady`, and new requests go
/// where the fewest tokens are when a prompt token that is still to be computed counts eight times, so that they do not
/// queue behind long prompts.
[[nodiscard]] inline cascade::config steady_cascade(const cascade_plan& plan) {
  return {.stages = plan.stages, .model = plan.cost.model, .backlog_weight = 8};
}

}  // namespace sim
TESSERA_NAMESPACE_END
