// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/policies.hpp>
#include <tessera/sim/progress.hpp>
#include <tessera/sim/report.hpp>
#include <tessera/sim/workload.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
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
  std::int64_t instances = 8;
  std::string profile = "h100-96gb-qwen-32b";
  std::optional<std::int64_t> requests;
  std::uint64_t seed = 1;
  std::optional<std::int64_t> kv_blocks;
  std::int64_t block_size = 16;
  std::int64_t max_batch = 256;
  std::int64_t token_budget = 8192;
  std::string json;
  std::string csv;
  std::string plot;
  std::string plot_format = "svg";
};

/// Requests of a built-in workload when none are asked for.
inline constexpr std::size_t default_requests = 8000;

inline std::int64_t at_least_one(std::int64_t n, const char* option) {
  if (n < 1) throw sim::usage_error{fmt::format("{} must be at least 1, not {}", option, n)};
  return n;
}

/// The rows to replay, and a line that says what they are.
inline std::vector<sim::trace_row> load_rows(const arguments& a, std::string& what) {
  const std::size_t requests =
      a.requests ? static_cast<std::size_t>(at_least_one(*a.requests, "--requests")) : std::size_t{0};
  if (a.rate && a.rate_scale) throw sim::usage_error{"--rate and --rate-scale exclude each other"};
  if (a.workload.empty() == a.trace.empty()) {
    throw sim::usage_error{fmt::format("name one of --trace FILE.csv and --workload NAME; workloads: {}",
                                       fmt::join(sim::workload_names(), ", "))};
  }
  if (!a.workload.empty()) {
    const sim::workload& w = sim::find_workload(a.workload);
    const double rate = a.rate.value_or(w.rate * a.rate_scale.value_or(1.0));
    what = fmt::format("{}: {}", w.name, w.summary);
    return sim::generate(w, requests == 0 ? default_requests : requests, rate, a.seed);
  }
  what = a.trace;
  return sim::schedule_arrivals(
      sim::read_trace(a.trace),
      {.rate = a.rate, .rate_scale = a.rate_scale.value_or(1.0), .requests = requests, .seed = a.seed});
}

/// Sizes the instances: the profile's KV memory, or what was asked for.
inline sim::cluster_options size_cluster(const arguments& a, const sim::profile& profile,
                                         const std::vector<sim::trace_row>& rows) {
  const tessera::tokens block_size{at_least_one(a.block_size, "--block-size")};
  if (a.kv_blocks) at_least_one(*a.kv_blocks, "--kv-blocks");
  const std::int64_t blocks = a.kv_blocks.value_or(profile.kv_blocks(block_size).count());
  std::int64_t shortest = rows.front().prompt_tokens + rows.front().output_tokens;
  std::int64_t longest = shortest;
  for (const sim::trace_row& row : rows) {
    shortest = std::min(shortest, row.prompt_tokens + row.output_tokens);
    longest = std::max(longest, row.prompt_tokens + row.output_tokens);
  }
  const auto need = tessera::blocks_for(tessera::tokens{shortest - 1}, block_size).count();
  if (need > blocks) {
    throw sim::usage_error{fmt::format(
        "{} KV blocks of {} tokens are too few: the shortest of {} requests needs {}; raise --kv-blocks", blocks,
        block_size.count(), rows.size(), need)};
  }
  return {.instances = static_cast<std::size_t>(at_least_one(a.instances, "--instances")),
          .instance = {.limits = {.requests = rows.size(),
                                  .blocks = static_cast<std::size_t>(blocks),
                                  .block_size = block_size,
                                  .residents = static_cast<std::size_t>(at_least_one(a.max_batch, "--max-batch")),
                                  .host_blocks = static_cast<std::size_t>(profile.host_blocks(block_size).count()),
                                  .max_length = tessera::tokens{longest}},
                       .step = {.max_batch = static_cast<std::size_t>(a.max_batch),
                                .token_budget = tessera::tokens{at_least_one(a.token_budget, "--token-budget")}},
                       .timer = sim::step_timer{profile},
                       .swap_seconds_per_block = sim::swap_seconds(profile, block_size)},
          .fabric_bytes_per_s = profile.links.fabric_bytes_per_s,
          .kv_bytes_per_token = profile.model.kv_bytes_per_token()};
}

