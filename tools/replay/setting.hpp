// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../tool.hpp"
#include "gzip.hpp"

#include <tessera/sim/cluster/cluster_size.hpp>
#include <tessera/sim/cluster/fault.hpp>
#include <tessera/sim/cluster/instance.hpp>
#include <tessera/sim/input/resample.hpp>
#include <tessera/sim/input/split_list.hpp>
#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profile_file.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/policies/placements.hpp>
#include <tessera/sim/policies/policy.hpp>
#include <tessera/sim/policies/pool_plan.hpp>
#include <tessera/sim/report/alone.hpp>
#include <tessera/sim/report/metrics.hpp>
#include <tessera/sim/report/slo.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <vector>

/// @file
/// What is replayed, and on which cluster: the options that `replay` and `capacity` share, and what is made of them.

namespace replay {

namespace sim = tessera::sim;

/// A workload and a cluster, as the command line says them.
struct setting {
  std::string workload;
  std::string trace;
  std::optional<double> rate;
  std::optional<double> rate_scale;
  std::optional<std::int64_t> requests;
  std::int64_t seed = 1;
  std::optional<std::int64_t> hash_tokens;
  std::string time_unit;
  std::optional<std::int64_t> run;
  std::string instances = "8";
  std::string placement;
  std::optional<std::int64_t> routers;
  double report_interval = 1;
  bool router_shares = false;
  std::string profile{sim::default_profile};
  std::vector<std::string> faults;
  std::optional<double> mtbf;
  std::optional<double> mttr;
  double detection = 1;
  std::string pools;
  std::string slo;
  double warmup = 0;
  double drain = 0;
  sim::instance_size size;
  std::string prefix_cache = "on";
};

/// Requests of a built-in workload when none are asked for.
inline constexpr std::size_t default_requests = 8000;

// What is refused because nobody means it: it would take days.
using sim::max_replay_seconds;
inline constexpr double max_step_seconds = 1e6;
inline constexpr double max_rate = 1e9;  ///< Also of a scale.
inline constexpr std::int64_t max_seed = 1'000'000'000'000'000;

/// `n`, if it is from 1 to `most`.
inline std::int64_t positive(std::int64_t n, std::int64_t most, const char* option) {
  return sim::require_within(n, 1, most, option);
}

/// How often requests arrive, in words. @param rate as `mean_rate` says it.
inline std::string say_rate(double rate, const std::vector<sim::trace_row>& rows, bool has_sessions) {
  if (!(rate > 0)) return "all at once";
  if (!has_sessions) return fmt::format("{:.4g} per second", rate);
  std::unordered_set<std::int64_t> begun;
  std::size_t first = 0;
  for (const sim::trace_row& r : rows) first += r.session < 0 || begun.insert(r.session).second ? 1U : 0U;
  return fmt::format("in {} sessions, which begin at {:.4g} per second", first,
                     rate * static_cast<double>(first) / static_cast<double>(rows.size()));
}

/// Requests per second that have come in the measured window of a run, the later turns of sessions among them.
inline double arrivals_of(const sim::summary& s) {
  return s.measured > 1 && s.window_s > 0 ? static_cast<double>(s.measured - 1) / s.window_s : 0;
}

/// Where the rows to replay come from, for any seed and rate. A trace is read once.
class row_source {
 public:
  explicit row_source(const setting& a) {
    requests_ = a.requests ? static_cast<std::size_t>(positive(*a.requests, sim::max_trace_rows, "--requests")) : 0U;
    sim::require_within(a.seed, 0, max_seed, "--seed");
    if (a.hash_tokens) sim::require_within(*a.hash_tokens, 1, sim::max_trace_tokens, "--hash-tokens");
    const auto run = static_cast<std::size_t>(a.run ? positive(*a.run, sim::max_trace_rows, "--run") : 0);
    const sim::time_unit unit = sim::find_time_unit(a.time_unit);
    if (a.rate && a.rate_scale) throw sim::usage_error{"--rate and --rate-scale exclude each other"};
    for (const auto& [value, option] : {std::pair{a.rate, "--rate"}, std::pair{a.rate_scale, "--rate-scale"}}) {
      if (value && !(*value > 0 && *value <= max_rate)) {
        throw sim::usage_error{fmt::format("{} is a number above 0, at most {:g}, not {:g}", option, max_rate, *value)};
      }
    }
    if (a.workload.empty() == a.trace.empty()) {
      throw sim::usage_error{fmt::format("name one of --trace FILE.csv and --workload NAME; workloads: {}",
                                         fmt::join(sim::workload_names(), ", "))};
    }
    if (!a.workload.empty()) {
      workload_ = &sim::find_workload(a.workload);
      what_ = fmt::format("{}: {}", workload_->name, workload_->summary);
      name_ = a.workload;
    } else {
      trace_ = sim::read_trace(a.trace, tool::unpacking({.hash_tokens = a.hash_tokens, .unit = unit, .run = run}));
      what_ = name_ = a.trace;
      if (!trace_.has_arrivals && !a.rate) {
        throw sim::usage_error{sim::no_arrivals(trace_, "a --rate")};
      }
    }
    if (a.hash_tokens && !trace_.has_prefixes) {
      throw sim::usage_error{"--hash-tokens goes with a --trace that has hash_ids"};
    }
    if (a.trace.empty() && (a.run || !a.time_unit.empty())) {
      throw sim::usage_error{fmt::format("{} goes with a --trace", a.run ? "--run" : "--time-unit")};
    }
  }

