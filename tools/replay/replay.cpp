// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "../tool.hpp"
#include "experiment.hpp"
#include "options.hpp"
#include "results.hpp"

#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/model/profile_file.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/replay.hpp>
#include <tessera/sim/report/explanation.hpp>
#include <tessera/sim/report/html_report.hpp>
#include <tessera/sim/report/output_file.hpp>
#include <tessera/sim/report/plots.hpp>
#include <tessera/sim/report/progress.hpp>
#include <tessera/sim/report/report.hpp>
#include <tessera/sim/report/report_json.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace replay {
namespace {

/// Runs the tool on its arguments. Everything that can be rejected is rejected before the first run.
void run(const arguments& a, const std::vector<sim::policy>& all, const std::vector<sim::policy>& all_orders) {
  const sim::setting& asked = a.setting;
  if (asked.rate && asked.rate_scale) throw sim::usage_error{"--rate and --rate-scale exclude each other"};
  asked.positive(a.seeds, max_seeds, "seeds");
  sim::setting to_read = asked;
  if (a.sweep.rfind("rate=", 0) == 0) to_read.rate = 1;  // so that a trace without arrivals is accepted
  if (to_read.rate) to_read.rate_scale.reset();
  std::vector<sim::policy> policies;
  if (!a.policies.empty()) policies = sim::select_policies(all, a.policies);
  if (!a.orders.empty()) {
    for (sim::policy& p : sim::select_policies(all_orders, a.orders, "order")) {
      if (std::any_of(policies.begin(), policies.end(), [&](const sim::policy& q) { return q.name == p.name; })) {
        throw sim::usage_error{fmt::format("{} is named by --policy and by --order", p.name)};
      }
      policies.push_back(std::move(p));
    }
  }
  static_cast<void>(sim::machines_of(asked));
  const std::vector<sim::slo_bound> slo = asked.slo.empty() ? std::vector<sim::slo_bound>{} : sim::parse_slo(asked.slo);
  if (asked.pools == "auto" && slo.empty()) throw sim::usage_error{"--pools auto needs objectives to plan for: --slo"};
  if (a.jobs) asked.positive(*a.jobs, max_jobs, "jobs");
  const sim::load_source source = read_load(to_read);
  experiment e{.source = source, .policies = policies, .slo = slo, .seeds = static_cast<std::size_t>(a.seeds)};
  e.keeps_all = !a.csv.empty();
  if (!a.explain.empty()) {
    if (!a.sweep.empty()) throw sim::usage_error{"--explain and --sweep exclude each other"};
    e.asked = sim::parse_question(a.explain);
  }
  prepare_points(e, a);
  if (e.asked) sim::require_request(*e.asked, e.points.front().requests);
  e.explained.resize(e.policies.size());
  const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1U);
  e.jobs = std::min(a.jobs ? static_cast<std::size_t>(*a.jobs) : cores, e.results.size());
  for (const point& x : e.points) {
    const std::size_t kept = e.swept ? 0 : e.policies.size() * (e.keeps_all ? e.seeds : 1);
    sim::require_memory(x.options, x.requests, kept, e.jobs, sim::spelling::options);
  }
  const std::filesystem::path page_path = std::filesystem::path{a.report} / "index.html";
  std::vector<tool::named_file> written{
      {"--json", a.json}, {"--csv", a.csv}, {"--report", a.report.empty() ? std::string{} : page_path.string()}};
  for (const auto& [option, folder] :
       {std::pair{"--plot", std::filesystem::path{a.plot}},
        std::pair{"--report",
                  a.report.empty() ? std::filesystem::path{} : std::filesystem::path{a.report} / "pictures"}}) {
    if (folder.empty()) continue;
    for (const std::string_view name : sim::figure_names) {
      for (const char* extension : {".gp", ".svg", ".png"}) {
        written.push_back({option, (folder / (std::string{name} + extension)).string()});
      }
    }
  }
  tool::require_apart(files_read(asked), written);
  std::optional<sim::output_folder> plots;
  std::optional<sim::output_folder> report;
  std::unique_ptr<sim::output_file> json;
  std::unique_ptr<sim::output_file> csv;
  std::unique_ptr<sim::output_file> page;
  if (!a.plot.empty()) {
    sim::require_gnuplot();
    plots.emplace(a.plot);
  }
  if (!a.report.empty()) {
    report.emplace(a.report);
    page = std::make_unique<sim::output_file>(page_path);
  }
  if (!a.json.empty()) json = std::make_unique<sim::output_file>(a.json);
  if (!a.csv.empty()) csv = std::make_unique<sim::output_file>(a.csv);

