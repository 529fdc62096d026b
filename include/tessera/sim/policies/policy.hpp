// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/cluster/placement_name.hpp>

#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
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

struct policy;

/// A number of a policy that its user may set, as in `--policy pars:threshold=60`.
struct policy_parameter {
  std::string name;   ///< Without `:`, `=` and `,`.
  double least = 0;   ///< Less is refused,
  double most = 1e9;  ///< and more.
  /// The policy with this value, under a name of its own. Its other parameters stay as they are.
  std::function<policy(std::string name, double value)> with;
};

/// A scheduler and a placement under a name.
struct policy {
  std::string name;     ///< As in `--policy`.
  std::string summary;  ///< One line.
  /// Simulates a workload under it, from the first arrival to the last token.
  std::function<run_result(const cluster_options&, std::span<const trace_row>, const progress_callback&)> run;
  bool needs_scores = false;        ///< It means nothing where requests have no score.
  std::string placement{};          ///< Where new requests go, in a word; empty: as `cluster_options` say.
  std::size_t least_instances = 1;  ///< It cannot run on fewer.
  std::size_t most_instances = std::numeric_limits<std::size_t>::max();  ///< Nor on more.
  std::size_t pools = 0;      ///< It divides the instances into so many pools, as `cluster_options::pools` says:
                              ///< 2, prefill and decode, or 3, with a mixed one.
  std::string formerly = {};  ///< An earlier name, by which it is found, too.
  std::vector<policy_parameter> parameters = {};  ///< What of it can be set by name.
};

/// A policy that runs such engines on every instance of a cluster, places new requests with `Placement` and requests
/// that begin to answer with `Migration` (see `placed`).
template <class Placement = placement::least_load, class Migration = placement::stay>
[[nodiscard]] policy make_placed_policy(std::string name, std::string summary, engine_maker engines,
                                        const Placement& placement = {}, const Migration& migration = {}) {
  return {name, std::move(summary),
          [name, engines = std::move(engines), placement, migration](
              const cluster_options& options, std::span<const trace_row> rows, const progress_callback& progress) {
            cluster c{options, engines, std::make_unique<placed<Placement, Migration>>(placement, migration)};
            run_result result = c.run(rows, progress);
            result.numbers.policy = name;
            result.numbers.placement = options.placement ? options.placement->name : placement_name<Placement>;
            return result;
          }};
}

/// The same for engines of one composition. @tparam Scheduler a composition over `sim::request`.
template <class Scheduler, class Placement = placement::least_load, class Migration = placement::stay>
[[nodiscard]] policy make_policy(std::string name, std::string summary, const typename Scheduler::config& config = {},
                                 const Placement& placement = {}, const Migration& migration = {}) {
  return make_placed_policy(std::move(name), std::move(summary), engines_of<Scheduler>(config), placement, migration);
}

/// Makes the control of a run.
using control_maker =
    std::function<std::unique_ptr<cluster_control>(const cluster_options&, std::span<const trace_row>)>;

/// A policy that runs such engines on every instance, under a control that `make(options, rows)` makes for a run (see
/// `cluster_control`). @param placement where new requests go under it, in a word.
[[nodiscard]] policy make_control_policy(std::string name, std::string summary, engine_maker engines,
                                         control_maker make, std::size_t least_instances = 1,
                                         std::string placement = "own");

/// The same for engines of one composition, and a control of any type. @tparam Scheduler a composition over
/// `sim::request`. @param make returns a control: see `make_control`.
template <class Scheduler, class Make>
[[nodiscard]] policy make_control_policy(std::string name, std::string summary, Make make,
                                         std::size_t least_instances = 1, const typename Scheduler::config& config = {},
                                         std::string placement = "own") {
  return make_control_policy(
      std::move(name), std::move(summary), engines_of<Scheduler>(config),
      [make = std::move(make)](const cluster_options& options, std::span<const trace_row> rows) {
        return make_control(make(options, rows));
      },
      least_instances, std::move(placement));
}

/// The same policy, for clusters of at most so many instances.
[[nodiscard]] policy with_most(policy p, std::size_t instances);

/// The same policy, which reads `cluster_options::pools`: 2 of them, or 3.
[[nodiscard]] policy with_pools(policy p, std::size_t pools);

/// The same policy, for requests with scores only.
[[nodiscard]] policy needing_scores(policy p);

/// Refuses a cluster that is too small or too large for `p`. @throws usage_error
void require_instances(const policy& p, std::size_t instances);

/// Refuses routers in front of a policy whose placement is a part of it. @throws usage_error
void require_open_placement(const policy& p, const cluster_options& options);

/// Refuses rows that `p` can make no sense of. @param what what messages call the rows.
/// @throws usage_error a policy that needs scores and a row without one.
void require_scores(const policy& p, std::span<const trace_row> rows, std::string_view what);

/// The names of the parameters of `p`, for messages; empty if it has none.
[[nodiscard]] std::string list_parameters(const policy& p);

/// Finds policies by a comma-separated list of names, present ones or earlier ones; after a name, parameters of the
/// policy may be set, each as `:PARAMETER=VALUE`, and are then a part of its name. @param what what messages call one
/// of them.
/// @throws usage_error for an unknown, empty or repeated name, and for a parameter that is unknown or out of its range.
[[nodiscard]] std::vector<policy> select_policies(std::span<const policy> all, std::string_view names,
                                                  std::string_view what = "policy");

}  // namespace sim
TESSERA_NAMESPACE_END