  /// A line that says what they are.
  [[nodiscard]] const std::string& what() const noexcept { return what_; }
  /// The workload's name, or the trace's.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Whether it is a trace.
  [[nodiscard]] bool is_trace() const noexcept { return workload_ == nullptr; }
  /// A sentence about columns of the trace that nothing is made of; empty if there are none.
  [[nodiscard]] std::string unused() const { return sim::describe_unused(trace_); }
  /// Whether there are later turns of sessions, which come when they like.
  [[nodiscard]] bool has_sessions() const noexcept {
    return is_trace() ? trace_.has_sessions : workload_->sessions.has_value();
  }
  /// Whether it is a trace that says when its requests arrive.
  [[nodiscard]] bool has_arrivals() const noexcept { return is_trace() && trace_.has_arrivals; }
  /// Windows from which other seeds than the first draw a trace with arrivals; 0: all seeds replay the same rows.
  [[nodiscard]] std::size_t windows(const setting& a) const {
    if (!has_arrivals()) return 0;
    return sim::resample_windows(rows(a, static_cast<std::uint64_t>(a.seed)));
  }
  /// Whether other seeds have other arrivals.
  [[nodiscard]] bool draws(const setting& a) const { return !has_arrivals() || windows(a) != 0; }
  /// What several seeds are of a trace that says when its requests arrive, in a sentence; else empty.
  [[nodiscard]] std::string describe_seeds(const setting& a) const {
    if (!has_arrivals()) return {};
    const std::size_t n = windows(a);
    if (n == 0) {
      return fmt::format(
          "The trace says when its requests arrive: all seeds replay the same ones, and intervals do not tell how "
          "another day would be{}.\n",
          has_sessions() || trace_.has_prefixes ? " (sessions and prefixes cannot be drawn by windows)" : "");
    }
    return fmt::format(
        "The trace says when its requests arrive: seed {} replays it, and each other one draws every {}th of its time "
        "anew, from up to that much earlier or later.\n",
        a.seed, n);
  }
  /// A sentence where more requests were asked for than there are; empty if not.
  [[nodiscard]] std::string fewer() const {
    if (!is_trace() || requests_ <= trace_.rows.size()) return {};
    return fmt::format("{} has {} requests: fewer than --requests {}.\n", name_, trace_.rows.size(), requests_);
  }
  /// The rows of a seed, at the rate that `a` asks for. Of a trace with arrivals the seed that `a` names replays them,
  /// others replay windows of them: see `sim::resample`.
  [[nodiscard]] std::vector<sim::trace_row> rows(const setting& a, std::uint64_t seed) const {
    if (workload_ != nullptr) {
      const double rate = a.rate.value_or(workload_->rate * a.rate_scale.value_or(1.0));
      return sim::generate(*workload_, requests_ == 0 ? default_requests : requests_, rate, seed);
    }
    std::vector<sim::trace_row> rows = sim::schedule_arrivals(
        trace_, {.rate = a.rate, .rate_scale = a.rate_scale.value_or(1.0), .requests = requests_, .seed = seed});
    if (trace_.has_arrivals && seed != static_cast<std::uint64_t>(a.seed)) {
      if (const std::size_t n = sim::resample_windows(rows); n != 0) return sim::resample(rows, n, seed);
    }
    return rows;
  }

