// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../picture.hpp"
#include "../replay/gzip.hpp"
#include "../replay/options.hpp"
#include "../tool.hpp"

#include <tessera/core/owned_storage.hpp>
#include <tessera/partition/bucketed.hpp>
#include <tessera/partition/chain.hpp>
#include <tessera/partition/exact.hpp>
#include <tessera/partition/flat.hpp>
#include <tessera/partition/merge.hpp>
#include <tessera/sim/cluster/cluster_size.hpp>
#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/cost_file.hpp>
#include <tessera/sim/model/cost_profile.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/report/plots.hpp>
#include <tessera/sim/report/replicates.hpp>
#include <tessera/sim/report/report.hpp>
#include <tessera/sim/report/report_json.hpp>
#include <tessera/sim/setup/cluster_setup.hpp>
#include <tessera/sim/setup/load_source.hpp>
#include <tessera/sim/setup/setting.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

/// @file
/// The command line of `plan`: lengths in, stages out.

namespace plan {

namespace sim = tessera::sim;
namespace partition = tessera::partition;
using tessera::cost::request_lengths;

struct arguments {
  std::string lengths;
  sim::setting setting;  ///< The trace, the options of its reader, and the profile.
  std::int64_t instances = 0;
  std::string cost;
  std::string method = "exact";
  std::optional<double> in_flight;
  bool compare = false;
  bool to_json = false;  ///< `--json` was given,
  std::string json;      ///< with this file, or without: standard output.
  std::string plot;
  std::string plot_format = "svg";
};

inline constexpr std::array<const char*, 5> methods{"exact", "bucketed", "merge", "chain", "flat"};

// Limits of plausible arguments: beyond them it would take hours, or more memory than there is.
inline constexpr std::int64_t max_instances = 4096;
inline constexpr double max_in_flight = 1e9;
inline constexpr double max_memory = 8.0 * (1 << 30);  ///< Bytes that a method may write to.

/// The lengths of requests.
inline std::vector<request_lengths> lengths_of(const std::vector<sim::trace_row>& rows) {
  std::vector<request_lengths> sample;
  for (const sim::trace_row& r : rows) {
    sample.push_back({tessera::tokens{r.prompt_tokens}, tessera::tokens{r.prompt_tokens + r.output_tokens}});
  }
  return sample;
}

/// An arriving trace, on the cluster that stages are planned for.
struct load {
  std::vector<sim::trace_row> rows;
  sim::cluster_options options;
  std::string unused;
  double in_flight = 0;                ///< Mean number of running requests without stages.
  std::vector<sim::replicates> check;  ///< The results of `replay`: without stages, and with its own.
};

/// Mean number of running requests while requests arrive, the beginning left out.
inline double mean_running(const sim::run_result& r) {
  double sum = 0;
  double count = 0;
  for (const sim::timeline_point& p : r.timeline) {
    if (p.time < r.window.from + r.window.length() / 4 || p.time > r.window.to) continue;
    sum += p.running;
    count += 1;
  }
  return count > 0 ? sum / count : 0;
}

/// Reads the trace, and replays it without stages and with the policies that have some.
inline load load_trace(const arguments& a, tool::signal_guard& signals) {
  const sim::load_source source = replay::read_load(a.setting);
  const auto seed = static_cast<std::uint64_t>(a.setting.seed);
  std::vector<sim::trace_row> rows = source.rows(a.setting, seed);
  if (!(sim::mean_rate(rows) > 0)) {
    throw sim::usage_error{
        fmt::format("{}: all {} requests come at once: there is no load to plan for; with --lengths "
                    "they are planned as if all were in flight",
                    a.setting.trace, rows.size())};
  }
  const sim::machines kind{static_cast<std::size_t>(a.instances), sim::find_profile(a.setting.profile)};
  sim::cluster_options options = sim::size_cluster(a.setting, {&kind, 1}, rows, seed);
  const std::vector<sim::policy> policies =
      sim::select_policies(sim::published_policies(), "fcfs,cascade,cascade-steady");
  for (const sim::policy& p : policies) sim::require_instances(p, options.instances);
  const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1U);
  sim::require_memory(options, rows.size(), policies.size(), cores, sim::spelling::options);
  std::vector<sim::run_result> runs(policies.size());
  sim::run_parallel(policies.size(), cores, [&](std::size_t i) {
    runs[i] = policies[i].run(options, rows, [&signals](std::size_t) { signals.check(); });
    runs[i].requests = {};
  });
  load l{.rows = std::move(rows), .options = std::move(options), .unused = source.unused(), .check = {}};
  l.in_flight = std::max(mean_running(runs.front()), 1e-3);
  for (const sim::run_result& r : runs) l.check.push_back({r.numbers});
  return l;
}

