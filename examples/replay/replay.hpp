// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../tool.hpp"

#include <tessera/compose/fcfs.hpp>
#include <tessera/sim/cluster/fault.hpp>
#include <tessera/sim/cluster/instance.hpp>
#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profile_file.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/policies/placements.hpp>
#include <tessera/sim/policies/policy.hpp>
#include <tessera/sim/policies/pool_plan.hpp>
#include <tessera/sim/report/progress.hpp>
#include <tessera/sim/report/replicates.hpp>
#include <tessera/sim/report/report.hpp>
#include <tessera/sim/report/report_json.hpp>
#include <tessera/sim/report/slo.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

/// @file
/// The command line of `replay`: one workload, several policies, one table. Give it your own list of policies.

namespace replay {

namespace sim = tessera::sim;

struct arguments {
  std::string policies = "fcfs,rr,pascal";
  std::string workload;
  std::string trace;
  std::optional<double> rate;
  std::optional<double> rate_scale;
  std::string instances = "8";
  std::string placement;
  std::string profile{sim::default_profile};
  std::string print_profile;
  bool list_profiles = false;
  std::optional<std::int64_t> requests;
  std::int64_t seed = 1;
  std::int64_t seeds = 1;
  std::int64_t jobs = 0;
  std::vector<std::string> faults;
  std::optional<double> mtbf;
  std::optional<double> mttr;
  double detection = 1;
  std::string pools;
  std::string slo;
  double warmup = 0;
  double drain = 0;
  std::optional<std::int64_t> kv_blocks;
  std::int64_t block_size = 16;
  std::int64_t max_batch = 256;
  std::int64_t token_budget = 8192;
  std::string prefix_cache = "on";
  std::int64_t hash_tokens = sim::trace_options{}.hash_tokens;
  std::string json;
  std::string csv;
  std::string plot;
  std::string plot_format = "svg";
};

/// Requests of a built-in workload when none are asked for.
inline constexpr std::size_t default_requests = 8000;

// What is refused because nobody means it: it would take days, or more memory than there is.
inline constexpr std::int64_t max_seeds = 10'000;
inline constexpr std::int64_t max_jobs = 1024;
inline constexpr std::int64_t max_instances = 65'536;
inline constexpr std::int64_t max_kv_blocks = std::int64_t{1} << 26;  ///< Of one instance.
inline constexpr std::int64_t max_block_size = 65'536;
inline constexpr std::int64_t max_batch_size = 65'536;
inline constexpr std::int64_t max_token_budget = std::int64_t{1} << 24;
inline constexpr double max_replay_seconds = 1e9;  ///< Up to here a double holds a moment to a tenth of a microsecond.
inline constexpr double max_step_seconds = 1e6;
inline constexpr double max_memory = 16.0 * (1 << 30);      ///< Bytes that a replay writes to.
inline constexpr double max_reserved = 1024.0 * (1 << 30);  ///< Bytes of address space for its schedulers.

/// `n`, if it is from 1 to `most`.
inline std::int64_t positive(std::int64_t n, std::int64_t most, const char* option) {
  if (n < 1 || n > most) throw sim::usage_error{fmt::format("{} must be from 1 to {}, not {}", option, most, n)};
  return n;
}

/// The arrivals of a replay fit on its time line.
inline void check_span(const std::vector<sim::trace_row>& rows) {
  if (!(rows.back().arrival_s <= max_replay_seconds)) {
    throw sim::usage_error{
        fmt::format("at this rate the last of {} requests arrives after {:.3g} seconds; a replay spans at most {:g}",
                    rows.size(), rows.back().arrival_s, max_replay_seconds)};
  }
}

/// Where the rows to replay come from, for any seed.
class row_source {
 public:
  explicit row_source(const arguments& a) : arguments_{&a} {
    requests_ = a.requests ? static_cast<std::size_t>(positive(*a.requests, sim::max_trace_rows, "--requests")) : 0U;
    if (a.seed < 0) throw sim::usage_error{fmt::format("--seed must not be negative, like {}", a.seed)};
    positive(a.seeds, max_seeds, "--seeds");
    if (a.rate && a.rate_scale) throw sim::usage_error{"--rate and --rate-scale exclude each other"};
    if (a.workload.empty() == a.trace.empty()) {
      throw sim::usage_error{fmt::format("name one of --trace FILE.csv and --workload NAME; workloads: {}",
                                         fmt::join(sim::workload_names(), ", "))};
    }
    if (!a.workload.empty()) {
      workload_ = &sim::find_workload(a.workload);
      what_ = fmt::format("{}: {}", workload_->name, workload_->summary);
    } else {
      trace_ = sim::read_trace(a.trace, {.hash_tokens = a.hash_tokens});
      what_ = a.trace;
    }
  }

