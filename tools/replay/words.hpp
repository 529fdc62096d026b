// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../tool.hpp"

#include <tessera/sim/cluster/cluster_options.hpp>
#include <tessera/sim/cluster/cluster_size.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/measure/metrics.hpp>
#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/policies/policy.hpp>
#include <tessera/sim/report/alone.hpp>
#include <tessera/sim/setup/load_source.hpp>
#include <tessera/sim/setup/setting.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
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

/// The objectives that an idle instance misses; empty if there are none, or if there are instances of several kinds.
inline std::string describe_idle(const std::vector<sim::machines>& cluster, const sim::cluster_options& options,
                                 const std::vector<sim::trace_row>& rows, const std::vector<sim::slo_bound>& slo) {
  if (cluster.size() != 1) return {};
  return sim::describe_idle_misses(slo, rows,
                                   {.timer = options.instance.timer,
                                    .token_budget = options.instance.step.token_budget.count(),
                                    .host_request_seconds = options.host_request_seconds});
}

/// Remarks on a load on these instances before any run, a line each. They are about objectives that an idle instance
/// misses, prompts beyond the model's context, arrivals in ticks, and profiles that were not measured.
inline std::string describe_load(const sim::load_source& source, const std::vector<sim::machines>& cluster,
                                 const sim::cluster_options& options, const std::vector<sim::trace_row>& rows,
                                 const std::vector<sim::slo_bound>& slo) {
  std::string out = describe_idle(cluster, options, rows, slo);
  const sim::model_spec& model = cluster.front().profile.model;
  const auto too_long = std::count_if(rows.begin(), rows.end(), [&](const sim::trace_row& r) {
    return r.prompt_tokens + r.output_tokens > model.max_context;
  });
  if (model.max_context > 0 && too_long != 0) {
    out +=
        fmt::format("Longer than the {} tokens of context that {} has, so a server would refuse them: {} requests.\n",
                    model.max_context, model.name, too_long);
  }
  if (source.has_arrivals() && !source.has_sessions() && sim::mean_rate(rows) > 0) {
    constexpr std::size_t fewest = 32;
    std::size_t together = 0;
    double tick = 0;
    for (std::size_t i = 0; i != rows.size(); ++i) {
      const bool before = i != 0 && rows[i - 1].arrival_s == rows[i].arrival_s;
      const bool after = i + 1 != rows.size() && rows[i + 1].arrival_s == rows[i].arrival_s;
      together += before || after ? 1U : 0U;
      if (i != 0 && !before && (tick == 0 || rows[i].arrival_s - rows[i - 1].arrival_s < tick)) {
        tick = rows[i].arrival_s - rows[i - 1].arrival_s;
      }
    }
    if (rows.size() >= fewest && 2 * together >= rows.size()) {
      out += fmt::format(
          "{:.0f} % of the requests arrive at the same moment as another: the file's times are ticks of {:.3g} s, each "
          "replayed as a burst, so tails are longer than they were.\n",
          100 * static_cast<double>(together) / static_cast<double>(rows.size()), tick);
    }
  }
  for (const sim::machines& m : cluster) {
    if (m.profile.source.find("not measured") == m.profile.source.npos) continue;
    out += fmt::format("The profile {}: {}.\n", m.profile.name, m.profile.source);
  }
  return out;
}

/// The policies that divide the instances by a rule, without a plan. Empty if there are none. @param pools as
/// requested.
inline std::string name_unplanned(const std::vector<sim::policy>& policies, const std::string& pools, bool has_slo) {
  std::vector<std::string_view> names;
  for (const sim::policy& p : policies) {
    if (p.pools != 0) names.push_back(p.name);
  }
  if (names.empty() || !pools.empty()) return {};
  return fmt::format(
      "The instances of {} are divided by a rule, not by this load: --pools auto{} plans the division, as `capacity` "
      "does.\n",
      fmt::join(names, ", "), has_slo ? "" : " with --slo");
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