/// Whether stages pay, in words: the plan's expectation and the result of the replay. `gain` is the plan's quality
/// without stages over that with them.
inline std::string judge_stages(const load& l, double gain) {
  const sim::summary& without = l.check.front().front();
  const sim::summary* best = nullptr;
  for (std::size_t i = 1; i != l.check.size(); ++i) {
    const sim::summary& s = l.check[i].front();
    if (best == nullptr || s.normalized_latency.mean < best->normalized_latency.mean) best = &s;
  }
  const double measured = without.normalized_latency.mean / best->normalized_latency.mean;
  const auto change = [](double ratio) {
    return fmt::format("{:.1f} % {}", 100 * std::abs(1 - 1 / ratio), ratio >= 1 ? "lower" : "higher");
  };
  // The mean does not show the tails, so all count.
  struct part {
    std::string_view name;
    double ratio;
  };
  const std::array<part, 3> parts{{{"latency per token", measured},
                                   {"P99 TTFT", without.ttft.p99 / best->ttft.p99},
                                   {"P99 TPOT", without.tpot.p99 / best->tpot.p99}}};
  std::vector<std::string> better;
  std::vector<std::string> worse;
  for (const part& p : parts) {
    if (p.ratio > 1.02) better.emplace_back(p.name);
    if (p.ratio < 0.98) worse.emplace_back(p.name);
  }
  std::string verdict = "make no difference";
  if (!better.empty()) verdict = "pay";
  if (!worse.empty()) verdict = "do not pay";
  if (!better.empty() && !worse.empty()) {
    verdict = fmt::format("pay in {} and not in {}", sim::detail::enumerate(better), sim::detail::enumerate(worse));
  }
  return fmt::format(
      "Stages {} here: the plan promises a latency per token {} than without stages; in replay, with {} it is {}, P99 "
      "TTFT {} and P99 TPOT {}.\n",
      verdict, change(gain), best->policy, change(measured), change(parts[1].ratio),
      std::isnan(parts[2].ratio) ? std::string{"unknown"} : change(parts[2].ratio));
}

/// Lengths: a trace, or a file of one column that begins with the line `length`. In the latter, prompts are unknown,
/// and every sequence counts as growing from nothing.
inline std::vector<request_lengths> load_lengths(const arguments& a, std::string& unused) {
  const std::string& path = a.lengths;
  const std::optional<std::int64_t> hash_tokens = a.setting.hash_tokens;
  if (hash_tokens) a.setting.positive(*hash_tokens, sim::max_trace_tokens, "hash_tokens");
  const std::string file = sim::read_file(path);
  const std::string_view text = sim::without_mark(file);
  std::vector<request_lengths> sample;
  std::size_t at = 0;
  const std::string_view head = sim::take_line(text, at);
  const sim::usage_error no_hashes{"--hash-tokens goes with a trace that has hash_ids"};
  if (head != "length") {
    const sim::trace t = sim::parse_trace(text, path, tool::unpacking({.hash_tokens = hash_tokens}));
    if (hash_tokens && !t.has_prefixes) throw no_hashes;
    unused = sim::describe_unused(t);
    return lengths_of(t.rows);
  }
  if (hash_tokens) throw no_hashes;
  sim::require_plain_text(text, path, "a header and lengths");
  std::uint64_t line = 2;
  for (; at < text.size(); ++line) {
    const std::string_view row = sim::take_line(text, at);
    std::int64_t n = 0;
    const auto [stop, failure] = std::from_chars(row.data(), row.data() + row.size(), n);
    if (failure != std::errc{} || stop != row.data() + row.size() || n < 1 || n > sim::max_trace_tokens) {
      throw sim::input_error{path,
                             {line, 1},
                             fmt::format("length, a whole number from 1 to {}", sim::max_trace_tokens),
                             row.empty() ? std::string{"an empty line"} : sim::shown(row)};
    }
    if (sample.size() == sim::max_trace_rows) {
      throw sim::input_error{path, {line, 1}, fmt::format("at most {} rows", sim::max_trace_rows), "another one"};
    }
    sample.push_back({tessera::tokens{0}, tessera::tokens{n}});
  }
  if (sample.empty()) throw sim::input_error{path, {2, 1}, "at least one length", "the end of the file"};
  return sample;
}

