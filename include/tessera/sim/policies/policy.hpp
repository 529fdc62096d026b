// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/cluster/placement_name.hpp>
#include <tessera/sim/input/did_you_mean.hpp>
#include <tessera/sim/input/split_list.hpp>
#include <tessera/sim/names.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

/// @file
/// Policies by name, so that a tool can run any of them on one workload. Adding one is one line:
///
///     policies.push_back(sim::make_policy<my_scheduler<sim::request>>("mine", "what it does"));
///
/// Each source that calls `published_policies` or `run_due_first` compiles whole simulations, which takes a minute. A
/// program that does so in several sources can do it in one alone:
/// - `TESSERA_POLICIES_APART`, defined for all of them: these functions are only declared,
/// - `TESSERA_POLICIES_SOURCE`, defined before the first include of one that includes `sim/policies/policies.hpp`: but
/// for here.

#ifndef TESSERA_POLICIES_APART
#  define TESSERA_DETAIL_POLICIES_INLINE inline
#  define TESSERA_DETAIL_POLICIES_DEFINED 1
#else
#  define TESSERA_DETAIL_POLICIES_INLINE
#  ifdef TESSERA_POLICIES_SOURCE
#    define TESSERA_DETAIL_POLICIES_DEFINED 1
#  else
#    define TESSERA_DETAIL_POLICIES_DEFINED 0
#  endif
#endif

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Told how many requests have ended, from time to time during a run.
using progress_callback = std::function<void(std::size_t completed)>;

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

/// A policy that runs `Scheduler` on every instance of a cluster, places new requests with `Placement` and requests
/// that begin to answer with `Migration` (see `cluster`).
/// @tparam Scheduler a composition over `sim::request`.
template <class Scheduler, class Placement = placement::least_load, class Migration = placement::stay>
[[nodiscard]] policy make_policy(std::string name, std::string summary, const typename Scheduler::config& config = {},
                                 const Placement& placement = {}, const Migration& migration = {}) {
  return {name, std::move(summary),
          [name, config, placement, migration](const cluster_options& options, std::span<const trace_row> rows,
                                               const progress_callback& progress) {
            run_result result =
                cluster<Scheduler, placed<Placement, Migration>>{options, config, {placement, migration}}.run(rows,
                                                                                                              progress);
            result.numbers.policy = name;
            result.numbers.placement = options.placement ? options.placement->name : placement_name<Placement>;
            return result;
          }};
}

/// A policy that runs `Scheduler` on every instance, under a control that `make(options, rows)` makes for a run (see
/// `cluster_control`). @tparam Scheduler a composition over `sim::request`. @param placement where new requests go
/// under it, in a word.
template <class Scheduler, class Make>
[[nodiscard]] policy make_control_policy(std::string name, std::string summary, Make make,
                                         std::size_t least_instances = 1, const typename Scheduler::config& config = {},
                                         std::string placement = "own") {
  policy p{.name = name,
           .summary = std::move(summary),
           .run = {},
           .placement = placement,
           .least_instances = least_instances};
  p.run = [name, make, config, placement](const cluster_options& options, std::span<const trace_row> rows,
                                          const progress_callback& progress) {
    auto control = make(options, rows);
    run_result result = cluster<Scheduler, decltype(control)>{options, config, std::move(control)}.run(rows, progress);
    result.numbers.policy = name;
    result.numbers.placement = placement;
    return result;
  };
  return p;
}

/// The same policy, for clusters of at most so many instances.
[[nodiscard]] inline policy with_most(policy p, std::size_t instances) {
  p.most_instances = instances;
  return p;
}

/// The same policy, which reads `cluster_options::pools`: 2 of them, or 3.
[[nodiscard]] inline policy with_pools(policy p, std::size_t pools) {
  p.pools = pools;
  return p;
}

/// The same policy, for requests with scores only.
[[nodiscard]] inline policy needing_scores(policy p) {
  p.needs_scores = true;
  return p;
}