 private:
  std::size_t requests_ = 0;
  const sim::workload* workload_ = nullptr;
  sim::trace trace_;
  std::string what_;
  std::string name_;
};

/// The cluster as `--instances` and `--profile` say it: `8` of one profile, `4,4` of as many profiles, or
/// `4xPROFILE,4xPROFILE`.
inline std::vector<sim::machines> machines_of(const setting& a) {
  const std::vector<std::string_view> counts = sim::split_list(a.instances);
  if (a.profile != sim::default_profile &&
      std::all_of(counts.begin(), counts.end(), [](std::string_view c) { return c.find('x') != c.npos; })) {
    throw sim::usage_error{"--instances names the profile of each, so --profile says nothing"};
  }
  const std::vector<std::string_view> profiles =
      counts.size() == 1 ? std::vector<std::string_view>{a.profile} : sim::split_list(a.profile);
  std::vector<sim::machines> all;
  std::int64_t sum = 0;
  for (std::size_t k = 0; k != counts.size(); ++k) {
    std::string_view item = counts[k];
    std::int64_t n = 0;
    const auto [end, failure] = std::from_chars(item.data(), item.data() + item.size(), n);
    item.remove_prefix(static_cast<std::size_t>(end - item.data()));
    const bool named = item.size() > 1 && item.front() == 'x';
    if (named && profiles.size() > 1) {
      throw sim::usage_error{"--instances names the profile of some, --profile those of all: name each in one place"};
    }
    if (failure != std::errc{} || !(item.empty() || named)) {
      throw sim::usage_error{fmt::format(
          "--instances is a number, or numbers and profiles as 4xPROFILE,4xPROFILE, not {}", sim::shown(a.instances))};
    }
    if (!named && profiles.size() != counts.size()) {
      throw sim::usage_error{fmt::format("--instances names {} kinds, --profile {}", counts.size(), profiles.size())};
    }
    sum += positive(n, sim::max_instances, "--instances");
    all.push_back({static_cast<std::size_t>(n), sim::load_profile(std::string{named ? item.substr(1) : profiles[k]})});
    const double kv = all.back().profile.kv_bytes_per_token();
    if (kv != all.front().profile.kv_bytes_per_token()) {
      throw sim::usage_error{
          fmt::format("instances of one cluster serve one model: a token's KV has {:g} bytes in the "
                      "profile {}, {:g} in {}",
                      all.front().profile.kv_bytes_per_token(), all.front().profile.name, kv, all.back().profile.name)};
    }
  }
  positive(sum, sim::max_instances, "--instances");
  return all;
}

/// The files that a setting names, and what may be one.
inline std::vector<tool::named_file> files_read(const setting& a) {
  std::vector<tool::named_file> all{{"--trace", a.trace}};
  for (const std::string_view p : sim::split_list(a.profile)) all.push_back({"--profile", std::string{p}});
  for (const std::string_view item : sim::split_list(a.instances)) {
    if (const std::size_t x = item.find('x'); x != item.npos) {
      all.push_back({"--instances", std::string{item.substr(x + 1)}});
    }
  }
  return all;
}

/// `8 x A`, or `4 x A + 4 x B`.
inline std::string names_of(const std::vector<sim::machines>& cluster) {
  std::string names;
  for (const sim::machines& m : cluster) {
    names += fmt::format("{}{} x {}", names.empty() ? "" : " + ", m.count, m.profile.name);
  }
  return names;
}

/// The same, and how many devices an instance has.
inline std::string say_cluster(const std::vector<sim::machines>& cluster) {
  std::string names;
  for (const sim::machines& m : cluster) {
    const double devices = m.profile.parallel.devices();
    names += fmt::format("{}{} x {}{}", names.empty() ? "" : " + ", m.count, m.profile.name,
                         devices > 1 ? fmt::format(" of {:g} devices", devices) : std::string{});
  }
  return names;
}

/// When most requests come, where that is far above the mean: `, the busiest 60 s from 840 s on with 9.3 per second`.
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

/// What stands in front of the cluster, to be said after what it is; empty if one router sees all at any moment.
inline std::string say_routers(const setting& a) {
  if (!a.routers) return {};
  return fmt::format(", behind {} router{} {}with reports of {:g} s", *a.routers, *a.routers == 1 ? "" : "s",
                     a.router_shares ? "with shares, " : "", a.report_interval);
}

/// What goes wrong in a run of these rows.
inline std::vector<sim::fault> faults_of(const setting& a, std::size_t instances,
                                         const std::vector<sim::trace_row>& rows, std::uint64_t seed) {
  std::vector<sim::fault> faults;
  for (const std::string& text : a.faults) {
    faults.push_back(sim::parse_fault(text));
    if (faults.back().instance >= instances) {
      throw sim::usage_error{
          fmt::format("the fault {} is of no instance: they are 0 to {}", sim::shown(text), instances - 1)};
    }
  }
  if (a.mtbf.has_value() != a.mttr.has_value()) throw sim::usage_error{"--mtbf and --mttr go together"};
  if (a.detection != setting{}.detection && a.faults.empty() && !a.mtbf) {
    throw sim::usage_error{"--detection goes with --fault, or --mtbf and --mttr"};
  }
  if (!a.mtbf) return faults;
  const double from = rows.front().arrival_s;
  const double to = rows.back().arrival_s;
  for (const auto& [value, option] : {std::pair{*a.mtbf, "--mtbf"}, std::pair{*a.mttr, "--mttr"}}) {
    if (!(value > 0 && value <= max_replay_seconds)) {
      throw sim::usage_error{
          fmt::format("{} is a number of seconds above 0, at most {:g}, not {:g}", option, max_replay_seconds, value)};
    }
  }
  constexpr double most = 1e6;
  if (const double deaths = (to - from) * static_cast<double>(instances) / (*a.mtbf + *a.mttr); !(deaths <= most)) {
    throw sim::usage_error{
        fmt::format("with these --mtbf and --mttr there would be about {:.3g} deaths; at most {:g}", deaths, most)};
  }
  const auto drawn = sim::random_deaths(instances, from, to, *a.mtbf, *a.mttr, seed);
  faults.insert(faults.end(), drawn.begin(), drawn.end());
  return faults;
}

/// A step of the largest kind must take a time that is still a number worth simulating.
inline void check_step_time(const sim::instance_options& instance, const std::string& profile) {
  const tessera::tokens kv = instance.limits.block_size * static_cast<std::int64_t>(instance.limits.blocks);
  sim::step_shape largest;
  largest.decodes = static_cast<std::int64_t>(instance.step.max_batch);
  largest.decode_context = kv.count();
  largest.add_prefill(min(kv, instance.limits.max_length), instance.step.token_budget);
  const double seconds = instance.timer(largest);
  if (!(seconds <= max_step_seconds)) {
    throw sim::usage_error{fmt::format("with the profile {} a full step takes {:.3g} seconds; at most {:g} make sense",
                                       profile, seconds, max_step_seconds)};
  }
}

/// Something is measured: requests arrive after the warm-up and before the drain.
inline void check_window(const setting& a, const std::vector<sim::trace_row>& rows) {
  for (const auto& [value, option] : {std::pair{a.warmup, "--warmup"}, std::pair{a.drain, "--drain"}}) {
    if (!(value >= 0))
      throw sim::usage_error{fmt::format("{} is a number of seconds, 0 or more, not {:g}", option, value)};
  }
  const double first = rows.front().arrival_s + a.warmup;
  const double last = rows.back().arrival_s - a.drain;
  if (std::none_of(rows.begin(), rows.end(),
                   [&](const sim::trace_row& r) { return first <= r.arrival_s && r.arrival_s <= last; })) {
    throw sim::usage_error{fmt::format(
        "--warmup {:g} and --drain {:g} leave nothing to measure: the requests arrive within {:.4g} seconds", a.warmup,
        a.drain, rows.back().arrival_s - rows.front().arrival_s)};
  }
}

/// The routers that the requests come to; none that have to be looked at if none were asked for.
inline std::optional<sim::routing> routing_of(const setting& a) {
  constexpr double shortest = 1e-3;
  if (!(a.report_interval >= shortest && a.report_interval <= max_replay_seconds)) {
    throw sim::usage_error{fmt::format("--report-interval is a number of seconds from {:g} to {:g}, not {:g}", shortest,
                                       max_replay_seconds, a.report_interval)};
  }
  if (!a.routers) {
    const char* alone = a.router_shares                                  ? "--router-shares"
                        : a.report_interval != setting{}.report_interval ? "--report-interval"
                                                                         : nullptr;
    if (alone != nullptr) throw sim::usage_error{fmt::format("{} goes with --routers", alone)};
    return {};
  }
  return sim::routing{.routers = static_cast<std::size_t>(positive(*a.routers, sim::max_routers, "--routers")),
                      .shares = a.router_shares,
                      .report_s = a.report_interval};
}

/// The cluster for the rows of a seed, all checked.
inline sim::cluster_options size_cluster(const setting& a, const std::vector<sim::machines>& cluster,
                                         const std::vector<sim::trace_row>& rows, std::uint64_t seed) {
  sim::cluster_options o = sim::size_cluster(cluster, a.size, rows, sim::spelling::options);
  if (!(a.detection >= 0 && a.detection <= max_replay_seconds)) {
    throw sim::usage_error{
        fmt::format("--detection is a number of seconds from 0 to {:g}, not {:g}", max_replay_seconds, a.detection)};
  }
  check_window(a, rows);
  o.warmup_s = a.warmup;
  o.drain_s = a.drain;
  o.seed = seed;
  o.prefix_cache = a.prefix_cache == "on";
  if (!a.slo.empty()) o.promised = sim::promise_of(sim::parse_slo(a.slo));
  if (!a.placement.empty()) o.placement = sim::find_placement(a.placement);
  o.routed = routing_of(a);
  o.detection_s = a.detection;
  o.faults = faults_of(a, o.instances, rows, seed);
  if (!a.pools.empty() && a.pools != "auto") o.pools = sim::parse_pools(a.pools, o.instances);
  for (std::size_t k = 0, i = 0; k != cluster.size(); i += cluster[k++].count) {
    check_step_time(o.of(i), cluster[k].profile.name);
  }
  return o;
}

/// When something is wrong with an instance, as far as it is told beforehand.
inline std::vector<sim::fault_time> fault_times(const std::vector<sim::fault>& faults) {
  std::vector<sim::fault_time> times;
  for (const sim::fault& f : faults) times.push_back({f.at_s, f.at_s + f.for_s});
  return times;
}

/// Which objectives an idle instance misses; empty if none, or if there are instances of several kinds.
inline std::string describe_idle(const std::vector<sim::machines>& cluster, const sim::cluster_options& options,
                                 const std::vector<sim::trace_row>& rows, const std::vector<sim::slo_bound>& slo) {
  if (cluster.size() != 1) return {};
  return sim::describe_idle_misses(slo, rows,
                                   {.timer = options.instance.timer,
                                    .token_budget = options.instance.step.token_budget.count(),
                                    .host_request_seconds = options.host_request_seconds});
}

/// What is to be known of a load on these instances before any run: objectives that an idle instance misses, prompts
/// beyond the model's context, arrivals in ticks, profiles that were not measured. A line each.
inline std::string describe_load(const row_source& source, const std::vector<sim::machines>& cluster,
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

/// Which policies divide the instances by a rule, though it was not planned. Empty if none. @param pools as asked.
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

/// Most requests of a trial that plans pools.
inline constexpr std::size_t trial_requests = 2000;

/// The pools of `--pools auto` for a policy, planned from the rows of the first seed.
inline sim::pool_plan plan_pools(const sim::policy& p, const sim::cluster_options& options,
                                 const std::vector<sim::trace_row>& rows, const std::vector<sim::slo_bound>& slo,
                                 tool::signal_guard& signals) {
  const std::vector<sim::trace_row> trial{
      rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(std::min(rows.size(), trial_requests))};
  sim::cluster_options o = options;
  o.faults.clear();
  return sim::plan_pools(o.instances, slo, p.pools == 3, [&](const sim::pool_sizes& sizes, double factor) {
    o.pools = sizes;
    o.warmup_s = o.drain_s = 0;
    return p.run(o, sim::hurried(trial, factor), [&](std::size_t) { signals.check(); });
  });
}

/// The options of a workload and its objectives.
inline void add_load_options(CLI::App& app, setting& a) {
  app.add_option("--workload", a.workload, fmt::format("built-in: {}", fmt::join(sim::workload_names(), ", ")));
  app.add_option("--trace", a.trace,
                 "CSV or JSON with arrival_s, prompt_tokens, output_tokens, ...; production traces, files of "
                 "benchmarks, logs and spans as they are: see docs/replay.md");
  app.add_option("--rate", a.rate, "mean arrivals per second");
  app.add_option("--rate-scale", a.rate_scale, "factor on the workload's own rate");
  app.add_option("--requests", a.requests,
                 fmt::format("only so many (a built-in workload: {}, a trace: all)", default_requests));
  app.add_option("--seed", a.seed, "of everything that is drawn")->capture_default_str();
  app.add_option("--hash-tokens", a.hash_tokens,
                 "tokens of the prompt that each of a trace's hash_ids stands for; without: 512, "
                 "or 16 in Bailian's");
  app.add_option("--time-unit", a.time_unit, "of a trace's arrivals that are numbers: s, ms, us or ns");
  app.add_option("--run", a.run, "which run of a benchmark's file, from 1; without: the last");
  app.add_option(
      "--slo", a.slo,
      "objectives in seconds, as ttft_p99=2,tpot_p99=0.05 (also first_token, e2e, normalized_latency): goodput, "
      "which policies meet them, and what policies that plan for promises are told");
  app.add_option("--warmup", a.warmup, "leave out the requests of so many seconds at the beginning")
      ->capture_default_str();
  app.add_option("--drain", a.drain, "leave out those of so many seconds before the last arrival")
      ->capture_default_str();
}

/// The options of what an instance is.
inline void add_instance_options(CLI::App& app, setting& a) {
  app.add_option("--profile", a.profile,
                 "a built-in one (see --list-profiles), or a .json file; with --instances 4,4: one for each number")
      ->capture_default_str();
  std::string places = "where new requests go, for policies that leave it open:";
  for (const sim::named_placement& p : sim::placements()) places += fmt::format("\n{:<14} {}", p.name, p.summary);
  app.add_option("--placement", a.placement, places);
  app.add_option("--routers", a.routers,
                 "so many routers, in turn, know only what they sent and what instances report; without it, "
                 "one knows all at any moment");
  app.add_option("--report-interval", a.report_interval, "seconds between two reports of an instance, with --routers")
      ->capture_default_str();
  app.add_flag("--router-shares", a.router_shares, "each router has instances of its own, with --routers");
  app.add_option("--kv-blocks", a.size.kv_blocks, "KV blocks per instance (default: the profile's memory)");
  app.add_option("--block-size", a.size.block_size, "tokens per KV block")->capture_default_str();
  app.add_option("--max-batch", a.size.max_batch, "requests per step")->capture_default_str();
  app.add_option("--token-budget", a.size.token_budget, "tokens per step")->capture_default_str();
  app.add_option("--prefix-cache", a.prefix_cache, "on or off: whether the KV of shared prefixes is found again")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
}

/// The options of what goes wrong.
inline void add_fault_options(CLI::App& app, setting& a) {
  app.add_option("--fault", a.faults,
                 "die:3@120+60: instance 3 is dead from 120 s on, for 60 s; also hang:3@120+10, slow:3@120+60x2; again "
                 "and again")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--mtbf", a.mtbf, "instances die at random: mean seconds between failures of each");
  app.add_option("--mttr", a.mttr, "mean seconds that they are dead");
  app.add_option("--detection", a.detection, "seconds after a death before the others know of it")
      ->capture_default_str();
}

/// What was run, for JSON and CSV: the keys are columns there.
inline nlohmann::ordered_json describe_setting(const setting& a, const std::vector<sim::machines>& cluster,
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
  }
  if (a.mtbf) what["mtbf_s"] = *a.mtbf;
  if (a.mttr) what["mttr_s"] = *a.mttr;
  return what;
}

}  // namespace replay
