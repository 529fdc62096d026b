// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How many instances does each policy need, or how much load does a given number carry?
//
//     capacity --trace my.csv --slo ttft_p99=2,tpot_p99=0.05 --price-per-hour 2.5
//     capacity --workload azure-conv --slo ttft_p99=2 --find rate --instances 8
#include "../picture.hpp"
#include "../replay/options.hpp"
#include "../replay/words.hpp"
#include "../tool.hpp"
#include "answers.hpp"
#include "report.hpp"
#include "search.hpp"

#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/planning/capacity.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/report/output_file.hpp>
#include <tessera/sim/report/plots.hpp>
#include <tessera/sim/report/progress.hpp>
#include <tessera/sim/report/remarks.hpp>
#include <tessera/sim/report/replicates.hpp>
#include <tessera/sim/report/report.hpp>
#include <tessera/sim/report/report_json.hpp>
#include <tessera/sim/report/tidy_csv.hpp>
#include <tessera/sim/setup/cluster_setup.hpp>
#include <tessera/sim/setup/load_source.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace capacity {
namespace {

/// @return whether some policy meets the objectives.
bool run(arguments a) {
  std::vector<sim::policy> policies = sim::select_policies(sim::published_policies(), a.policies);
  if (a.setting.slo.empty()) {
    throw sim::usage_error{"name the objectives, as in --slo ttft_p99=2,tpot_p99=0.05"};
  }
  const bool of_rate = a.find == "rate";
  if (of_rate && !a.instances) throw sim::usage_error{"--find rate needs the size of the cluster: --instances"};
  if (!of_rate && a.instances) {
    throw sim::usage_error{"--instances is for --find rate; for the fewest instances name --instances-max"};
  }
  a.setting.positive(a.instances_max, most_asked, "instances_max");
  if (a.instances) a.setting.positive(*a.instances, most_asked, "instances");
  if (a.price && !(*a.price > 0 && *a.price < 1e9)) {
    throw sim::usage_error{fmt::format("--price-per-hour is a number above 0, below 1e9, not {:g}", *a.price)};
  }
  if (a.price && a.price_per_gpu) {
    throw sim::usage_error{"--price-per-hour, of an instance, and --price-per-gpu-hour exclude each other"};
  }
  if (a.price_per_gpu && !(*a.price_per_gpu > 0 && *a.price_per_gpu < 1e9)) {
    throw sim::usage_error{
        fmt::format("--price-per-gpu-hour is a number above 0, below 1e9, not {:g}", *a.price_per_gpu)};
  }
  if (of_rate && (!a.setting.faults.empty() || a.setting.mtbf)) {
    throw sim::usage_error{
        "--fault and --mtbf go with --find instances: at another rate they would hit other requests"};
  }
  if (a.jobs) a.setting.positive(*a.jobs, most_jobs, "jobs");
  a.setting.positive(a.seeds, most_seeds, "seeds");
  const sim::load_source source = replay::read_load(a.setting);
  const sim::profile profile = sim::find_profile(a.setting.profile);
  if (a.price_per_gpu) a.price = *a.price_per_gpu * profile.parallel.devices();
  question q{.a = a,
             .source = source,
             .rows = {},
             .profile = profile,
             .slo = sim::parse_slo(a.setting.slo),
             .of_rate = of_rate};
  q.rows.reserve(static_cast<std::size_t>(a.seeds));  // so that earlier elements stay in place
  q.rows.push_back(source.rows(a.setting, static_cast<std::uint64_t>(a.setting.seed)));
  const std::vector<sim::trace_row>& rows = q.rows.front();
  q.rate = sim::mean_rate(rows);
  if (!(q.rate > 0)) throw sim::usage_error{"all requests come at once: there is no load to size a cluster for"};
  double output = 0;
  double tokens = 0;
  for (const sim::trace_row& r : rows) {
    output += static_cast<double>(r.output_tokens);
    tokens += static_cast<double>(r.output_tokens + r.prompt_tokens);
  }
  q.output_rate = output / static_cast<double>(rows.size()) * q.rate;
  q.token_rate = tokens / static_cast<double>(rows.size()) * q.rate;

  const std::size_t most = static_cast<std::size_t>(of_rate ? *a.instances : a.instances_max);
  // Checks everything that can be rejected before the first run.
  const std::vector<sim::machines> largest{{most, q.profile}};
  const sim::cluster_options options =
      sim::size_cluster(a.setting, largest, rows, static_cast<std::uint64_t>(a.setting.seed));
  // Smaller clusters lack the instance that fails.
  std::size_t least = 1;
  for (const std::string& text : a.setting.faults) least = std::max(least, sim::parse_fault(text).instance + 1);
  q.idle = sim::describe_idle(largest, options, rows, q.slo);
  std::vector<std::string> left_out;
  std::erase_if(policies, [&](const sim::policy& p) {
    try {
      sim::require_scores(p, rows, source.name());
      sim::require_instances(p, of_rate ? most : std::min(most, p.most_instances));
      sim::require_instances(p, of_rate ? most : std::max(least, p.least_instances));
      sim::require_open_placement(p, options);
      return false;
    } catch (const sim::usage_error& why) {
      left_out.emplace_back(why.what());
      return true;
    }
  });
  if (policies.empty()) throw sim::usage_error{left_out.front()};
  const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1U);
  const std::size_t jobs = std::min(a.jobs ? static_cast<std::size_t>(*a.jobs) : cores, policies.size());
  sim::require_memory(options, rows.size() * static_cast<std::size_t>(a.seeds), jobs, jobs, sim::spelling::options);
  for (std::int64_t s = 1; s != a.seeds; ++s) {
    const auto seed = static_cast<std::uint64_t>(a.setting.seed + s);
    q.rows.push_back(source.rows(a.setting, seed));
    static_cast<void>(sim::size_cluster(a.setting, largest, q.rows.back(), seed));
  }
  std::optional<tool::picture> image;
  if (!a.plot.empty()) {
    sim::require_gnuplot();
    image.emplace(a.plot, "capacity", a.plot_format == "png" ? sim::plot_format::png : sim::plot_format::svg);
  }
  std::unique_ptr<page> report;
  if (!a.report.empty()) report = std::make_unique<page>(a.report);
  tool::require_apart(replay::files_read(a.setting),
                      {{"--json", a.json},
                       {"--csv", a.csv},
                       {"--plot", image ? image->image().string() : std::string{}},
                       {"--plot, for its script,", image ? image->script().string() : std::string{}},
                       {"--report", report ? report->path().string() : std::string{}},
                       {"--report, for its picture,", report ? report->picture().string() : std::string{}}});

