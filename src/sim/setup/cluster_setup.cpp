// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/cluster/cluster_options.hpp>
#include <tessera/sim/cluster/cluster_size.hpp>
#include <tessera/sim/cluster/fault.hpp>
#include <tessera/sim/cluster/routing.hpp>
#include <tessera/sim/error.hpp>
#include <tessera/sim/input/split_list.hpp>
#include <tessera/sim/input/trace_row.hpp>
#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/model/profile_file.hpp>
#include <tessera/sim/model/step_time.hpp>
#include <tessera/sim/policies/placements.hpp>
#include <tessera/sim/policies/policy.hpp>
#include <tessera/sim/setup/cluster_setup.hpp>
#include <tessera/sim/setup/setting.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

profile find_profile(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && text[first] == '{' ? parse_profile(text, "profile") : load_profile(text);
}

std::vector<machines> machines_of(const setting& a) {
  const std::string instances = a.says("instances");
  const std::vector<std::string_view> counts = split_list(a.instances);
  if (a.profile != default_profile &&
      std::all_of(counts.begin(), counts.end(), [](std::string_view c) { return c.find('x') != c.npos; })) {
    throw usage_error{
        fmt::format("{} names the profile of each instance, so {} has no effect", instances, a.says("profile"))};
  }
  // A single number has one profile; in its text a comma separates nothing.
  const std::vector<std::string_view> profiles =
      counts.size() == 1 ? std::vector<std::string_view>{a.profile} : split_list(a.profile);
  std::vector<machines> all;
  std::int64_t sum = 0;
  for (std::size_t k = 0; k != counts.size(); ++k) {
    std::string_view item = counts[k];
    std::int64_t n = 0;
    const auto [end, failure] = std::from_chars(item.data(), item.data() + item.size(), n);
    item.remove_prefix(static_cast<std::size_t>(end - item.data()));
    const bool named = item.size() > 1 && item.front() == 'x';
    if (named && profiles.size() > 1) {
      throw usage_error{fmt::format("{} names the profile of some, {} those of all: name each in one place", instances,
                                    a.says("profile"))};
    }
    if (failure != std::errc{} || !(item.empty() || named)) {
      throw usage_error{fmt::format("{} is a number, or numbers and profiles as 4xPROFILE,4xPROFILE, not {}", instances,
                                    shown(a.instances))};
    }
    if (!named && profiles.size() != counts.size()) {
      throw usage_error{
          fmt::format("{} names {} kinds, {} {}", instances, counts.size(), a.says("profile"), profiles.size())};
    }
    sum += a.positive(n, max_instances, "instances");
    std::string profile{named ? item.substr(1) : profiles[k]};
    all.push_back({static_cast<std::size_t>(n), find_profile(profile), std::move(profile)});
    const double kv = all.back().profile.kv_bytes_per_token();
    if (kv != all.front().profile.kv_bytes_per_token()) {
      throw usage_error{
          fmt::format("instances of one cluster serve one model: a token's KV has {:g} bytes in the "
                      "profile {}, {:g} in {}",
                      all.front().profile.kv_bytes_per_token(), all.front().profile.name, kv, all.back().profile.name)};
    }
  }
  a.positive(sum, max_instances, "instances");
  return all;
}

std::vector<fault> faults_of(const setting& a, std::size_t instances, std::span<const trace_row> rows,
                             std::uint64_t seed) {
  std::vector<fault> faults;
  for (const std::string& text : a.faults) {
    faults.push_back(parse_fault(text));
    if (faults.back().instance >= instances) {
      throw usage_error{fmt::format("the fault {} names an instance that does not exist: they are 0 to {}", shown(text),
                                    instances - 1)};
    }
  }
  const std::string mtbf = a.says("mtbf");
  const std::string mttr = a.says("mttr");
  if (a.mtbf.has_value() != a.mttr.has_value()) throw usage_error{fmt::format("{} and {} go together", mtbf, mttr)};
  if (a.detection != setting{}.detection && a.faults.empty() && !a.mtbf) {
    throw usage_error{fmt::format("{} goes with {}, or {} and {}", a.says("detection"), a.says("fault"), mtbf, mttr)};
  }
  if (!a.mtbf) return faults;
  const double from = rows.front().arrival_s;
  const double to = rows.back().arrival_s;
  for (const auto& [value, name] : {std::pair{*a.mtbf, mtbf}, std::pair{*a.mttr, mttr}}) {
    if (!(value > 0 && value <= max_replay_seconds)) {
      throw usage_error{
          fmt::format("{} is a number of seconds above 0, at most {:g}, not {:g}", name, max_replay_seconds, value)};
    }
  }
  constexpr double most = 1e6;
  if (const double deaths = (to - from) * static_cast<double>(instances) / (*a.mtbf + *a.mttr); !(deaths <= most)) {
    throw usage_error{
        fmt::format("with these {} and {} there would be about {:.3g} deaths; at most {:g}", mtbf, mttr, deaths, most)};
  }
  const auto drawn = random_deaths(instances, from, to, *a.mtbf, *a.mttr, seed);
  faults.insert(faults.end(), drawn.begin(), drawn.end());
  return faults;
}