/// Prices from a file, or fitted to simulated batches of a profile. `what` says which.
/// @param l the load, if it is known. Then the fit is to batches of such requests on such instances, as for the stages
/// of replay.
inline sim::cost_file load_cost(const arguments& a, const load* l, std::string& what) {
  if (!a.cost.empty()) {
    what = a.cost;
    return sim::read_cost(a.cost);
  }
  const sim::profile p = sim::find_profile(a.setting.profile);
  tessera::cost::fit_result fitted;
  auto rows = sim::profile_costs(p);
  if (l != nullptr) {
    double output = 0;
    for (const sim::trace_row& r : l->rows) output += static_cast<double>(r.output_tokens);
    output /= static_cast<double>(l->rows.size());
    const sim::cost_profile_options profiled{.output = std::max<std::int64_t>(4, static_cast<std::int64_t>(output))};
    const double kv = static_cast<double>(l->options.instance.limits.blocks) *
                      static_cast<double>(l->options.instance.limits.block_size.count());
    const double room = std::max(kv, 4.0 * static_cast<double>(profiled.output + profiled.shortest));
    rows = sim::profile_costs(l->options.instance.timer, room, profiled);
  }
  if (!ok(tessera::cost::fit(rows, {}, fitted))) {
    throw sim::usage_error{fmt::format("no cost model fits the profile {}; give --cost FILE.json", p.name)};
  }
  what = fmt::format("fitted to the profile {} (mean error {:.1f} %)", p.name, 100 * fitted.held_out_error);
  return {.qoe = fitted.model,
          .transfer = {.per_sequence = 0, .per_token = p.kv_bytes_per_token() / p.links.fabric_bytes_per_s}};
}

/// A plan that owns its stages, and its time in seconds.
struct outcome {
  std::string method;
  std::vector<partition::stage> stages;
  double quality = 0;
  double seconds = 0;
};

/// The time does not include sorting and pricing, which are the same for all.
template <class P, class Limits>
outcome run_with(const char* name, const partition::length_table& table, std::size_t instances, const Limits& limits) {
  const double bytes = static_cast<double>(P::required_bytes(limits));
  if (bytes > max_memory) {
    throw sim::usage_error{
        fmt::format("{} would use {:.1f} GiB of memory; at most {:.0f} are allowed: take fewer "
                    "--instances, a smaller sample or another --method",
                    name, bytes / (1 << 30), max_memory / (1 << 30))};
  }
  auto memory = tessera::storage_for<P>(limits);
  tessera::arena arena{memory.memory()};
  P planner{arena, limits};
  outcome o{name, std::vector<partition::stage>(std::min(instances, table.size())), 0, 0};
  const auto start = std::chrono::steady_clock::now();
  const partition::stage_plan found = planner(table, instances, o.stages);
  o.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  o.quality = found.quality;
  o.stages.resize(found.stages.size());
  return o;
}

inline outcome run_method(std::string_view method, const partition::length_table& table, std::size_t instances) {
  if (method == "exact") {
    return run_with<partition::exact>("exact", table, instances,
                                      partition::exact::limits{.lengths = table.size(), .instances = instances});
  }
  if (method == "chain") {
    return run_with<partition::chain>("chain", table, instances,
                                      partition::chain::limits{.lengths = table.size(), .instances = instances});
  }
  if (method == "bucketed") {
    return run_with<partition::bucketed>("bucketed", table, instances,
                                         partition::bucketed::limits{.instances = instances});
  }
  if (method == "merge") return run_with<partition::merge>("merge", table, instances, partition::merge::limits{});
  outcome o{"flat", std::vector<partition::stage>(std::min(instances, table.size())), 0, 0};
  const auto start = std::chrono::steady_clock::now();
  o.quality = partition::flat{}(table, instances, o.stages).quality;
  o.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  o.stages.resize(1);
  return o;
}

inline std::string show_range_end(const partition::stage& s) {
  return s.to == partition::unbounded ? std::string{"-"} : fmt::format("{}", s.to.count());
}

inline std::string format_stages(const outcome& o, std::size_t requests) {
  std::string out = fmt::format("{:>5} {:>10} {:>10} {:>9} {:>9} {:>7} {:>12} {:>12}\n", "stage", "from", "to",
                                "instances", "requests", "share", "quality", "transfer");
  for (std::size_t h = 0; h != o.stages.size(); ++h) {
    const partition::stage& s = o.stages[h];
    out += fmt::format("{:>5} {:>10} {:>10} {:>9} {:>9} {:>5.1f} % {:>12.5g} {:>12.5g}\n", h + 1, s.from.count(),
                       show_range_end(s), s.instances, s.requests,
                       100 * static_cast<double>(s.requests) / static_cast<double>(requests), s.quality, s.transfer);
  }
  return out;
}

