// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pars.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/pascal_paced.hpp>
#include <tessera/compose/round_robin.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/sim/cascade_plan.hpp>
#include <tessera/sim/cluster.hpp>
#include <tessera/sim/disaggregated.hpp>
#include <tessera/sim/improved.hpp>
#include <tessera/sim/llumnix.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// Policies by name, so that a tool can run any of them on one workload. Adding one is one line:
///
///     policies.push_back(sim::make_policy<my_scheduler<sim::request>>("mine", "what it does"));

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Told how many requests have ended, from time to time during a run.
using progress_callback = std::function<void(std::size_t completed)>;

/// A scheduler and a placement under a name.
struct policy {
  std::string name;     ///< As in `--policy`.
  std::string summary;  ///< One line.
  /// Simulates a workload under it, from the first arrival to the last token.
  std::function<run_result(const cluster_options&, std::span<const trace_row>, const progress_callback&)> run;
  bool needs_scores = false;        ///< It means nothing where requests have no score.
  std::size_t least_instances = 1;  ///< It cannot run on fewer.
};

/// A policy that runs `Scheduler` on every instance of a cluster, places new requests with `Placement` and requests
/// that begin to answer with `Migration` (see `cluster`).
/// @tparam Scheduler a composition over `sim::request`.
template <class Scheduler, class Placement = placement::least_kv, class Migration = placement::stay>
[[nodiscard]] policy make_policy(std::string name, std::string summary, const typename Scheduler::config& config = {},
                                 const Placement& placement = {}, const Migration& migration = {}) {
  return {name, std::move(summary),
          [name, config, placement, migration](const cluster_options& options, std::span<const trace_row> rows,
                                               const progress_callback& progress) {
            run_result result =
                cluster<Scheduler, placed<Placement, Migration>>{options, config, {placement, migration}}.run(rows,
                                                                                                              progress);
            result.numbers.policy = name;
            return result;
          }};
}

/// A policy that runs `Scheduler` on every instance, under a control that `make(options, rows)` makes for a run (see
/// `cluster_control`). @tparam Scheduler a composition over `sim::request`.
template <class Scheduler, class Make>
[[nodiscard]] policy make_control_policy(std::string name, std::string summary, Make make,
                                         std::size_t least_instances = 1,
                                         const typename Scheduler::config& config = {}) {
  policy p{.name = name, .summary = std::move(summary), .run = {}, .least_instances = least_instances};
  p.run = [name, make, config](const cluster_options& options, std::span<const trace_row> rows,
                               const progress_callback& progress) {
    auto control = make(options, rows);
    run_result result = cluster<Scheduler, decltype(control)>{options, config, std::move(control)}.run(rows, progress);
    result.numbers.policy = name;
    return result;
  };
  return p;
}

/// `tessera::improved` with all that belongs to it, or with some of it. What it should know from earlier traffic,
/// lengths and rate, it takes from the workload itself, as `cascade` does; `run_improved` takes a history. Without
/// scores it runs too, and expects all outputs to be alike.
[[nodiscard]] inline policy improved_policy(std::string name, const improved_config& config = {}) {
  return {name, "ours: readers first, then who is due first by predicted length; bounded steps, headroom, stages",
          [name, config](const cluster_options& options, std::span<const trace_row> rows,
                         const progress_callback& progress) {
            run_result result = run_improved(options, rows, rows, config, progress);
            result.numbers.policy = name;
            return result;
          }};
}

/// The same policy, for requests with scores only.
[[nodiscard]] inline policy needing_scores(policy p) {
  p.needs_scores = true;
  return p;
}

/// Refuses a cluster that is too small for `p`. @throws usage_error
inline void require_instances(const policy& p, std::size_t instances) {
  if (instances >= p.least_instances) return;
  throw usage_error{
      fmt::format("the policy {} needs at least {} instances, not {}", p.name, p.least_instances, instances)};
}

/// Refuses rows that `p` can make no sense of. @param what what messages call the rows.
/// @throws usage_error a policy that needs scores and a row without one.
inline void require_scores(const policy& p, std::span<const trace_row> rows, std::string_view what) {
  if (!p.needs_scores) return;
  const auto missing = std::count_if(rows.begin(), rows.end(), [](const trace_row& r) { return r.score != r.score; });
  if (missing == 0) return;
  throw usage_error{
      fmt::format("the policy {} needs a score for every request; {} of {} in {} have none (a trace with "
                  "scores comes from `rank score --trace`; `sjf` needs none)",
                  p.name, missing, rows.size(), what)};
}

/// First come, first served with all the KV memory that `rows` can ever take: what no scheduler can do better for
/// memory, and a bound for those that preempt for it.
[[nodiscard]] inline policy oracle_policy() {
  return {"oracle", "first come, first served with unlimited KV memory (an oracle)",
          [](const cluster_options& options, std::span<const trace_row> rows, const progress_callback& progress) {
            cluster_options unlimited = options;
            scheduler_limits& limits = unlimited.instance.limits;
            std::int64_t longest = 0;
            std::int64_t all = 0;
            for (const trace_row& row : rows) {
              const std::int64_t n =
                  blocks_for(tokens{row.prompt_tokens + row.output_tokens}, limits.block_size).count();
              longest = std::max(longest, n);
              all += n;
            }
            // Those that run at a time, all at their longest, or everything at once. Nothing is kept free besides.
            const std::int64_t needed = std::min(all, longest * static_cast<std::int64_t>(limits.residents));
            limits.blocks = std::max(limits.blocks, static_cast<std::size_t>(needed));
            run_result result = cluster<fcfs<request>>{unlimited, {.watermark = 0}}.run(rows, progress);
            result.numbers.policy = "oracle";
            return result;
          }};
}

