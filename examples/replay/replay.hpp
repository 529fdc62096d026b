// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/compose/fcfs.hpp>
#include <tessera/sim/policy.hpp>
#include <tessera/sim/profile_file.hpp>
#include <tessera/sim/profiles.hpp>
#include <tessera/sim/progress.hpp>
#include <tessera/sim/report.hpp>
#include <tessera/sim/report_json.hpp>
#include <tessera/sim/workload.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <system_error>
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
  std::string profile{sim::default_profile};
  std::string print_profile;
  bool list_profiles = false;
  std::optional<std::int64_t> requests;
  std::int64_t seed = 1;
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

// What is refused because nobody means it: it would take days, or more memory than there is.
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

/// The rows to replay, and a line that says what they are.
inline std::vector<sim::trace_row> load_rows(const arguments& a, std::string& what) {
  const std::int64_t most_rows{sim::max_trace_rows};
  const std::size_t requests =
      a.requests ? static_cast<std::size_t>(positive(*a.requests, most_rows, "--requests")) : std::size_t{0};
  if (a.seed < 0) throw sim::usage_error{fmt::format("--seed must not be negative, like {}", a.seed)};
  const auto seed = static_cast<std::uint64_t>(a.seed);
  if (a.rate && a.rate_scale) throw sim::usage_error{"--rate and --rate-scale exclude each other"};
  if (a.workload.empty() == a.trace.empty()) {
    throw sim::usage_error{fmt::format("name one of --trace FILE.csv and --workload NAME; workloads: {}",
                                       fmt::join(sim::workload_names(), ", "))};
  }
  if (!a.workload.empty()) {
    const sim::workload& w = sim::find_workload(a.workload);
    const double rate = a.rate.value_or(w.rate * a.rate_scale.value_or(1.0));
    what = fmt::format("{}: {}", w.name, w.summary);
    return sim::generate(w, requests == 0 ? default_requests : requests, rate, seed);
  }
  what = a.trace;
  return sim::schedule_arrivals(
      sim::read_trace(a.trace),
      {.rate = a.rate, .rate_scale = a.rate_scale.value_or(1.0), .requests = requests, .seed = seed});
}

/// A step of the largest kind must take a time that is still a number worth simulating.
inline void check_step_time(const sim::cluster_options& o, const std::string& profile) {
  const sim::instance_options& instance = o.instance;
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
inline void check_memory(const sim::cluster_options& o, std::size_t rows, std::size_t policies) {
  const tessera::scheduler_limits& l = o.instance.limits;
  const auto instances = static_cast<double>(o.instances);
  const auto written = static_cast<double>(tessera::kv::block_pool::required_bytes({.blocks = l.blocks}) +
                                           tessera::kv::host_tier::required_bytes({.host_blocks = l.host_blocks}));
  const auto reserved = static_cast<double>(tessera::fcfs<sim::request>::required_bytes(l));
  const double requests =
      static_cast<double>(rows) * static_cast<double>(sizeof(sim::request) + policies * sizeof(sim::request_record));
  const auto refuse = [](const char* what, double size, double most) {
    throw sim::usage_error{
        fmt::format("this would {} {:.1f} GiB of memory; at most {:.0f} are allowed: take fewer --instances, "
                    "--requests, --kv-blocks or a smaller --max-batch",
                    what, size / (1 << 30), most / (1 << 30))};
  };
  if (instances * written + requests > max_memory) refuse("use", instances * written + requests, max_memory);
  if (instances * reserved > max_reserved) refuse("reserve", instances * reserved, max_reserved);
}

/// Sizes the instances: the profile's KV memory, or what was asked for.
inline sim::cluster_options size_cluster(const arguments& a, const sim::profile& profile,
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
  return {.instances = static_cast<std::size_t>(positive(a.instances, max_instances, "--instances")),
          .instance = {.limits = {.requests = rows.size(),
                                  .blocks = static_cast<std::size_t>(blocks),
                                  .block_size = block_size,
                                  .residents =
                                      static_cast<std::size_t>(positive(a.max_batch, max_batch_size, "--max-batch")),
                                  .host_blocks = static_cast<std::size_t>(host_blocks),
                                  .max_length = tessera::tokens{longest}},
                       .step = {.max_batch = static_cast<std::size_t>(a.max_batch),
                                .token_budget =
                                    tessera::tokens{positive(a.token_budget, max_token_budget, "--token-budget")}},
                       .timer = sim::step_timer{profile},
                       .swap_seconds_per_block = sim::swap_seconds(profile, block_size)},
          .fabric_bytes_per_s = profile.links.fabric_bytes_per_s,
          .kv_bytes_per_token = profile.kv_bytes_per_token(),
          .host_request_seconds = profile.terms.host_request_seconds};
}

/// Whether two paths name one file, as far as can be told before it exists.
inline bool same_file(const std::string& a, const std::string& b) {
  const auto whole = [](const std::string& path) {
    std::error_code unknown;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, unknown), unknown);
  };
  return whole(a) == whole(b);
}