  std::unique_ptr<sim::output_file> json;
  std::unique_ptr<sim::output_file> csv;
  if (!a.json.empty()) json = std::make_unique<sim::output_file>(a.json);
  if (!a.csv.empty()) csv = std::make_unique<sim::output_file>(a.csv);
  std::FILE* const people = a.json == "-" || a.csv == "-" ? stderr : stdout;
  const std::string heading =
      fmt::format("{}\n{} requests, {}{}, {}, {}{}, {} KV blocks of {} tokens each{}\n{} within {}\n{}\n",
                  source.what(), rows.size(), replay::say_rate(q.rate, rows, source.has_sessions()),
                  source.has_arrivals() ? replay::say_peak(rows) : "",
                  a.seeds == 1 ? fmt::format("seed {}", a.setting.seed)
                               : fmt::format("seeds {} to {}", a.setting.seed, a.setting.seed + a.seeds - 1),
                  of_rate ? fmt::format("{} x ", most) : "", say_instance(q.profile), options.instance.limits.blocks,
                  a.setting.size.block_size, replay::say_routers(a.setting),
                  of_rate      ? "The highest rate"
                  : least == 1 ? fmt::format("The fewest instances, at most {},", most)
                               : fmt::format("The fewest instances, at least {} and at most {},", least, most),
                  a.setting.slo,
                  sim::describe_load(largest, options, rows, q.slo, source.has_arrivals() && !source.has_sessions()));
  fmt::print(people, "{}", heading);
  std::fflush(people);