  // Output for human readers makes room for output for programs.
  std::FILE* const people = a.json == "-" || a.csv == "-" ? stderr : stdout;
  // Only the runs show whether anything happens at the requested time: nothing is printed before an error.
  bool headed = false;
  const auto say_heading = [&] {
    if (!std::exchange(headed, true)) fmt::print(people, "{}", show_heading(e, a));
  };
  if (!e.asked || e.asked->request) say_heading();
  sim::live_text table{people, sim::table_width};
  double work = 0;
  for (const point& x : e.points) {
    work +=
        static_cast<double>(x.requests * e.seeds) * static_cast<double>(std::count(x.runs.begin(), x.runs.end(), true));
  }
  std::mutex one_at_a_time;
  std::optional<sim::progress_bar> bar;
  tool::signal_guard signals{[&] {
    const std::lock_guard<std::mutex> one{one_at_a_time};
    json.reset();
    csv.reset();
    page.reset();
    plots.reset();
    report.reset();
    if (bar) bar->clear();
    table.clear();
    say_heading();
    const bool some = std::any_of(e.results.begin(), e.results.end(), [](const auto& r) { return r.has_value(); });
    if (some && (e.swept || !e.numbers(0).empty())) fmt::print(people, "{}\n", show_results(e, a, false));
    fmt::print(people, "Interrupted: what is above was done; nothing was written.\n");
  }};
  const std::string planned = asked.pools == "auto" ? plan_all_pools(e, signals) + "\n" : std::string{};
  if (headed) fmt::print(people, "{}", planned);
  std::fflush(people);
  bar.emplace(e.policies.size() == 1 ? e.policies.front().name : "replay", work);
  run_all(e, *bar, one_at_a_time, signals, [&] {
    if (headed && table.draws()) table.show(show_table(e));
  });
  bar->clear();
  table.clear();
  const std::string explained = e.asked ? show_explanations(e) : std::string{};
  if (!headed) {
    say_heading();
    fmt::print(people, "{}", planned);
  }
  fmt::print(people, "{}{}", show_results(e, a, true), explained);
  std::fflush(people);

  signals.writes();
  if (json) json->write(sim::json_page(results_as_json(e)));
  if (csv) write_csv(e, *csv, signals);
  signals.check();
  if (json) json->commit();
  if (csv) csv->commit();
  if (a.plot.empty() && !page) return tool::flush_output();
  const std::string numbers = !page     ? std::string{}
                              : e.swept ? fmt::format("<pre>{}</pre>\n", sim::html_text(show_table(e)))
                                        : sim::html_table(e.numbers(0));
  const std::string remarks = page ? show_remarks(e, a, true) : std::string{};
  const std::vector<sim::figure> figures = figures_of(e);
  if (!a.plot.empty()) {
    const auto format = a.plot_format == "png" ? sim::plot_format::png : sim::plot_format::svg;
    for (const auto& picture : sim::draw_figures(a.plot, figures, format)) {
      fmt::print(people, "{}\n", picture.string());
    }
  }
  if (page) {
    const auto pictures = sim::has_gnuplot() ? sim::draw_figures(std::filesystem::path{a.report} / "pictures", figures)
                                             : std::vector<std::filesystem::path>{};
    page->write(make_page(e, a, numbers, remarks, explained, pictures));
    page->commit();
    fmt::print(people, "{}\n", page_path.string());
  }
  tool::flush_output();
}