/// Runs the tool on its arguments. Everything that can be refused is refused before the first run.
inline void run(const arguments& a, const std::vector<sim::policy>& all) {
  const std::vector<sim::policy> policies = sim::select_policies(all, a.policies);
  const sim::profile profile = sim::load_profile(a.profile);
  std::string what;
  const std::vector<sim::trace_row> rows = load_rows(a, what);
  check_span(rows);
  for (const sim::policy& p : policies) sim::require_scores(p, rows, a.trace.empty() ? a.workload : a.trace);
  const sim::cluster_options options = size_cluster(a, profile, rows);
  for (const sim::policy& p : policies) sim::require_instances(p, options.instances);
  check_step_time(options, profile.name);
  check_memory(options, rows.size(), policies.size());
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

  fmt::print("{}\n{} requests, {:.4g} per second, {} x {}, {} KV blocks of {} tokens each\n\n", what, rows.size(),
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
  app.add_option("--trace", a.trace, "CSV with the columns arrival_s, prompt_tokens, output_tokens, ...");
  app.add_option("--rate", a.rate, "mean arrivals per second");
  app.add_option("--rate-scale", a.rate_scale, "factor on the workload's own rate");
  app.add_option("--instances", a.instances, "engine instances")->capture_default_str();
  app.add_option("--profile", a.profile, "a built-in one (see --list-profiles), or a .json file")
      ->capture_default_str();
  app.add_flag("--list-profiles", a.list_profiles, "print the built-in profiles, and where their numbers are from");
  app.add_option("--print-profile", a.print_profile, "print this profile as JSON: a start for one's own");
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
  app.add_option("--plot-format", a.plot_format, "svg or png")
      ->check(CLI::IsMember({"svg", "png"}))
      ->capture_default_str();
  // An empty value, as of an unset variable in a script, must not pass for none at all.
  const CLI::Validator given{[](const std::string& value) { return std::string{value.empty() ? "needs a value" : ""}; },
                             ""};
  for (CLI::Option* option : app.get_options()) option->check(given);
  try {
    app.parse(argc, argv);
    if (a.list_profiles || !a.print_profile.empty()) {
      const std::string text = a.list_profiles ? describe_profiles() : sim::to_json(sim::load_profile(a.print_profile));
      if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        throw sim::output_error{fmt::format("cannot write the profile: {}", std::strerror(errno))};
      }
      return 0;
    }
    run(a, policies);
    return 0;
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& wrong) {
    fmt::print(stderr, "replay: {} (see --help)\n", wrong.what());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "replay: out of memory; take fewer --instances, --requests or --kv-blocks\n");
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "replay: {}\n", wrong.what());
  }
  return sim::exit_bad_input;
}

}  // namespace replay