/// Refuses a cluster that is too small or too large for `p`. @throws usage_error
inline void require_instances(const policy& p, std::size_t instances) {
  if (instances < p.least_instances) {
    throw usage_error{
        fmt::format("the policy {} needs at least {} instances, not {}", p.name, p.least_instances, instances)};
  }
  if (instances > p.most_instances) {
    throw usage_error{fmt::format("the policy {} takes at most {} instances, not {}: each of them knows all others",
                                  p.name, p.most_instances, instances)};
  }
}

/// Refuses routers in front of a policy whose placement is a part of it. @throws usage_error
inline void require_open_placement(const policy& p, const cluster_options& options) {
  if (!options.routed || p.placement.empty()) return;
  throw usage_error{fmt::format(
      "the policy {} places requests by itself, and sees all instances at any moment: it knows no routers", p.name)};
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

/// The names of the parameters of `p`, for messages; empty if it has none.
[[nodiscard]] inline std::string list_parameters(const policy& p) {
  return fmt::format("{}", fmt::join(names_of(p.parameters), ", "));
}

namespace detail {

/// `p` as a text `:PARAMETER=VALUE:...` asks for it. @throws usage_error
[[nodiscard]] inline policy with_parameters(policy p, std::string_view settings, std::string_view what) {
  const std::string name = p.name;
  std::vector<std::string_view> seen;
  for (const std::string_view item : split_list(settings, ':')) {
    if (p.parameters.empty()) {
      throw usage_error{fmt::format("the {} {} has no parameters, but {} is to be set", what, name, shown(item))};
    }
    const std::size_t equals = item.find('=');
    if (equals == item.npos) {
      throw usage_error{fmt::format("{}: expected PARAMETER=VALUE, not {}", name, shown(item))};
    }
    const std::string_view key = item.substr(0, equals);
    const std::string_view text = item.substr(equals + 1);
    const auto found = std::find_if(p.parameters.begin(), p.parameters.end(),
                                    [&](const policy_parameter& x) { return x.name == key; });
    if (found == p.parameters.end()) {
      throw usage_error{fmt::format("{} has no parameter {}; there are: {}", name, shown(key), list_parameters(p))};
    }
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      throw usage_error{fmt::format("{}: {} is set twice", name, key)};
    }
    seen.push_back(key);
    double value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc{} || end != text.data() + text.size() ||
        !(value >= found->least && value <= found->most)) {
      throw usage_error{fmt::format("{}: {} is a number from {:g} to {:g}, not {}", name, key, found->least,
                                    found->most, shown(text))};
    }
    p = found->with(fmt::format("{}:{}", p.name, item), value);
  }
  return p;
}

}  // namespace detail

/// Finds policies by a comma-separated list of names, present ones or earlier ones; after a name, parameters of the
/// policy may be set, each as `:PARAMETER=VALUE`, and are then a part of its name. @param what what messages call one
/// of them.
/// @throws usage_error for an unknown, empty or repeated name, and for a parameter that is unknown or out of its range.
[[nodiscard]] inline std::vector<policy> select_policies(std::span<const policy> all, std::string_view names,
                                                         std::string_view what = "policy") {
  std::vector<policy> chosen;
  for (const std::string_view item : split_list(names)) {
    const std::size_t colon = std::min(item.find(':'), item.size());
    const std::string_view name = item.substr(0, colon);
    const auto found = std::find_if(all.begin(), all.end(), [&](const policy& p) {
      return !name.empty() && (p.name == name || p.formerly == name);
    });
    if (found == all.end()) {
      const std::vector<std::string_view> allowed = names_of(all);
      throw usage_error{fmt::format("unknown {} {}{}; there are: {}", what, shown(name), did_you_mean(name, allowed),
                                    fmt::join(allowed, ", "))};
    }
    policy one = colon == item.size() ? *found : detail::with_parameters(*found, item.substr(colon + 1), what);
    const auto again = [&](const policy& p) { return p.name == one.name; };
    if (std::any_of(chosen.begin(), chosen.end(), again)) {
      throw usage_error{fmt::format("the {} {} is named twice", what, shown(one.name))};
    }
    chosen.push_back(std::move(one));
  }
  return chosen;
}

}  // namespace sim
TESSERA_NAMESPACE_END