  /// A line that says what they are.
  [[nodiscard]] const std::string& what() const noexcept { return what_; }
  /// Columns of the trace that nothing is made of.
  [[nodiscard]] const std::vector<std::string>& unused() const noexcept { return trace_.unused; }
  /// The rows of a seed.
  [[nodiscard]] std::vector<sim::trace_row> rows(std::uint64_t seed) const {
    const arguments& a = *arguments_;
    if (workload_ != nullptr) {
      const double rate = a.rate.value_or(workload_->rate * a.rate_scale.value_or(1.0));
      return sim::generate(*workload_, requests_ == 0 ? default_requests : requests_, rate, seed);
    }
    return sim::schedule_arrivals(
        trace_, {.rate = a.rate, .rate_scale = a.rate_scale.value_or(1.0), .requests = requests_, .seed = seed});
  }

 private:
  const arguments* arguments_;
  std::size_t requests_ = 0;
  const sim::workload* workload_ = nullptr;
  sim::trace trace_;
  std::string what_;
};

/// So many instances of one kind.
struct machines {
  std::size_t count = 0;
  sim::profile profile;
};

/// The cluster as `--instances` and `--profile` say it: `8` of one profile, `4,4` of as many profiles, or
/// `4xPROFILE,4xPROFILE`.
inline std::vector<machines> machines_of(const arguments& a) {
  const auto split = [](std::string_view list) {
    std::vector<std::string_view> items;
    for (std::size_t begin = 0; begin <= list.size();) {
      const std::size_t end = std::min(list.find(',', begin), list.size());
      items.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
    return items;
  };
  const std::vector<std::string_view> counts = split(a.instances);
  const std::vector<std::string_view> profiles =
      counts.size() == 1 ? std::vector<std::string_view>{a.profile} : split(a.profile);
  std::vector<machines> all;
  std::int64_t sum = 0;
  for (std::size_t k = 0; k != counts.size(); ++k) {
    std::string_view item = counts[k];
    std::int64_t n = 0;
    const auto [end, failure] = std::from_chars(item.data(), item.data() + item.size(), n);
    item.remove_prefix(static_cast<std::size_t>(end - item.data()));
    const bool named = item.size() > 1 && item.front() == 'x';
    if (failure != std::errc{} || !(item.empty() || named)) {
      throw sim::usage_error{fmt::format(
          "--instances is a number, or numbers and profiles as 4xPROFILE,4xPROFILE, not {}", sim::shown(a.instances))};
    }
    if (!named && profiles.size() != counts.size()) {
      throw sim::usage_error{fmt::format("--instances names {} kinds, --profile {}", counts.size(), profiles.size())};
    }
    sum += positive(n, max_instances, "--instances");
    all.push_back({static_cast<std::size_t>(n), sim::load_profile(std::string{named ? item.substr(1) : profiles[k]})});
    const double kv = all.back().profile.kv_bytes_per_token();
    if (kv != all.front().profile.kv_bytes_per_token()) {
      throw sim::usage_error{
          fmt::format("instances of one cluster serve one model: a token's KV has {:g} bytes in the "
                      "profile {}, {:g} in {}",
                      all.front().profile.kv_bytes_per_token(), all.front().profile.name, kv, all.back().profile.name)};
    }
  }
  positive(sum, max_instances, "--instances");
  return all;
}

/// `8 x A`, or `4 x A + 4 x B`.
inline std::string names_of(const std::vector<machines>& cluster) {
  std::string names;
  for (const machines& m : cluster) {
    names += fmt::format("{}{} x {}", names.empty() ? "" : " + ", m.count, m.profile.name);
  }
  return names;
}

/// What goes wrong in a run of these rows.
inline std::vector<sim::fault> faults_of(const arguments& a, std::size_t instances,
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
  if (!a.mtbf) return faults;
  const double from = rows.front().arrival_s;
  const double to = rows.back().arrival_s;
  for (const auto& [value, option] : {std::pair{*a.mtbf, "--mtbf"}, std::pair{*a.mttr, "--mttr"}}) {
    if (!(value > 0)) throw sim::usage_error{fmt::format("{} is a number of seconds above 0, not {:g}", option, value)};
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

/// Refuses what would take more memory than a machine is likely to have.
/// @param kept runs of which every request is remembered. @param jobs runs at a time.
inline void check_memory(const sim::cluster_options& o, std::size_t rows, std::size_t kept, std::size_t jobs) {
  // A scheduler is made when its first request comes.
  const auto most = static_cast<double>(std::min(o.instances, rows) * jobs);
  double written = 0;
  double reserved = 0;
  for (std::size_t i = 0; i != (o.each.empty() ? 1 : o.each.size()); ++i) {
    const tessera::scheduler_limits& l = o.of(i).limits;
    written =
        std::max(written, static_cast<double>(sim::kv_store::required_bytes({.blocks = l.blocks}) +
                                              tessera::kv::host_tier::required_bytes({.host_blocks = l.host_blocks})));
    reserved = std::max(reserved, static_cast<double>(tessera::fcfs<sim::request, sim::kv_store>::required_bytes(l)));
  }
  const double requests =
      static_cast<double>(rows) * static_cast<double>(jobs * sizeof(sim::request) + kept * sizeof(sim::request_record));
  const auto refuse = [](const char* what, double size, double allowed) {
    throw sim::usage_error{
        fmt::format("this would {} {:.1f} GiB of memory; at most {:.0f} are allowed: take fewer --instances, "
                    "--requests, --kv-blocks, --jobs or a smaller --max-batch",
                    what, size / (1 << 30), allowed / (1 << 30))};
  };
  if (most * written + requests > max_memory) refuse("use", most * written + requests, max_memory);
  if (most * reserved > max_reserved) refuse("reserve", most * reserved, max_reserved);
}

/// Sizes an instance: the profile's KV memory, or what was asked for.
inline sim::instance_options size_instance(const arguments& a, const sim::profile& profile,
                                           const std::vector<sim::trace_row>& rows) {
  const tessera::tokens block_size{positive(a.block_size, max_block_size, "--block-size")};
  if (a.kv_blocks) positive(*a.kv_blocks, max_kv_blocks, "--kv-blocks");
  const std::int64_t blocks = a.kv_blocks.value_or(profile.kv_blocks(block_size).count());
  if (blocks > max_kv_blocks) {
    throw sim::usage_error{fmt::format("{} has room for {} KV blocks of {} tokens; name --kv-blocks, at most {}",
                                       profile.name, blocks, block_size.count(), max_kv_blocks)};
  }
  std::int64_t shortest = rows.front().prompt_tokens + rows.front().output_tokens;
  std::int64_t longest = shortest;
  std::int64_t all_blocks = 0;
  for (const sim::trace_row& row : rows) {
    const std::int64_t length = row.prompt_tokens + row.output_tokens;
    shortest = std::min(shortest, length);
    longest = std::max(longest, length);
    all_blocks += std::min(tessera::blocks_for(tessera::tokens{length}, block_size).count(), blocks);
  }
  const auto need = tessera::blocks_for(tessera::tokens{shortest - 1}, block_size).count();
  if (need > blocks) {
    throw sim::usage_error{
        fmt::format("{} KV blocks of {} tokens are too few: the shortest of {} requests needs {}; raise --kv-blocks",
                    blocks, block_size.count(), rows.size(), need)};
  }
  // No more host memory than all the requests together could ever fill.
  const std::int64_t host_blocks = std::min(profile.host_blocks(block_size).count(), all_blocks);
  return {.limits = {.requests = rows.size(),
                     .blocks = static_cast<std::size_t>(blocks),
                     .block_size = block_size,
                     .residents = static_cast<std::size_t>(positive(a.max_batch, max_batch_size, "--max-batch")),
                     .host_blocks = static_cast<std::size_t>(host_blocks),
                     .max_length = tessera::tokens{longest}},
          .step = {.max_batch = static_cast<std::size_t>(a.max_batch),
                   .token_budget = tessera::tokens{positive(a.token_budget, max_token_budget, "--token-budget")}},
          .timer = sim::step_timer{profile},
          .swap_seconds_per_block = sim::swap_seconds(profile, block_size)};
}

/// The cluster for these rows. What its kinds of machines must agree on, the fabric and the host, is as slow as the
/// slowest.
inline sim::cluster_options size_cluster(const arguments& a, const std::vector<machines>& cluster,
                                         const std::vector<sim::trace_row>& rows, std::uint64_t seed) {
  const sim::profile& first = cluster.front().profile;
  sim::cluster_options o{
      .instances = 0,
      .instance = size_instance(a, first, rows),
      .fabric_bytes_per_s = first.links.fabric_bytes_per_s,
      .kv_bytes_per_token = first.kv_bytes_per_token(),
      .host_request_seconds = first.terms.host_request_seconds,
      .warmup_s = a.warmup,
      .drain_s = a.drain,
      .seed = seed,
      .prefix_cache = a.prefix_cache == "on",
      .placement = a.placement.empty() ? std::optional<sim::named_placement>{} : sim::find_placement(a.placement),
      .detection_s = a.detection};
  for (const machines& m : cluster) {
    o.instances += m.count;
    if (cluster.size() == 1) continue;
    o.each.insert(o.each.end(), m.count, size_instance(a, m.profile, rows));
    o.fabric_bytes_per_s = std::min(o.fabric_bytes_per_s, m.profile.links.fabric_bytes_per_s);
    o.host_request_seconds = std::max(o.host_request_seconds, m.profile.terms.host_request_seconds);
  }
  if (!(a.detection >= 0)) {
    throw sim::usage_error{fmt::format("--detection is a number of seconds, 0 or more, not {:g}", a.detection)};
  }
  o.faults = faults_of(a, o.instances, rows, seed);
  if (!a.pools.empty() && a.pools != "auto") o.pools = sim::parse_pools(a.pools, o.instances);
  return o;
}

/// Most requests of a trial that plans pools.
inline constexpr std::size_t trial_requests = 2000;

/// The pools of `--pools auto` for a policy, planned from the rows of the first seed.
inline sim::pool_plan plan_pools(const sim::policy& p, const sim::cluster_options& options,
                                 const std::vector<sim::trace_row>& rows, const std::vector<sim::slo_bound>& slo) {
  const std::vector<sim::trace_row> trial{
      rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(std::min(rows.size(), trial_requests))};
  sim::cluster_options o = options;
  o.faults.clear();
  return sim::plan_pools(o.instances, slo, p.pools == 3, [&](const sim::pool_sizes& sizes, double factor) {
    o.pools = sizes;
    o.warmup_s = o.drain_s = 0;
    return p.run(o, sim::hurried(trial, factor), [](std::size_t) {});
  });
}

/// Something is measured: requests arrive after the warm-up and before the drain.
inline void check_window(const arguments& a, const std::vector<sim::trace_row>& rows) {
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

/// Whether two paths name one file, as far as can be told before it exists.
inline bool same_file(const std::string& a, const std::string& b) {
  const auto whole = [](const std::string& path) {
    std::error_code unknown;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, unknown), unknown);
  };
  return whole(a) == whole(b);
}

/// Every run of every policy: `runs[p][s]` is that of policy `p` under the seed `a.seed + s`.
/// @param first the rows of the first seed, which are there already. @param pools by policy, if planned.
/// @param keeps_all whether every request of every run is remembered; else only those of the first seed.
inline std::vector<std::vector<sim::run_result>> run_all(const arguments& a, const std::vector<sim::policy>& policies,
                                                         const std::vector<machines>& cluster, const row_source& source,
                                                         const std::vector<sim::trace_row>& first,
                                                         const std::vector<std::optional<sim::pool_sizes>>& pools,
                                                         const std::vector<sim::slo_bound>& slo, std::size_t jobs,
                                                         bool keeps_all) {
  const auto seeds = static_cast<std::size_t>(a.seeds);
  std::vector<std::vector<sim::run_result>> runs(policies.size(), std::vector<sim::run_result>(seeds));
  sim::progress_bar bar{policies.size() == 1 ? policies.front().name : "replay",
                        static_cast<double>(first.size() * policies.size() * seeds)};
  std::mutex drawing;
  std::size_t all_done = 0;
  // Seed by seed: a seed's rows are drawn once, and go when the last of its runs has ended.
  struct drawn_rows {
    std::once_flag drawn;
    std::vector<sim::trace_row> rows;
    std::optional<sim::cluster_options> options;
    std::atomic<std::size_t> used{0};
  };
  std::vector<drawn_rows> drawn(seeds);
  sim::run_parallel(policies.size() * seeds, jobs, [&](std::size_t job) {
    const std::size_t s = job / policies.size();
    const std::size_t p = job % policies.size();
    drawn_rows& own = drawn[s];
    std::call_once(own.drawn, [&] {
      const std::uint64_t seed = static_cast<std::uint64_t>(a.seed) + s;
      own.rows = s == 0 ? first : source.rows(seed);
      if (s != 0) {  // those of the first are checked
        check_span(own.rows);
        check_window(a, own.rows);
      }
      own.options = size_cluster(a, cluster, own.rows, seed);
    });
    std::size_t told = 0;
    sim::cluster_options options = *own.options;
    if (pools[p]) options.pools = pools[p];
    sim::run_result r = policies[p].run(options, own.rows, [&](std::size_t done) {
      if (done - told < 256) return;  // now and then: others draw, too
      const std::lock_guard<std::mutex> one{drawing};
      all_done += done - told;
      told = done;
      bar.update(static_cast<double>(all_done));
    });
    r.numbers.slo = sim::evaluate_slo(slo, r.requests, r.window);
    if (s != 0 && !keeps_all) r.requests = {};
    if (s != 0) r.timeline = {};
    runs[p][s] = std::move(r);
    if (++own.used == policies.size()) own.rows = {};
  });
  return runs;
}

/// Which policies have a placement of their own, whatever was asked for. Empty if none.
inline std::string name_own_placements(const std::vector<sim::policy>& policies) {
  std::vector<std::string_view> own;
  for (const sim::policy& p : policies) {
    if (!p.placement.empty()) own.push_back(p.name);
  }
  if (own.empty()) return {};
  return fmt::format("--placement says nothing to {}: placement is part of what {}.\n", fmt::join(own, ", "),
                     own.size() == 1 ? "it is" : "they are");
}

/// Runs the tool on its arguments. Everything that can be refused is refused before the first run.
inline void run(const arguments& a, const std::vector<sim::policy>& all) {
  const std::vector<sim::policy> policies = sim::select_policies(all, a.policies);
  const std::vector<machines> cluster = machines_of(a);
  const std::vector<sim::slo_bound> slo = a.slo.empty() ? std::vector<sim::slo_bound>{} : sim::parse_slo(a.slo);
  const row_source source{a};
  const std::vector<sim::trace_row> rows = source.rows(static_cast<std::uint64_t>(a.seed));
  check_span(rows);
  for (const sim::policy& p : policies) sim::require_scores(p, rows, a.trace.empty() ? a.workload : a.trace);
  const sim::cluster_options options = size_cluster(a, cluster, rows, static_cast<std::uint64_t>(a.seed));
  check_window(a, rows);
  for (const sim::policy& p : policies) sim::require_instances(p, options.instances);
  for (std::size_t k = 0, i = 0; k != cluster.size(); i += cluster[k++].count) {
    check_step_time(options.of(i), cluster[k].profile.name);
  }
  for (const sim::policy& p : policies) {
    if (p.pools != 2 || !options.pools || options.pools->mixed == 0) continue;
    throw sim::usage_error{fmt::format("the policy {} has no mixed pool: --pools is PREFILL/DECODE", p.name)};
  }
  if (a.pools == "auto" && slo.empty()) throw sim::usage_error{"--pools auto needs objectives to plan for: --slo"};
  if (a.jobs != 0) positive(a.jobs, max_jobs, "--jobs");
  const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1U);
  const std::size_t jobs = std::min(a.jobs == 0 ? cores : static_cast<std::size_t>(a.jobs),
                                    policies.size() * static_cast<std::size_t>(a.seeds));
  const bool keeps_all = !a.csv.empty();
  check_memory(options, rows.size(), policies.size() * (keeps_all ? static_cast<std::size_t>(a.seeds) : 1), jobs);
  if (!a.json.empty() && !a.csv.empty() && same_file(a.json, a.csv)) {
    throw sim::usage_error{"--json and --csv name the same file"};
  }
  if (!a.plot.empty()) {
    sim::require_gnuplot();
    std::error_code failure;
    std::filesystem::create_directories(a.plot, failure);
    if (failure) throw sim::output_error{fmt::format("cannot make {}: {}", a.plot, failure.message())};
  }
  std::unique_ptr<sim::output_file> json;
  std::unique_ptr<sim::output_file> csv;
  if (!a.json.empty()) json = std::make_unique<sim::output_file>(a.json);
  if (!a.csv.empty()) csv = std::make_unique<sim::output_file>(a.csv);

  const std::string seeds =
      a.seeds == 1 ? std::string{}
                   : fmt::format(", seeds {} to {}: mean\u00b195 % interval", a.seed, a.seed + a.seeds - 1);
  std::vector<std::size_t> kv_blocks;
  for (std::size_t k = 0, i = 0; k != cluster.size(); i += cluster[k++].count) {
    kv_blocks.push_back(options.of(i).limits.blocks);
  }
  fmt::print("{}\n{} requests, {:.4g} per second, {}, {} KV blocks of {} tokens each{}\n\n", source.what(), rows.size(),
             sim::mean_rate(rows), names_of(cluster), fmt::join(kv_blocks, " and "), a.block_size, seeds);

  std::vector<std::optional<sim::pool_sizes>> pools(policies.size());
  if (a.pools == "auto") {
    std::vector<sim::pool_plan> plans(policies.size());
    sim::run_parallel(policies.size(), jobs, [&](std::size_t p) {
      if (policies[p].pools != 0) plans[p] = plan_pools(policies[p], options, rows, slo);
    });
    for (std::size_t p = 0; p != policies.size(); ++p) {
      if (policies[p].pools == 0) continue;
      const sim::pool_plan& plan = plans[p];
      pools[p] = plan.sizes;
      fmt::print("{}: pools {}/{}/{}, {}\n", policies[p].name, plan.sizes.prefill, plan.sizes.decode, plan.sizes.mixed,
                 plan.factor > 0
                     ? fmt::format("which carry {:.3g} times this load within the SLO", plan.factor)
                     : fmt::format("which meet the SLO at no load; {:.3g} % of these requests are within it",
                                   100 * plan.within));
    }
    fmt::print("\n");
  }

  std::vector<std::vector<sim::run_result>> runs =
      run_all(a, policies, cluster, source, rows, pools, slo, jobs, keeps_all);
  std::vector<sim::replicates> numbers;
  for (const auto& of_policy : runs) {
    numbers.emplace_back();
    for (const sim::run_result& r : of_policy) numbers.back().push_back(r.numbers);
  }
  fmt::print("{}", sim::format_table(numbers));
  std::string remarks = sim::format_remarks(numbers);
  if (!a.placement.empty()) remarks += name_own_placements(policies);
  if (!source.unused().empty()) {
    std::vector<std::string> names;
    for (const std::string& name : source.unused()) names.push_back(sim::shown(name));
    remarks += fmt::format("Columns of {} that are not used: {}\n", a.trace, fmt::join(names, ", "));
  }
  if (!remarks.empty()) fmt::print("\n{}", remarks);

  if (json) {
    nlohmann::ordered_json what{{a.trace.empty() ? "workload" : "trace", a.trace.empty() ? a.workload : a.trace},
                                {"rate", sim::mean_rate(rows)},
                                {"instances", options.instances},
                                {"profile", cluster.front().profile.name},
                                {"kv_blocks", kv_blocks.front()},
                                {"seed", a.seed}};
    if (cluster.size() > 1) {
      what["profile"] = names_of(cluster);
      what["kv_blocks"] = kv_blocks;
    }
    json->write(sim::format_json(numbers, what));
    json->commit();
  }
  if (csv) {
    csv->write(sim::csv_header());
    for (const auto& of_policy : runs) {
      std::uint64_t seed = static_cast<std::uint64_t>(a.seed);
      for (const sim::run_result& r : of_policy) csv->write(sim::format_csv(r, seed++));
    }
    csv->commit();
  }
  if (!a.plot.empty()) {
    std::vector<sim::run_result> drawn;
    for (auto& of_policy : runs) drawn.push_back(std::move(of_policy.front()));
    const auto format = a.plot_format == "png" ? sim::plot_format::png : sim::plot_format::svg;
    for (const auto& picture : sim::write_plots(a.plot, drawn, format)) fmt::print("{}\n", picture.string());
  }
  if (std::fflush(stdout) != 0) {
    throw sim::output_error{fmt::format("cannot write the table: {}", std::strerror(errno))};
  }
}

/// The built-in profiles, for people.
inline std::string describe_profiles() {
  std::string out;
  for (const sim::profile& p : sim::profiles()) {
    const double devices = p.parallel.devices();
    out += fmt::format(
        "{}{}\n  {} on {}{}, KV of {:.0f} tokens\n  {}\n", p.name, p.name == sim::default_profile ? " (default)" : "",
        p.model.name, devices > 1 ? fmt::format("{} x ", devices) : std::string{}, p.gpu.name, p.kv_tokens(), p.source);
  }
  return out;
}

/// The whole program. Exit code 2 and one line on stderr for anything that the user can mend.
inline int main(int argc, char** argv, const std::vector<sim::policy>& policies) {
  arguments a;
  CLI::App app{"Replays a workload through scheduling policies and prints who wins."};
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // scripts append to their defaults
  std::string names = "comma-separated:";
  for (const sim::policy& p : policies) names += fmt::format("\n{:<10} {}", p.name, p.summary);
  app.add_option("--policy", a.policies, names)->capture_default_str();
  app.add_option("--workload", a.workload, fmt::format("built-in: {}", fmt::join(sim::workload_names(), ", ")));
  app.add_option("--trace", a.trace,
                 "CSV or lines of JSON with arrival_s, prompt_tokens, output_tokens, ...; Mooncake's as they are");
  app.add_option("--rate", a.rate, "mean arrivals per second");
  app.add_option("--rate-scale", a.rate_scale, "factor on the workload's own rate");
  app.add_option("--instances", a.instances, "engine instances; of several kinds: 4xPROFILE,4xPROFILE")
      ->capture_default_str();
  std::string places = "where new requests go, for policies that leave it open:";
  for (const sim::named_placement& p : sim::placements()) places += fmt::format("\n{:<14} {}", p.name, p.summary);
  app.add_option("--placement", a.placement, places);
  app.add_option("--profile", a.profile,
                 "a built-in one (see --list-profiles), or a .json file; with --instances 4,4: one for each number")
      ->capture_default_str();
  app.add_flag("--list-profiles", a.list_profiles, "print the built-in profiles, and where their numbers are from");
  app.add_option("--print-profile", a.print_profile, "print this profile as JSON: a start for one's own");
  app.add_option("--requests", a.requests,
                 fmt::format("only so many (a built-in workload: {}, a trace: all)", default_requests));
  app.add_option("--seed", a.seed, "of everything that is drawn")->capture_default_str();
  app.add_option("--seeds", a.seeds, "so many runs, of this seed and those after it: means and 95 % intervals")
      ->capture_default_str();
  app.add_option("--jobs", a.jobs, "runs at a time (default: one per core)");
  app.add_option("--fault", a.faults,
                 "die:3@120+60: instance 3 is dead from 120 s on, for 60 s; also hang:3@120+10, slow:3@120+60x2; again "
                 "and again")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--mtbf", a.mtbf, "instances die at random: mean seconds between failures of each");
  app.add_option("--mttr", a.mttr, "mean seconds that they are dead");
  app.add_option("--detection", a.detection, "seconds after a death before the others know of it")
      ->capture_default_str();
  app.add_option("--pools", a.pools, "PREFILL/DECODE[/MIXED] instances, or auto: what carries most within --slo");
  app.add_option("--slo", a.slo, "objectives in seconds, as ttft_p99=2,tpot_p99=0.05: goodput, and who meets them");
  app.add_option("--warmup", a.warmup, "leave out the requests of so many seconds at the beginning")
      ->capture_default_str();
  app.add_option("--drain", a.drain, "leave out those of so many seconds before the last arrival")
      ->capture_default_str();
  app.add_option("--kv-blocks", a.kv_blocks, "KV blocks per instance (default: the profile's memory)");
  app.add_option("--block-size", a.block_size, "tokens per KV block")->capture_default_str();
  app.add_option("--max-batch", a.max_batch, "requests per step")->capture_default_str();
  app.add_option("--token-budget", a.token_budget, "tokens per step")->capture_default_str();
  app.add_option("--prefix-cache", a.prefix_cache, "on or off: whether the KV of shared prefixes is found again")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  app.add_option("--hash-tokens", a.hash_tokens, "tokens of the prompt that each of a trace's hash_ids stands for")
      ->capture_default_str();
  app.add_option("--json", a.json, "write the numbers of each policy");
  app.add_option("--csv", a.csv, "write a row per policy and request");
  app.add_option("--plot", a.plot, "write plots of the first seed into this folder (needs gnuplot)");
  app.add_option("--plot-format", a.plot_format, "svg or png")
      ->check(CLI::IsMember({"svg", "png"}))
      ->capture_default_str();
  // An empty value, as of an unset variable in a script, must not pass for none at all.
  const CLI::Validator given{[](const std::string& value) { return std::string{value.empty() ? "needs a value" : ""}; },
                             ""};
  for (CLI::Option* option : app.get_options()) option->check(given);
  return tool::run("replay", "fewer --instances, --requests or --kv-blocks", app, [&] {
    app.parse(argc, argv);
    if (a.list_profiles || !a.print_profile.empty()) {
      const std::string text = a.list_profiles ? describe_profiles() : sim::to_json(sim::load_profile(a.print_profile));
      if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        throw sim::output_error{fmt::format("cannot write the profile: {}", std::strerror(errno))};
      }
      return;
    }
    run(a, policies);
  });
}

}  // namespace replay