/// Runs the tool on its arguments. Everything that can be refused is refused before the first run.
inline void run(const arguments& a, const std::vector<sim::policy>& all) {
  const std::vector<sim::policy> policies = sim::select_policies(all, a.policies);
  const sim::profile profile = sim::load_profile(a.profile);
  std::string what;
  const std::vector<sim::trace_row> rows = load_rows(a, what);
  const sim::cluster_options options = size_cluster(a, profile, rows);
  if (!a.plot.empty()) sim::require_gnuplot();
  std::unique_ptr<sim::output_file> json;
  std::unique_ptr<sim::output_file> csv;
  if (!a.json.empty()) json = std::make_unique<sim::output_file>(a.json);
  if (!a.csv.empty()) csv = std::make_unique<sim::output_file>(a.csv);

  fmt::print("{}\n{} requests, {:.2f} per second, {} x {}, {} KV blocks of {} tokens each\n\n", what, rows.size(),
             sim::mean_rate(rows), options.instances, profile.name, options.instance.limits.blocks, a.block_size);

  std::vector<sim::run_result> runs;
  for (const sim::policy& p : policies) {
    sim::progress_bar bar{p.name, static_cast<double>(rows.size())};
    runs.push_back(p.run(options, rows, [&](std::size_t done) { bar.update(static_cast<double>(done)); }));
  }
  std::vector<sim::summary> numbers;
  for (const sim::run_result& r : runs) numbers.push_back(r.numbers);
  fmt::print("{}", sim::format_table(numbers));

  if (json) {
    json->write(sim::format_json(numbers));
    json->commit();
  }
  if (csv) {
    csv->write(sim::csv_header());
    for (const sim::run_result& r : runs) csv->write(sim::format_csv(r));
    csv->commit();
  }
  if (!a.plot.empty()) {
    const auto format = a.plot_format == "png" ? sim::plot_format::png : sim::plot_format::svg;
    for (const auto& picture : sim::write_plots(a.plot, runs, format)) fmt::print("{}\n", picture.string());
  }
}

/// The whole program. Exit code 2 and one line on stderr for anything that the user can mend.
inline int main(int argc, char** argv, const std::vector<sim::policy>& policies) {
  arguments a;
  CLI::App app{"Replays a workload through scheduling policies and prints who wins."};
  std::string names = "comma-separated:";
  for (const sim::policy& p : policies) names += fmt::format("\n{:<10} {}", p.name, p.summary);
  app.add_option("--policy", a.policies, names)->capture_default_str();
  app.add_option("--workload", a.workload, fmt::format("built-in: {}", fmt::join(sim::workload_names(), ", ")));
  app.add_option("--trace", a.trace, "CSV with the columns arrival_s, prompt_tokens, output_tokens, ...");
  app.add_option("--rate", a.rate, "mean arrivals per second");
  app.add_option("--rate-scale", a.rate_scale, "factor on the workload's own rate");
  app.add_option("--instances", a.instances, "engine instances")->capture_default_str();
  app.add_option("--profile", a.profile, fmt::format("{}, or a .json file", fmt::join(sim::profile_names(), ", ")))
      ->capture_default_str();
  app.add_option("--requests", a.requests,
                 fmt::format("only so many (a built-in workload: {}, a trace: all)", default_requests));
  app.add_option("--seed", a.seed, "of everything that is drawn")->capture_default_str();
  app.add_option("--kv-blocks", a.kv_blocks, "KV blocks per instance (default: the profile's memory)");
  app.add_option("--block-size", a.block_size, "tokens per KV block")->capture_default_str();
  app.add_option("--max-batch", a.max_batch, "requests per step")->capture_default_str();
  app.add_option("--token-budget", a.token_budget, "tokens per step")->capture_default_str();
  app.add_option("--json", a.json, "write the numbers of each policy");
  app.add_option("--csv", a.csv, "write a row per policy and request");
  app.add_option("--plot", a.plot, "write plots into this folder (needs gnuplot)");
  app.add_option("--plot-format", a.plot_format, "svg or png")->check(CLI::IsMember({"svg", "png"}))->capture_default_str();
  try {
    app.parse(argc, argv);
    run(a, policies);
    return 0;
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& wrong) {
    fmt::print(stderr, "replay: {} (see --help)\n", wrong.what());
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "replay: {}\n", wrong.what());
  }
  return sim::exit_bad_input;
}

}  // namespace replay