  // Beyond these factors there is nothing to measure, or the timeline is too short.
  double slowest = 1 / sim::capacity_range;
  double fastest = sim::capacity_range;
  for (const std::vector<sim::trace_row>& of_seed : q.rows) {
    fastest = std::min(fastest, most_hurried(a.setting, of_seed));
    while (slowest < 1 && sim::least_span(sim::hurried(of_seed, slowest)) > sim::max_replay_seconds) slowest *= 2;
  }
  std::vector<answer> answers;
  for (const sim::policy& p : policies) answers.emplace_back().policy = &p;
  sim::live_text table{people, sim::table_width};
  std::mutex one_at_a_time;
  watch watched{policies, one_at_a_time};
  tool::signal_guard signals{[&] {
    const std::lock_guard<std::mutex> one{one_at_a_time};
    json.reset();
    csv.reset();
    image.reset();
    report.reset();
    watched.clear();
    table.clear();
    fmt::print(people, "{}\n{}Interrupted: what is above was done; nothing was written.\n", format_answers(q, answers),
               describe_answers(q, answers));
  }};
  std::size_t done = 0;
  sim::run_parallel(policies.size(), jobs, [&](std::size_t i) {
    const laboratory lab{a, policies, i, q.rows, q.profile, q.slo, signals, watched};
    sim::capacity found;
    if (of_rate) {
      found = sim::highest_rate([&](double factor) { return lab.run(most, factor); }, slowest, fastest);
    } else {
      found = sim::fewest_instances(std::max(least, policies[i].least_instances),
                                    std::min(most, policies[i].most_instances),
                                    [&](std::size_t n) { return lab.run(n, 1); });
    }
    const std::lock_guard<std::mutex> one{one_at_a_time};
    answers[i].found = std::move(found);
    answers[i].done = true;
    watched.clear();
    if (table.draws()) table.show(format_answers(q, answers));
    watched.finished(++done);
  });
  watched.clear();
  table.clear();
  fmt::print(people, "{}\n{}\n{}", format_answers(q, answers), describe_answers(q, answers), conclude(q, answers));
  std::string remarks = name_the_unsettled(answers);
  for (const std::string& why : left_out) remarks += fmt::format("Left out: {}.\n", why);
  if (a.seeds > 1) remarks += source.describe_seeds(a.setting);
  remarks += source.unused() + source.fewer();
  fmt::print(people, "{}", remarks);
  std::fflush(people);
  if (json || csv) {
    const std::vector<ordered_json> found = answers_as_json(q, answers);
    if (json) {
      json->write(sim::json_page(found));
      json->commit();
    }
    if (csv) {
      csv->write(sim::tidy_csv(found));
      csv->commit();
    }
  }
  if (image) {
    image->draw(bars_script(q, answers), 540);
    fmt::print(people, "{}\n", image->image().string());
  }
  if (report) {
    ordered_json what = replay::describe_setting(a.setting, largest, options, q.rate);
    for (const char* key : {"instances", "pools"}) what.erase(key);
    what["find"] = a.find;
    what[of_rate ? "instances" : "instances_max"] = most;
    report->write(q, answers, heading, remarks, what);
    fmt::print(people, "{}\n", report->path().string());
  }
  tool::flush_output();
  return std::any_of(answers.begin(), answers.end(), [](const answer& x) { return x.found.best.has_value(); });
}

}  // namespace
}  // namespace capacity

int main(int argc, char** argv) {
  capacity::arguments a;
  CLI::App app{"Finds the fewest instances, or the highest rate, at which each policy meets objectives."};
  app.set_version_flag("--version", "capacity " + tool::version());
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // scripts append to their defaults
  app.add_option("--policies,--policy", a.policies, "comma-separated; see replay --help")->capture_default_str();
  replay::add_load_options(app, a.setting);
  app.add_option("--find", a.find, "instances: the fewest for the workload's rate; rate: the highest for --instances")
      ->check(CLI::IsMember({"instances", "rate"}))
      ->capture_default_str();
  app.add_option("--instances-max", a.instances_max, "the most instances to try")->capture_default_str();
  app.add_option("--instances", a.instances, "engine instances, for --find rate");
  app.add_option("--price-per-hour", a.price, "of one instance, in any money: what a million tokens cost");
  app.add_option("--price-per-gpu-hour", a.price_per_gpu, "the same for one device; an instance may have several");
  replay::add_instance_options(app, a.setting);
  replay::add_fault_options(app, a.setting);
  app.add_option("--seeds", a.seeds, "number of runs, of this seed and the next ones; all must meet the objectives")
      ->capture_default_str();
  app.add_option("--jobs", a.jobs, "policies at a time (default: one per core)");
  app.add_option("--json", a.json, "write what was found for each policy; - is standard output");
  app.add_option("--csv", a.csv, "the same as CSV, a row per policy; - as above");
  CLI::Option* const plot =
      app.add_option("--plot", a.plot, "picture FILE.svg or FILE.png, or a folder for it (needs gnuplot)");
  app.add_option("--plot-format", a.plot_format, "svg or png, in a folder")
      ->needs(plot)
      ->check(CLI::IsMember({"svg", "png"}))
      ->capture_default_str();
  app.add_option("--report", a.report, "write a page index.html into this folder: table, words, picture, all in it");
  return tool::run("capacity", "a smaller --instances-max, or fewer --requests", app, [&] {
    tool::require_values(argc, argv);
    app.parse(argc, argv);
    return capacity::run(a);
  });
}
