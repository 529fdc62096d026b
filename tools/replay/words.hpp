// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../tool.hpp"

#include <tessera/sim/cluster/cluster_options.hpp>
#include <tessera/sim/cluster/cluster_size.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/measure/metrics.hpp>
#include <tessera/sim/setup/setting.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

/// @file
/// The descriptions of a setting in `replay` and `capacity`: for human readers, and as columns of JSON and CSV.

namespace replay {

namespace sim = tessera::sim;

/// The arrival rate, in words. @param rate as in `mean_rate`.
inline std::string say_rate(double rate, const std::vector<sim::trace_row>& rows, bool has_sessions) {
  if (!(rate > 0)) return "all at once";
  if (!has_sessions) return fmt::format("{:.4g} per second", rate);
  std::unordered_set<std::int64_t> begun;
  std::size_t first = 0;
  for (const sim::trace_row& r : rows) first += r.session < 0 || begun.insert(r.session).second ? 1U : 0U;
  return fmt::format("in {} sessions, which begin at {:.4g} per second", first,
                     rate * static_cast<double>(first) / static_cast<double>(rows.size()));
}

/// Requests per second that came in the measured window of a run, later turns of sessions included.
inline double arrivals_of(const sim::summary& s) {
  return s.measured > 1 && s.window_s > 0 ? static_cast<double>(s.measured - 1) / s.window_s : 0;
}

/// `8 x A`, or `4 x A + 4 x B`.
inline std::string names_of(const std::vector<sim::machines>& cluster) {
  std::string names;
  for (const sim::machines& m : cluster) {
    names += fmt::format("{}{} x {}", names.empty() ? "" : " + ", m.count, m.profile.name);
  }
  return names;
}

/// The same, with the number of devices of an instance.
inline std::string say_cluster(const std::vector<sim::machines>& cluster) {
  std::string names;
  for (const sim::machines& m : cluster) {
    const double devices = m.profile.parallel.devices();
    names += fmt::format("{}{} x {}{}", names.empty() ? "" : " + ", m.count, m.profile.name,
                         devices > 1 ? fmt::format(" of {:g} devices", devices) : std::string{});
  }
  return names;
}

/// When most requests come, if that is far above the mean: `, the busiest 60 s from 840 s on with 9.3 per second`.
inline std::string say_peak(const std::vector<sim::trace_row>& rows) {
  constexpr std::size_t fewest = 100;
  constexpr double far_above = 1.5;
  const double rate = sim::mean_rate(rows);
  if (rows.size() < fewest || !(rate > 0)) return {};
  const double span = rows.back().arrival_s - rows.front().arrival_s;
  const double tenth = span / 10;
  const double power = std::pow(10.0, std::floor(std::log10(tenth)));
  const double width = span >= 600 ? 60 : power * (tenth >= 5 * power ? 5 : tenth >= 2 * power ? 2 : 1);
  std::size_t most = 0;
  double from = 0;
  for (std::size_t begin = 0, end = 0; begin != rows.size(); ++begin) {
    while (end != rows.size() && rows[end].arrival_s < rows[begin].arrival_s + width) ++end;
    if (end - begin <= most) continue;
    most = end - begin;
    from = rows[begin].arrival_s;
  }
  const double peak = static_cast<double>(most) / width;
  if (peak < far_above * rate) return {};
  return fmt::format(", the busiest {:.3g} s from {:.5g} s on with {:.4g} per second", width, from, peak);
}

/// The routers in front of the cluster, as a suffix; empty if one router sees everything at any moment.
inline std::string say_routers(const sim::setting& a) {
  if (!a.routers) return {};
  return fmt::format(", behind {} router{} {}with reports of {:g} s{}", *a.routers, *a.routers == 1 ? "" : "s",
                     a.router_shares ? "with shares, " : "", a.report_interval,
                     a.action_delay > 0 ? fmt::format(" and actions {:g} s late", a.action_delay) : "");
}

/// The experiment, for JSON and CSV: the keys are columns there.
inline nlohmann::ordered_json describe_setting(const sim::setting& a, const std::vector<sim::machines>& cluster,
                                               const sim::cluster_options& options, double rate) {
  nlohmann::ordered_json what{{a.trace.empty() ? "workload" : "trace", a.trace.empty() ? a.workload : a.trace},
                              {"rate", rate},
                              {"instances", options.instances},
                              {"profile", cluster.size() == 1 ? cluster.front().profile.name : names_of(cluster)},
                              {"kv_blocks", options.instance.limits.blocks},
                              {"block_size", a.size.block_size},
                              {"max_batch", a.size.max_batch},
                              {"token_budget", a.size.token_budget},
                              {"prefix_cache", options.prefix_cache},
                              {"pools", a.pools},
                              {"objectives", a.slo},
                              {"warmup_s", a.warmup},
                              {"drain_s", a.drain},
                              {"faults_asked", fmt::format("{}", fmt::join(a.faults, " "))},
                              {"seed", a.seed},
                              {"version", tool::version()}};
  if (cluster.size() > 1) {
    nlohmann::ordered_json blocks = nlohmann::ordered_json::array();
    for (std::size_t k = 0, i = 0; k != cluster.size(); i += cluster[k++].count) {
      blocks.push_back(options.of(i).limits.blocks);
    }
    what["kv_blocks"] = std::move(blocks);
  }
  if (a.routers) {
    what["routers"] = *a.routers;
    what["report_interval_s"] = a.report_interval;
    what["router_shares"] = a.router_shares;
    if (a.action_delay > 0) what["action_delay_s"] = a.action_delay;
  }
  if (a.plan_delay > 0) what["plan_delay_s"] = a.plan_delay;
  if (a.mtbf) what["mtbf_s"] = *a.mtbf;
  if (a.mttr) what["mttr_s"] = *a.mttr;
  return what;
}

}  // namespace replay