void check_step_time(const instance_options& instance, const std::string& profile) {
  const tokens kv = instance.limits.block_size * static_cast<std::int64_t>(instance.limits.blocks);
  step_shape largest;
  largest.decodes = static_cast<std::int64_t>(instance.step.max_batch);
  largest.decode_context = kv.count();
  largest.add_prefill(min(kv, instance.limits.max_length), instance.step.token_budget);
  const double seconds = instance.timer(largest);
  if (!(seconds <= max_step_seconds)) {
    throw usage_error{fmt::format("with the profile {} a full step takes {:.3g} seconds; at most {:g} make sense",
                                  profile, seconds, max_step_seconds)};
  }
}

void check_window(const setting& a, std::span<const trace_row> rows) {
  for (const auto& [value, name] : {std::pair{a.warmup, "warmup"}, std::pair{a.drain, "drain"}}) {
    if (!(value >= 0)) {
      throw usage_error{fmt::format("{} is a number of seconds, 0 or more, not {:g}", a.says(name), value)};
    }
  }
  const double first = rows.front().arrival_s + a.warmup;
  const double last = rows.back().arrival_s - a.drain;
  if (std::none_of(rows.begin(), rows.end(),
                   [&](const trace_row& r) { return first <= r.arrival_s && r.arrival_s <= last; })) {
    throw usage_error{fmt::format(
        "{} {:g} and {} {:g} leave nothing to measure: the requests arrive within {:.4g} seconds", a.says("warmup"),
        a.warmup, a.says("drain"), a.drain, rows.back().arrival_s - rows.front().arrival_s)};
  }
}

std::optional<routing> routing_of(const setting& a) {
  constexpr double shortest = 1e-3;
  // A number of seconds is named by its unit where there is no --help.
  const std::string interval = a.how == spelling::options ? a.says("report_interval") : "report_s";
  if (!(a.report_interval >= shortest && a.report_interval <= max_replay_seconds)) {
    throw usage_error{fmt::format("{} is a number of seconds from {:g} to {:g}, not {:g}", interval, shortest,
                                  max_replay_seconds, a.report_interval)};
  }
  const std::string delay = a.how == spelling::options ? a.says("action_delay") : "action_s";
  if (!(a.action_delay >= 0 && a.action_delay <= max_replay_seconds)) {
    throw usage_error{
        fmt::format("{} is a number of seconds from 0 to {:g}, not {:g}", delay, max_replay_seconds, a.action_delay)};
  }
  if (!a.routers) {
    const std::string alone = a.router_shares                                  ? a.says("router_shares")
                              : a.report_interval != setting{}.report_interval ? interval
                              : a.action_delay != 0                            ? delay
                                                                               : std::string{};
    if (!alone.empty()) throw usage_error{fmt::format("{} goes with {}", alone, a.says("routers"))};
    return {};
  }
  return routing{.routers = static_cast<std::size_t>(a.positive(*a.routers, max_routers, "routers")),
                 .shares = a.router_shares,
                 .report_s = a.report_interval,
                 .action_s = a.action_delay};
}

cluster_options size_cluster(const setting& a, std::span<const machines> cluster, std::span<const trace_row> rows,
                             std::uint64_t seed) {
  cluster_options o = size_cluster(cluster, a.size, rows, a.how);
  if (!(a.detection >= 0 && a.detection <= max_replay_seconds)) {
    throw usage_error{fmt::format("{} is a number of seconds from 0 to {:g}, not {:g}", a.says("detection"),
                                  max_replay_seconds, a.detection)};
  }
  const std::string plan_delay = a.how == spelling::options ? a.says("plan_delay") : "plan_s";
  if (!(a.plan_delay >= 0 && a.plan_delay <= max_replay_seconds)) {
    throw usage_error{fmt::format("{} is a number of seconds from 0 to {:g}, not {:g}", plan_delay, max_replay_seconds,
                                  a.plan_delay)};
  }
  o.plan_s = a.plan_delay;
  check_window(a, rows);
  o.warmup_s = a.warmup;
  o.drain_s = a.drain;
  o.seed = seed;
  o.prefix_cache = a.prefix_cache;
  if (!a.slo.empty()) o.promised = promise_of(parse_slo(a.slo));
  if (!a.placement.empty()) o.placement = find_placement(a.placement);
  o.routed = routing_of(a);
  o.detection_s = a.detection;
  o.faults = faults_of(a, o.instances, rows, seed);
  if (!a.pools.empty() && a.pools != "auto") o.pools = parse_pools(a.pools, o.instances);
  for (std::size_t k = 0, i = 0; k != cluster.size(); i += cluster[k++].count) {
    check_step_time(o.of(i), cluster[k].profile.name);
  }
  return o;
}

void require_suitable(const policy& p, const cluster_options& options, std::span<const trace_row> rows,
                      std::string_view what) {
  require_scores(p, rows, what);
  require_instances(p, options.instances);
  require_open_placement(p, options);
  if (p.pools == 2 && options.pools && options.pools->mixed != 0) {
    throw usage_error{fmt::format("the policy {} has no mixed pool: --pools is PREFILL/DECODE", p.name)};
  }
}

}  // namespace sim
TESSERA_NAMESPACE_END