/// The built-in profiles, for human readers.
std::string describe_profiles() {
  std::string out;
  for (const sim::profile& p : sim::profiles()) {
    const double devices = p.parallel.devices();
    out += fmt::format(
        "{}{}\n  {} on {}{}, KV of {:.0f} tokens\n  {}\n", p.name, p.name == sim::default_profile ? " (default)" : "",
        p.model.name, devices > 1 ? fmt::format("{} x ", devices) : std::string{}, p.gpu.name, p.kv_tokens(), p.source);
  }
  return out;
}

}  // namespace

}  // namespace replay

TESSERA_NAMESPACE_BEGIN
int sim::run_replay(int argc, char** argv, const std::vector<policy>& policies, const std::vector<policy>& orders) {
  using namespace replay;
  arguments a;
  CLI::App app{"Replays a workload through scheduling policies and compares them."};
  app.set_version_flag("--version", "replay " + tool::version());
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // scripts append to their defaults
  std::string names = "comma-separated; a parameter is set as in pars:threshold=60:";
  for (const sim::policy& p : policies) {
    names += fmt::format("\n{:<10} {}", p.name, p.summary);
    if (!p.parameters.empty()) names += fmt::format(" [{}]", sim::list_parameters(p));
  }
  const CLI::Option* policies_given = app.add_option("--policy", a.policies, names)->capture_default_str();
  std::string order_names = "composed by hand, with --placement; alone, or together with --policy:";
  for (const sim::policy& p : orders) order_names += fmt::format("\n{:<22} {}", p.name, p.summary);
  if (!orders.empty()) app.add_option("--order", a.orders, order_names);
  add_load_options(app, a.setting);
  const CLI::Option* instances_given =
      app.add_option("--instances", a.setting.instances, "engine instances; of several kinds: 4xPROFILE,4xPROFILE")
          ->capture_default_str();
  app.add_option(
      "--explain", a.explain,
      "explain a request (17 or request:17), or a second (12.5 or time:12): what happened, what decided it, why");
  app.add_option("--sweep", a.sweep,
                 "the same at several loads or sizes: rate-scale=0.5:2:0.25, rate=10:40:5 or instances=1,2,4,8")
      ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  app.add_option("--pools", a.setting.pools,
                 "PREFILL/DECODE[/MIXED] instances, or auto: what carries most within --slo");
  add_instance_options(app, a.setting);
  app.add_flag("--list-profiles", a.list_profiles, "print the built-in profiles, and where their numbers are from");
  app.add_option("--print-profile", a.print_profile, "print this profile as JSON: a start for one's own");
  app.add_option("--seeds", a.seeds, "number of runs, of this seed and the next ones: means and 95 % intervals")
      ->capture_default_str();
  app.add_option("--jobs", a.jobs, "runs at a time (default: one per core)");
  add_fault_options(app, a.setting);
  app.add_option("--json", a.json, "write the numbers of each policy; - is standard output");
  app.add_option("--csv", a.csv, "write a row per policy and request, of a sweep per policy and value; - as above");
  CLI::Option* const plot = app.add_option(
      "--plot", a.plot, "write plots of the first seed, or of the sweep, into this folder (needs gnuplot)");
  app.add_option("--report", a.report, "write a page index.html into this folder: table, words, pictures, all in it");
  app.add_option("--plot-format", a.plot_format, "svg or png")
      ->needs(plot)
      ->check(CLI::IsMember({"svg", "png"}))
      ->capture_default_str();
  // An empty value, such as that of an unset variable in a script, must not count as no option.
  const CLI::Validator given{[](const std::string& value) { return std::string{value.empty() ? "needs a value" : ""}; },
                             ""};
  for (CLI::Option* option : app.get_options()) option->check(given);
  return tool::run("replay", "fewer --instances, --requests or --kv-blocks", app, [&] {
    app.parse(argc, argv);
    if (!a.orders.empty() && policies_given->count() == 0) a.policies.clear();
    a.instances_given = instances_given->count() != 0;
    if (a.list_profiles || !a.print_profile.empty()) {
      fmt::print("{}", a.list_profiles ? describe_profiles() : sim::to_json(sim::load_profile(a.print_profile)));
      tool::flush_output();
      return;
    }
    run(a, policies, orders);
  });
}
TESSERA_NAMESPACE_END
