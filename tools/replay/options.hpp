// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../tool.hpp"
#include "gzip.hpp"

#include <tessera/sim/input/split_list.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/policies/placements.hpp>
#include <tessera/sim/setup/load_source.hpp>
#include <tessera/sim/setup/setting.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// The options of a setting on a command line, shared by `replay` and `capacity`.

namespace replay {

namespace sim = tessera::sim;

/// Largest seed: reports write it as a number.
inline constexpr std::int64_t max_seed = 1'000'000'000'000'000;

/// The load of a setting; its trace may be in a gzip file.
/// @throws tessera::sim::usage_error @throws tessera::sim::input_error
[[nodiscard]] inline sim::load_source read_load(const sim::setting& a) {
  sim::require_within(a.seed, 0, max_seed, a.says("seed"));
  return sim::load_source{a, [](const std::string& path, const sim::trace_options& options) {
                            return sim::read_trace(path, tool::unpacking(options));
                          }};
}

/// The files of a setting, and names that may be files.
inline std::vector<tool::named_file> files_read(const sim::setting& a) {
  std::vector<tool::named_file> all{{"--trace", a.trace}};
  for (const std::string_view p : sim::split_list(a.profile)) all.push_back({"--profile", std::string{p}});
  for (const std::string_view item : sim::split_list(a.instances)) {
    if (const std::size_t x = item.find('x'); x != item.npos) {
      all.push_back({"--instances", std::string{item.substr(x + 1)}});
    }
  }
  return all;
}

/// The options of a workload and its objectives.
inline void add_load_options(CLI::App& app, sim::setting& a) {
  app.add_option("--workload", a.workload, fmt::format("built-in: {}", fmt::join(sim::workload_names(), ", ")));
  app.add_option("--trace", a.trace,
                 "CSV or JSON with arrival_s, prompt_tokens, output_tokens, ...; production traces, files of "
                 "benchmarks, logs and spans as they are: see docs/traces.md");
  app.add_option("--rate", a.rate, "mean arrivals per second");
  app.add_option("--rate-scale", a.rate_scale, "factor on the workload's own rate");
  app.add_option("--requests", a.requests,
                 fmt::format("number of requests (a built-in workload: {}, a trace: all)", sim::default_requests));
  app.add_option("--seed", a.seed, "seed of all random draws")->capture_default_str();
  app.add_option("--hash-tokens", a.hash_tokens,
                 "tokens of the prompt that each of a trace's hash_ids stands for; without: 512, "
                 "or 16 in Bailian's");
  app.add_option("--time-unit", a.time_unit, "unit of arrivals that are numbers: s, ms, us or ns");
  app.add_option("--run", a.run, "which run of a benchmark's file, from 1; without: the last");
  app.add_option(
      "--slo", a.slo,
      "objectives in seconds, as ttft_p99=2,tpot_p99=0.05 (also first_token, e2e, normalized_latency): goodput, "
      "which policies meet them, and what policies that plan for promises are told");
  app.add_option("--warmup", a.warmup, "seconds at the beginning; their requests are left out")->capture_default_str();
  app.add_option("--drain", a.drain, "seconds before the last arrival; their requests are left out")
      ->capture_default_str();
}

/// The options of an instance.
inline void add_instance_options(CLI::App& app, sim::setting& a) {
  app.add_option("--profile", a.profile,
                 "a built-in one (see --list-profiles), or a .json file; with --instances 4,4: one for each number")
      ->capture_default_str();
  std::string places = "where new requests go, for policies that leave it open:";
  for (const sim::named_placement& p : sim::placements()) places += fmt::format("\n{:<14} {}", p.name, p.summary);
  app.add_option("--placement", a.placement, places);
  app.add_option("--routers", a.routers,
                 "number of routers, round-robin, that know what they sent and what instances report; without "
                 "it, one router knows all at any moment");
  app.add_option("--report-interval", a.report_interval, "seconds between two reports of an instance, with --routers")
      ->capture_default_str();
  app.add_option("--action-delay", a.action_delay,
                 "seconds until instances do what a router has decided, with --routers")
      ->capture_default_str();
  app.add_option("--plan-delay", a.plan_delay,
                 "seconds that a plan of the layout takes, beside the service, for policies that plan (due-first)")
      ->capture_default_str();
  app.add_flag("--router-shares", a.router_shares, "each router has instances of its own, with --routers");
  app.add_option("--kv-blocks", a.size.kv_blocks, "KV blocks per instance (default: the profile's memory)");
  app.add_option("--block-size", a.size.block_size, "tokens per KV block")->capture_default_str();
  app.add_option("--max-batch", a.size.max_batch, "requests per step")->capture_default_str();
  app.add_option("--token-budget", a.size.token_budget, "tokens per step")->capture_default_str();
  app.add_option_function<std::string>(
         "--prefix-cache", [&a](const std::string& value) { a.prefix_cache = value == "on"; },
         "on or off: whether the KV of shared prefixes is found again")
      ->check(CLI::IsMember({"on", "off"}))
      ->default_str("on");
}

/// The options of faults.
inline void add_fault_options(CLI::App& app, sim::setting& a) {
  app.add_option("--fault", a.faults,
                 "die:3@120+60: instance 3 is dead from 120 s on, for 60 s; also hang:3@120+10, slow:3@120+60x2; again "
                 "and again")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--mtbf", a.mtbf, "instances die at random: mean seconds between failures of each");
  app.add_option("--mttr", a.mttr, "mean seconds that they are dead");
  app.add_option("--detection", a.detection, "seconds after a death before the others know of it")
      ->capture_default_str();
}

}  // namespace replay