/// Half of the workers prefill, half decode; or three eighths each, and the rest is mixed, as in Phasor's evaluation.
[[nodiscard]] constexpr pool_sizes halves(std::size_t instances) noexcept {
  return {.prefill = instances - instances / 2, .decode = instances / 2, .mixed = 0};
}
/// Three eighths prefill, three eighths decode (at least one each), and the rest is mixed.
[[nodiscard]] constexpr pool_sizes three_pools(std::size_t instances) noexcept {
  const std::size_t each = instances * 3 / 8 > 0 ? instances * 3 / 8 : 1;
  return {.prefill = each, .decode = each, .mixed = instances - 2 * each};
}

/// The policies that come with the library.
[[nodiscard]] inline std::vector<policy> published_policies() {
  return {
      make_policy<fcfs<request>>("fcfs", "first come, first served; the newest is swapped out when blocks run out"),
      make_policy<round_robin<request>>("rr", "round-robin with a quantum of 500 tokens, both phases alike"),
      make_policy<pascal<request>, placement::pascal_arrival, placement::pascal_migrate_adaptively>(
          "pascal", "PASCAL: reasoning first, answers share the rest and move to where it is quiet", {}, {},
          {.headroom = quantum_blocks}),
      make_policy<pascal<request>, placement::pascal_arrival, placement::pascal_migrate_always>(
          "pascal-nonadaptive", "PASCAL, but answers always go where Algorithm 2 says"),
      make_policy<pascal<request>, placement::pascal_arrival>("pascal-nomigration",
                                                              "PASCAL, but answers stay where they reasoned"),
      make_policy<pascal_paced<request>, placement::least_kv, placement::migrate_when_tight>(
          "pascal-paced", "reasoning first, but answers get what their readers need, just in time", {}, {},
          {.headroom = quantum_blocks}),
      oracle_policy(),
      needing_scores(make_policy<pars<request>>(
          "pars", "PARS: lowest score first; whoever has waited 120 s goes ahead (needs scores)")),
      make_policy<pars<request, true_length>>("sjf", "as pars, with the true lengths for scores (an oracle)"),
      make_control_policy<fcfs<request>>(
          "distserve", "half of the instances prefill, half decode, each the shortest queue",
          [](const cluster_options& o, auto) {
            return disaggregated{halves(o.instances), distserve{}};
          },
          2),
      make_control_policy<fcfs<request>>(
          "splitwise", "prefill and decode pools by the shortest queue, and a mixed one that helps out",
          [](const cluster_options& o, auto) {
            return disaggregated{three_pools(o.instances), splitwise{}};
          },
          3),
      make_control_policy<fcfs<request>>(
          "phasor", "Phasor: prefill and decode pools by headroom, defragmented, workers change between them",
          [](const cluster_options& o, auto) {
            return disaggregated{three_pools(o.instances),
                                 phasor_control{{.model = calibrate_prefill(o.instance.timer, default_ttft_target)}}};
          },
          3),
      make_control_policy<fcfs<request>>("in-turn", "first come, first served; new requests to the instances in turn",
                                         [](const cluster_options&, auto) { return in_turn{}; }),
      make_control_policy<fcfs<request>>("llumnix", "load-aware dispatch and live migration, in the manner of Llumnix",
                                         [](const cluster_options&, auto) { return llumnix{}; }),
      // Their stages are planned from the workload itself, as from a history of the same traffic.
      make_control_policy<fcfs<request>>(
          "cascade", "CascadeInfer: instances in stages by length, planned from this workload's lengths",
          [](const cluster_options& o, std::span<const trace_row> rows) {
            return cascade{published_cascade(plan_cascade(o, rows, arrival_rate(rows)))};
          }),
      make_control_policy<fcfs<request>>(
          "cascade-steady", "as cascade, with stages planned for a steady load, and dispatch by what waits",
          [](const cluster_options& o, std::span<const trace_row> rows) {
            return cascade{steady_cascade(plan_cascade(o, rows, arrival_rate(rows), layout::steady))};
          }),
      improved_policy("improved"),
  };
}

/// Finds policies by a comma-separated list of names. @throws usage_error for an unknown, empty or repeated name.
[[nodiscard]] inline std::vector<policy> select_policies(std::span<const policy> all, std::string_view names) {
  std::vector<policy> chosen;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::string_view name = names.substr(begin, end - begin);
    const auto found = std::find_if(all.begin(), all.end(), [&](const policy& p) { return p.name == name; });
    if (found == all.end()) {
      std::vector<std::string_view> allowed;
      for (const policy& p : all) allowed.push_back(p.name);
      throw usage_error{fmt::format("unknown policy {}; there are: {}", shown(name), fmt::join(allowed, ", "))};
    }
    const auto again = [&](const policy& p) { return p.name == name; };
    if (std::any_of(chosen.begin(), chosen.end(), again)) {
      throw usage_error{fmt::format("the policy {} is named twice", shown(name))};
    }
    chosen.push_back(*found);
    begin = end + 1;
  }
  return chosen;
}

}  // namespace sim
TESSERA_NAMESPACE_END