inline std::string format_comparison(const std::vector<outcome>& all) {
  double best = all.front().quality;
  for (const outcome& o : all) best = std::min(best, o.quality);
  std::string out =
      fmt::format("{:<9} {:>6} {:>14} {:>10} {:>12}\n", "method", "stages", "quality", "to best", "planning ms");
  for (const outcome& o : all) {
    out += fmt::format("{:<9} {:>6} {:>14.8g} {:>+8.2f} % {:>12.3f}\n", o.method, o.stages.size(), o.quality,
                       best > 0 ? 100 * (o.quality / best - 1) : 0.0, 1e3 * o.seconds);
  }
  return out;
}

inline nlohmann::ordered_json describe(const outcome& o) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const partition::stage& s : o.stages) {
    const nlohmann::ordered_json to =
        s.to == partition::unbounded ? nlohmann::ordered_json{} : nlohmann::ordered_json(s.to.count());
    stages.push_back({{"from", s.from.count()},
                      {"to", to},
                      {"instances", s.instances},
                      {"requests", s.requests},
                      {"quality", s.quality},
                      {"transfer", s.transfer}});
  }
  return {{"method", o.method}, {"quality", o.quality}, {"planning_seconds", o.seconds}, {"stages", std::move(stages)}};
}

/// The lengths in four bins per doubling, and the stages behind them. A script without its terminal and output.
inline std::string layout_script(const outcome& o, const std::vector<request_lengths>& sample) {
  constexpr int per_octave = 4;
  std::vector<std::size_t> bins;
  double shortest = 1e18;
  double longest = 1;
  for (const request_lengths& r : sample) {
    const auto l = static_cast<double>(r.length.count());
    shortest = std::min(shortest, l);
    longest = std::max(longest, l);
    const auto bin = static_cast<std::size_t>(std::log2(l) * per_octave);
    if (bin >= bins.size()) bins.resize(bin + 1);
    ++bins[bin];
  }
  const auto edge = [](std::size_t bin) { return std::exp2(static_cast<double>(bin) / per_octave); };
  const auto first = static_cast<std::size_t>(std::log2(shortest) * per_octave);
  const double low = edge(first);
  const double high = edge(bins.size());
  std::size_t most = 1;
  std::string data = "$lengths << EOD\n";
  for (std::size_t b = first; b != bins.size(); ++b) {
    most = std::max(most, bins[b]);
    data += fmt::format("{:.6g} {} {:.6g} {:.6g}\n", std::sqrt(edge(b) * edge(b + 1)), bins[b], edge(b), edge(b + 1));
  }
  data += "EOD\n";
  std::size_t instances = 0;
  std::string stages;
  constexpr std::array<const char*, 2> colours{"#fdf3dc", "#e3f0f7"};
  for (std::size_t h = 0; h != o.stages.size(); ++h) {
    const partition::stage& s = o.stages[h];
    instances += s.instances;
    const double from = std::max(low, static_cast<double>(s.from.count()));
    const double to = s.to == partition::unbounded ? high : std::min(high, static_cast<double>(s.to.count()));
    stages +=
        fmt::format("set object {} rect from {:.6g}, graph 0 to {:.6g}, graph 1 fc rgb '{}' fs solid noborder behind\n",
                    h + 1, from, to, colours[h % 2]);
    if (h != 0) {
      stages += fmt::format(
          "set arrow from {0:.6g}, graph 0 to {0:.6g}, graph 1 nohead front lc rgb '#d55e00' lw 1.5\n", from);
      stages += fmt::format(
          "set label '{0}' at {1:.6g}, graph 0.02 rotate by 90 offset character -0.6,0 tc rgb '#a04000' front\n",
          s.from.count(), from);
    }
    stages += fmt::format("set label '{}' at {:.6g}, graph {} center tc rgb '#000000' front\n", s.instances,
                          std::sqrt(from * to), h % 2 == 0 ? "0.97" : "0.93");
  }
  return data +
         fmt::format("set title '{}: {} instances in {} stages (instances on top, cuts in red)'\n", o.method, instances,
                     o.stages.size()) +
         "set border 3\nset tics nomirror\nunset key\nset logscale x 2\nset format x '%.0f'\n"
         "set xlabel 'final length of a sequence, tokens'\nset ylabel 'requests'\n" +
         fmt::format("set xrange [{:.6g}:{:.6g}]\nset yrange [0:{:.6g}]\n", low, high,
                     1.18 * static_cast<double>(most)) +
         stages +
         "plot $lengths using 1:2:3:4:(0):2 with boxxyerror fs solid 0.4 border rgb '#0072b2' lc rgb '#0072b2'\n";
}

