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
/// Policies by name, so that a tool can run any of them on one workload. One line adds a policy:
///
///     policies.push_back(sim::make_policy<my_scheduler<sim::request>>("mine", "what it does"));

TESSERA_NAMESPACE_BEGIN
namespace sim {

struct policy;

/// A number of a policy that the user may set, as in `--policy pars:threshold=60`.
struct policy_parameter {
  std::string name;   ///< Without `:`, `=` and `,`.
  double least = 0;   ///< Smaller values are rejected,
  double most = 1e9;  ///< and larger ones.
  /// The policy with this value, under a name of its own. Its other parameters stay as they are.
  std::function<policy(std::string name, double value)> with;
};

/// A scheduler and a placement with a name.
struct policy {
  std::string name;     ///< As in `--policy`.
  std::string summary;  ///< One line.
  /// Simulates a workload under it, from the first arrival to the last token.
  std::function<run_result(const cluster_options&, std::span<const trace_row>, const progress_callback&)> run;
  bool needs_scores = false;        ///< It needs requests with scores.
  std::string placement{};          ///< Name of the placement of new requests; empty: as `cluster_options` says.
  std::size_t least_instances = 1;  ///< The fewest instances that it can run on.
  std::size_t most_instances = std::numeric_limits<std::size_t>::max();  ///< The most instances that it can run on.
  std::size_t pools = 0;  ///< The number of pools that it divides the instances into, as in
                          ///< `cluster_options::pools`: 2, prefill and decode, or 3, with a mixed one.
  std::vector<policy_parameter> parameters = {};  ///< Parameters that can be set by name.
  bool knows_routers = false;  ///< Its own placement runs behind routers, too: see `cluster_options::routed`.
};

/// A policy that runs these engines on every instance of a cluster. It places new requests with `Placement` and
/// requests that begin to answer with `Migration` (see `placed`).
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

/// A policy that runs these engines on every instance, under a control that `make(options, rows)` makes for a run (see
/// `cluster_control`). @param placement name of its placement of new requests.
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

/// The same policy, for clusters of at most this many instances.
[[nodiscard]] policy with_most(policy p, std::size_t instances);

/// The same policy, reading `cluster_options::pools`: 2 or 3 pools.
[[nodiscard]] policy with_pools(policy p, std::size_t pools);

/// The same policy, with a placement of its own that works behind routers (`cluster_options::routed`).
[[nodiscard]] policy with_routers(policy p);

/// The same policy, for requests with scores only.
[[nodiscard]] policy needing_scores(policy p);

/// Rejects a cluster that is too small or too large for `p`. @throws usage_error
void require_instances(const policy& p, std::size_t instances);

/// Rejects routers in front of a policy with a placement of its own that knows none. @throws usage_error
void require_open_placement(const policy& p, const cluster_options& options);

/// Rejects rows that `p` cannot use. @param what the name of the rows in messages.
/// @throws usage_error a policy that needs scores and a row without one.
void require_scores(const policy& p, std::span<const trace_row> rows, std::string_view what);

/// The names of the parameters of `p`, for messages; empty if it has none.
[[nodiscard]] std::string list_parameters(const policy& p);

/// Finds policies by a comma-separated list of names. After a name, parameters of the policy
/// may be set, each as `:PARAMETER=VALUE`; they become a part of its name. @param what the word for a policy in
/// messages.
/// @throws usage_error for an unknown, empty or repeated name, and for a parameter that is unknown or out of its range.
[[nodiscard]] std::vector<policy> select_policies(std::span<const policy> all, std::string_view names,
                                                  std::string_view what = "policy");

}  // namespace sim
TESSERA_NAMESPACE_END