/// Runs the tool on its arguments. Everything that can be rejected is rejected before the planning begins.
inline void run(const arguments& a) {
  if (a.instances < 1 || a.instances > max_instances) {
    throw sim::usage_error{fmt::format("--instances must be from 1 to {}, not {}", max_instances, a.instances)};
  }
  if (a.in_flight && !(*a.in_flight > 0 && *a.in_flight <= max_in_flight)) {
    throw sim::usage_error{
        fmt::format("--in-flight must be above 0 and at most {:g}, not {:g}", max_in_flight, *a.in_flight)};
  }
  const auto instances = static_cast<std::size_t>(a.instances);
  const sim::setting& asked = a.setting;
  if (a.lengths.empty() == asked.trace.empty()) {
    throw sim::usage_error{"name one of --lengths FILE.csv, planned as if all were in flight, and --trace FILE.csv"};
  }
  if (asked.trace.empty() && (asked.rate || asked.rate_scale)) {
    throw sim::usage_error{"--rate and --rate-scale need --trace"};
  }
  if (asked.trace.empty() && (asked.run || !asked.time_unit.empty())) {
    throw sim::usage_error{"--run and --time-unit need --trace"};
  }
  if (asked.trace.empty() && !a.cost.empty() && asked.profile != sim::default_profile) {
    throw sim::usage_error{"--cost has the prices, so --profile has no effect"};
  }
  const std::string& input = asked.trace.empty() ? a.lengths : asked.trace;
  std::optional<tool::picture> image;
  if (!a.plot.empty()) {
    sim::require_gnuplot();
    image.emplace(a.plot, "plan", a.plot_format == "png" ? sim::plot_format::png : sim::plot_format::svg);
  }
  tool::require_apart(
      {{"--lengths", a.lengths}, {"--trace", asked.trace}, {"--cost", a.cost}, {"--profile", asked.profile}},
      {{"--json", a.json},
       {"--plot", image ? image->image().string() : std::string{}},
       {"--plot, for its script,", image ? image->script().string() : std::string{}}});
  std::unique_ptr<sim::output_file> json;
  if (!a.json.empty()) json = std::make_unique<sim::output_file>(a.json);
  // Output for human readers makes room for output for programs.
  std::FILE* const people = a.json == "-" ? stderr : stdout;
  std::optional<load> arriving;
  if (!asked.trace.empty()) {
    tool::signal_guard signals{[&] {
      image.reset();
      fmt::print(people, "Interrupted: nothing was written.\n");
    }};
    arriving = load_trace(a, signals);
  }
  std::string prices;
  const sim::cost_file cost = load_cost(a, arriving ? &*arriving : nullptr, prices);
  std::string unused = arriving ? arriving->unused : std::string{};
  const std::vector<request_lengths> sample = arriving ? lengths_of(arriving->rows) : load_lengths(a, unused);
  const double in_flight = a.in_flight.value_or(arriving ? arriving->in_flight : 0);
  const partition::length_table::limits limits{.requests = sample.size()};
  auto memory = tessera::storage_for<partition::length_table>(limits);
  tessera::arena arena{memory.memory()};
  partition::length_table table{arena, limits};
  if (!ok(table.assign(sample, {.qoe = cost.qoe, .transfer = cost.transfer, .in_flight = in_flight}))) {
    throw sim::usage_error{
        fmt::format("{}: the lengths or the prices are too large to add up: requests x longest^2 must "
                    "stay below 2^63, and the cost of the sample below 1e300",
                    input)};
  }

  const outcome chosen = run_method(a.method, table, instances);
  std::vector<outcome> all;
  if (a.compare) {
    for (const char* m : methods) all.push_back(m == a.method ? chosen : run_method(m, table, instances));
  }
  const double gain =
      arriving && chosen.quality > 0 ? run_method("flat", table, instances).quality / chosen.quality : 1.0;
  std::string text;
  if (!a.to_json || json) {
    text = fmt::format("{}: {} requests, {} distinct lengths, {} instances\ncost: {}\n", input, sample.size(),
                       table.size(), instances, prices);
    if (arriving) {
      text += fmt::format("{:.4g} requests per second, {:.4g} in flight{}\n", sim::mean_rate(arriving->rows), in_flight,
                          a.in_flight ? "" : " when they are replayed without stages");
    }
    text += "\n";
    text += format_stages(chosen, sample.size());
    text += fmt::format("\n{}: quality {:.8g}, smaller is better; planned in {:.3f} ms\n", chosen.method,
                        chosen.quality, 1e3 * chosen.seconds);
    if (a.compare) text += "\n" + format_comparison(all);
    if (arriving) {
      text += "\n" + sim::format_table(arriving->check) + "\n" + judge_stages(*arriving, gain) +
              sim::format_remarks(arriving->check);
    }
    text += unused;
  }
  if (a.to_json) {
    nlohmann::ordered_json j = describe(chosen);
    j["instances"] = instances;
    j["requests"] = sample.size();
    j["distinct_lengths"] = table.size();
    j["cost"] = nlohmann::ordered_json::parse(sim::to_json(cost));
    if (arriving) {
      j["in_flight"] = in_flight;
      j["rate"] = sim::mean_rate(arriving->rows);
      j["gain"] = gain;
      j["check"] = nlohmann::ordered_json::parse(sim::format_json(arriving->check));
    }
    if (a.compare) {
      j["compare"] = nlohmann::ordered_json::array();
      for (const outcome& o : all) j["compare"].push_back(describe(o));
    }
    if (json) {
      json->write(sim::json_page(j));
    } else {
      text += sim::json_page(j);
    }
  }
  if (image) image->draw(layout_script(chosen, sample), 540);
  if (json) json->commit();
  fmt::print(people, "{}", text);
  if (image && !(a.to_json && !json)) fmt::print(people, "{}\n", image->image().string());
  tool::flush_output();
}

/// The whole program. Exit code 2 and one line on stderr for anything that the user can correct.
inline int main(int argc, char** argv) {
  arguments a;
  CLI::App app{"Divides instances and sequence lengths into stages."};
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // scripts append to their defaults
  app.set_version_flag("--version", "plan " + tool::version());
  app.add_option("--lengths", a.lengths, "CSV: a trace with prompt_tokens and output_tokens, or one column `length`");
  app.add_option("--trace", a.setting.trace,
                 "a trace with arrivals: planned for its load, and checked against replay on it");
  app.add_option("--rate", a.setting.rate, "mean arrivals per second, for --trace");
  app.add_option("--rate-scale", a.setting.rate_scale, "factor on the trace's own rate");
  app.add_option("--hash-tokens", a.setting.hash_tokens,
                 "tokens of the prompt that each of a trace's hash_ids stands for; without: 512, or 16 in Bailian's");
  app.add_option("--time-unit", a.setting.time_unit, "unit of arrivals that are numbers: s, ms, us or ns");
  app.add_option("--run", a.setting.run, "which run of a benchmark's file, from 1; without: the last");
  app.add_option("--instances", a.instances, "engine instances")->required();
  app.add_option("--cost", a.cost, "JSON with the prices of a batch and of a transfer (default: fitted to --profile)");
  app.add_option("--profile", a.setting.profile, "a built-in one (see replay --list-profiles), or a .json file")
      ->capture_default_str();
  app.add_option("--method", a.method, fmt::format("{}", fmt::join(methods, ", ")))
      ->check(CLI::IsMember(std::vector<std::string>(methods.begin(), methods.end())))
      ->capture_default_str();
  app.add_option(
      "--in-flight", a.in_flight,
      "requests in flight that the sample stands for (default: all of it; with --trace: as many as replay has)");
  app.add_flag("--compare", a.compare, "all methods side by side");
  CLI::Option* const json =
      app.add_option("--json", a.json, "JSON instead of the table, or into a file in addition to it");
  json->expected(0, 1);
  CLI::Option* const plot =
      app.add_option("--plot", a.plot, "picture FILE.svg or FILE.png, or a folder for it (needs gnuplot)");
  app.add_option("--plot-format", a.plot_format, "svg or png, in a folder")
      ->needs(plot)
      ->check(CLI::IsMember({"svg", "png"}))
      ->capture_default_str();
  return tool::run("plan", "fewer --instances or a smaller sample", app, [&] {
    tool::require_values(argc, argv);
    app.parse(argc, argv);
    a.to_json = json->count() > 0;
    run(a);
  });
}

}  // namespace plan
