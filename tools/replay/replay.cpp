// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "../tool.hpp"
#include "setting.hpp"

#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/replay.hpp>
#include <tessera/sim/report/explanation.hpp>
#include <tessera/sim/report/html_report.hpp>
#include <tessera/sim/report/progress.hpp>
#include <tessera/sim/report/replicates.hpp>
#include <tessera/sim/report/report.hpp>
#include <tessera/sim/report/report_json.hpp>
#include <tessera/sim/report/slo.hpp>
#include <tessera/sim/report/sweep.hpp>
#include <tessera/sim/report/tidy_csv.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace replay {
namespace {

struct arguments {
  replay::setting setting;
  std::string policies = "fcfs,rr,pascal";
  std::string orders;
  std::string sweep;
  std::string explain;
  std::string print_profile;
  bool list_profiles = false;
  std::int64_t seeds = 1;
  std::optional<std::int64_t> jobs;
  bool instances_given = false;
  std::string json;
  std::string csv;
  std::string plot;
  std::string plot_format = "svg";
  std::string report;
};

// What is refused because nobody means it.
constexpr std::int64_t max_seeds = 10'000;
constexpr std::int64_t max_jobs = 1024;

/// One workload on one cluster, checked: a table of its own, or a value of a sweep.
struct point {
  replay::setting setting;
  std::vector<sim::machines> cluster;
  std::vector<sim::trace_row>
      rows;  ///< Of the first seed; empty in a sweep, where they are drawn when they are needed.
  std::size_t requests = 0;
  double rate = 0;
  std::string rate_said{};
  sim::cluster_options options;
  std::vector<bool> runs;                             ///< Whether a policy makes sense here.
  std::vector<std::optional<sim::pool_sizes>> pools;  ///< By policy, if planned.
  nlohmann::ordered_json what;                        ///< What was run, for JSON and CSV.
};

/// Why a policy cannot run there; empty if it can.
std::string unsuitable(const sim::policy& p, const point& at, const row_source& source) {
  try {
    sim::require_scores(p, at.rows, source.name());
    sim::require_instances(p, at.options.instances);
    sim::require_open_placement(p, at.options);
    if (p.pools == 2 && at.options.pools && at.options.pools->mixed != 0) {
      throw sim::usage_error{fmt::format("the policy {} has no mixed pool: --pools is PREFILL/DECODE", p.name)};
    }
  } catch (const sim::usage_error& why) {
    return why.what();
  }
  return {};
}

/// Everything that is to be run, and what came of it.
struct experiment {
  const row_source& source;
  std::vector<sim::policy> policies{};
  std::vector<sim::slo_bound> slo{};
  std::optional<sim::sweep> swept{};
  std::vector<point> points{};  ///< One, or one for each value of the sweep.
  std::size_t seeds = 1;
  std::size_t jobs = 1;
  std::optional<sim::question> asked{};  ///< What is to be explained of the runs of the first seed.
  bool keeps_all = false;  ///< Whether every request of every run is remembered; else only those of the first seed.
  std::vector<std::string> left_out{};  ///< Why some policies do not run.
  std::string of_load{};                ///< What is to be known of the load: see `describe_load`.
  std::string peak{};                   ///< When most requests of a trace come; empty: not said.

  /// A run of policy `p` at `points[x]` under the seed `s` after the first; empty: not made.
  [[nodiscard]] std::optional<sim::run_result>& run(std::size_t x, std::size_t p, std::size_t s) {
    return results[(x * policies.size() + p) * seeds + s];
  }
  /// The numbers of a policy's runs at a point, of all seeds or none.
  [[nodiscard]] sim::replicates numbers(std::size_t x, std::size_t p) {
    sim::replicates all;
    for (std::size_t s = 0; s != seeds; ++s) {
      if (const auto& r = run(x, p, s)) all.push_back(r->numbers);
    }
    return all.size() == seeds ? all : sim::replicates{};
  }
  /// Those of all policies that have some.
  [[nodiscard]] std::vector<sim::replicates> numbers(std::size_t x) {
    std::vector<sim::replicates> all;
    for (std::size_t p = 0; p != policies.size(); ++p) {
      if (auto n = numbers(x, p); !n.empty()) all.push_back(std::move(n));
    }
    return all;
  }

  /// How often requests came in a run; of sessions as it went, for their later turns wait for answers.
  [[nodiscard]] double rate_of(std::size_t x, std::size_t p, std::size_t s) {
    return source.has_sessions() ? arrivals_of(run(x, p, s)->numbers) : rates[x * seeds + s];
  }

  std::vector<std::optional<sim::run_result>> results{};
  std::vector<std::unique_ptr<sim::explanation>> explained{};  ///< By policy, where something is asked.
  std::vector<double> rates{};                                 ///< Of the rows, by point and seed.
};

/// The point that a setting asks for. @throws tessera::sim::usage_error
point prepare(const row_source& source, const setting& asked, std::size_t seeds) {
  const auto seed = static_cast<std::uint64_t>(asked.seed);
  std::vector<sim::machines> cluster = machines_of(asked);
  std::vector<sim::trace_row> rows = source.rows(asked, seed);
  sim::cluster_options options = size_cluster(asked, cluster, rows, seed);
  // That a later seed leaves nothing to measure is to be known before the first has run.
  for (std::size_t s = 1; s < seeds && (asked.warmup > 0 || asked.drain > 0) && source.draws(asked); ++s) {
    check_window(asked, source.rows(asked, seed + s));
  }
  const double rate = sim::mean_rate(rows);
  const std::size_t requests = rows.size();
  std::string said = say_rate(rate, rows, source.has_sessions());
  nlohmann::ordered_json what = describe_setting(asked, cluster, options, rate);
  return {.setting = asked,
          .cluster = std::move(cluster),
          .rows = std::move(rows),
          .requests = requests,
          .rate = rate,
          .rate_said = std::move(said),
          .options = std::move(options),
          .runs = {},
          .pools = {},
          .what = std::move(what)};
}

/// All points, with the policies that make sense at each. A policy that makes sense nowhere is left out; with nobody
/// left, its reason is an error.
void prepare_points(experiment& e, const arguments& a) {
  static constexpr std::array<std::string_view, 3> parameters{"rate", "rate-scale", "instances"};
  if (!a.sweep.empty()) {
    e.swept = sim::parse_sweep(a.sweep, parameters);
    const bool of_rate = e.swept->parameter != "instances";
    if (of_rate ? a.setting.rate || a.setting.rate_scale : a.instances_given) {
      throw sim::usage_error{fmt::format("--sweep {0} and {1} exclude each other", e.swept->parameter,
                                         !of_rate         ? "--instances"
                                         : a.setting.rate ? "--rate"
                                                          : "--rate-scale")};
    }
  }
  for (std::size_t v = 0; v != (e.swept ? e.swept->values.size() : 1); ++v) {
    setting s = a.setting;
    if (e.swept) {
      const double value = e.swept->values[v];
      if (e.swept->parameter == "instances") {
        if (value != static_cast<double>(static_cast<std::int64_t>(value))) {
          throw sim::usage_error{fmt::format("--sweep instances takes whole numbers, not {:g}", value)};
        }
        s.instances = fmt::format("{:.0f}", value);
      } else {
        s.rate.reset();
        s.rate_scale.reset();
        (e.swept->parameter == "rate" ? s.rate : s.rate_scale) = value;
      }
    }
    e.points.push_back(prepare(e.source, s, e.seeds));
    point& x = e.points.back();
    if (e.swept)
      x.what[e.swept->parameter == "rate-scale" ? "sweep_rate_scale" : "sweep_" + e.swept->parameter] =
          e.swept->values[v];
    for (const sim::policy& p : e.policies) x.runs.push_back(unsuitable(p, x, e.source).empty());
    x.pools.resize(e.policies.size());
    if (v == 0 && e.source.has_arrivals()) e.peak = say_peak(x.rows);
    if (v == 0) e.of_load = describe_load(e.source, x.cluster, x.options, x.rows, e.slo);
    if (e.swept && v != 0) x.rows = {};
  }
  std::vector<sim::policy> kept;
  std::vector<std::size_t> indices;
  for (std::size_t p = 0; p != e.policies.size(); ++p) {
    if (std::any_of(e.points.begin(), e.points.end(), [&](const point& x) { return x.runs[p]; })) {
      kept.push_back(e.policies[p]);
      indices.push_back(p);
    } else {
      e.left_out.push_back(unsuitable(e.policies[p], e.points.front(), e.source));
    }
  }
  if (kept.empty()) throw sim::usage_error{e.left_out.front()};
  e.policies = std::move(kept);
  for (point& x : e.points) {
    std::vector<bool> runs;
    for (const std::size_t p : indices) runs.push_back(x.runs[p]);
    x.runs = std::move(runs);
    x.pools.resize(indices.size());
    if (e.swept) x.rows = {};
  }
  e.results.resize(e.points.size() * e.policies.size() * e.seeds);
  e.rates.resize(e.points.size() * e.seeds);
}

/// Plans the pools of `--pools auto` everywhere. @return what was found, a line each.
std::string plan_all_pools(experiment& e, tool::signal_guard& signals) {
  std::vector<std::string> lines(e.points.size() * e.policies.size());
  sim::run_parallel(lines.size(), e.jobs, [&](std::size_t job) {
    point& x = e.points[job / e.policies.size()];
    const sim::policy& p = e.policies[job % e.policies.size()];
    if (p.pools == 0 || !x.runs[job % e.policies.size()]) return;
    const auto rows = x.rows.empty() ? e.source.rows(x.setting, static_cast<std::uint64_t>(x.setting.seed)) : x.rows;
    const sim::pool_plan plan = plan_pools(p, x.options, rows, e.slo, signals);
    x.pools[job % e.policies.size()] = plan.sizes;
    lines[job] = fmt::format(
        "{}: pools {}/{}/{}, {}\n", p.name, plan.sizes.prefill, plan.sizes.decode, plan.sizes.mixed,
        plan.factor > 0 ? fmt::format("which carry {:.3g} times this load within the SLO", plan.factor)
                        : fmt::format("which meet the SLO at no load; {:.3g} % of these requests are within it",
                                      100 * plan.within));
    if (e.swept)
      lines[job] = fmt::format("{} {:g}: {}", e.swept->parameter, e.swept->values[job / e.policies.size()], lines[job]);
  });
  return fmt::format("{}", fmt::join(lines, ""));
}

/// Makes every run. @param finished `finished()` is called, one at a time, when a policy has run at a point with all
/// its seeds; `bar` is wiped before. @param one_at_a_time held by whoever changes `e`.
template <class Finished>
void run_all(experiment& e, sim::progress_bar& bar, std::mutex& one_at_a_time, tool::signal_guard& signals,
             Finished&& finished) {
  std::size_t all_done = 0;
  // Point by point and seed by seed: the rows are drawn once, and go when the last of their runs has ended.
  struct drawn_rows {
    std::once_flag drawn;
    std::vector<sim::trace_row> rows;
    std::optional<sim::cluster_options> options;
    std::atomic<std::size_t> used{0};
  };
  std::vector<drawn_rows> drawn(e.points.size() * e.seeds);
  sim::run_pace pace;
  for (std::size_t job = 0; job != e.results.size(); ++job) {
    const point& at = e.points[job / e.policies.size() / e.seeds];
    const std::size_t p = job % e.policies.size();
    pace.add(p, at.runs[p] ? static_cast<double>(at.requests) : 0);
  }
  const auto words = [&] {
    const double now = bar.seconds();
    sim::progress_bar::words w{.left_s = pace.left(now, e.jobs)};
    if (const auto slow = pace.slowest(now)) {
      w.note = fmt::format("{} {:.0f} %", e.policies[slow->kind].name, 100 * slow->part);
      if (!std::isnan(slow->left_s)) w.note += fmt::format(", {} left", sim::describe_seconds(slow->left_s));
    }
    return w;
  };
  std::vector<std::size_t> seeds_done(e.points.size() * e.policies.size());
  sim::run_parallel(e.results.size(), e.jobs, [&](std::size_t job) {
    const std::size_t p = job % e.policies.size();
    const std::size_t s = job / e.policies.size() % e.seeds;
    const std::size_t x = job / e.policies.size() / e.seeds;
    point& at = e.points[x];
    drawn_rows& own = drawn[x * e.seeds + s];
    std::call_once(own.drawn, [&] {
      const std::uint64_t seed = static_cast<std::uint64_t>(at.setting.seed) + s;
      own.rows = s == 0 && !at.rows.empty() ? std::move(at.rows) : e.source.rows(at.setting, seed);
      e.rates[x * e.seeds + s] = sim::mean_rate(own.rows);
      own.options = s == 0 ? at.options : size_cluster(at.setting, at.cluster, own.rows, seed);
    });
    std::size_t told = 0;
    const auto tell = [&](std::size_t done) {
      all_done += done - told;
      told = done;
      pace.update(job, static_cast<double>(done));
      bar.update(static_cast<double>(all_done), bar.seconds(), words);
    };
    if (at.runs[p]) {
      {
        const std::lock_guard<std::mutex> one{one_at_a_time};
        pace.begin(job, bar.seconds());
      }
      sim::cluster_options options = *own.options;
      if (at.pools[p]) options.pools = at.pools[p];
      std::unique_ptr<sim::explanation> answer;
      if (e.asked && s == 0) {
        answer = std::make_unique<sim::explanation>(*e.asked);
        options.watcher = answer.get();
      }
      sim::run_result r = e.policies[p].run(options, own.rows, [&](std::size_t done) {
        signals.check();
        if (done - told < 256) return;  // now and then: others draw, too
        const std::lock_guard<std::mutex> one{one_at_a_time};
        tell(done);
      });
      if (answer) answer->finish(r);
      r.numbers.slo = sim::evaluate_slo(e.slo, r.requests, r.window);
      r.numbers.ttft_in_fault = sim::describe_in_fault(fault_times(options.faults), r.requests, r.window);
      if (e.swept || (s != 0 && !e.keeps_all)) r.requests = {};
      if (e.swept || s != 0) r.timeline = {};
      const std::lock_guard<std::mutex> one{one_at_a_time};
      tell(own.rows.size());
      pace.end(job, bar.seconds());
      e.run(x, p, s) = std::move(r);
      if (answer) e.explained[p] = std::move(answer);
      if (++seeds_done[x * e.policies.size() + p] == e.seeds) {
        bar.clear();
        finished();
      }
    }
    if (++own.used == e.policies.size()) own.rows = {};
  });
}

/// Which policies have a placement of their own, whatever was asked for. Empty if none.
std::string name_own_placements(const std::vector<sim::policy>& policies) {
  std::vector<std::string_view> own;
  for (const sim::policy& p : policies) {
    if (!p.placement.empty()) own.push_back(p.name);
  }
  if (own.empty()) return {};
  return fmt::format("--placement says nothing to {}: placement is part of what {}.\n", fmt::join(own, ", "),
                     own.size() == 1 ? "it is" : "they are");
}

/// Which policies divide the instances in no way that could be asked for. Empty if none.
std::string name_undivided(const std::vector<sim::policy>& policies) {
  std::vector<std::string_view> whole;
  for (const sim::policy& p : policies) {
    if (p.pools == 0) whole.push_back(p.name);
  }
  if (whole.empty()) return {};
  return fmt::format("--pools says nothing to {}: {} no pools.\n", fmt::join(whole, ", "),
                     whole.size() == 1 ? "it has" : "they have");
}

/// The curves of a sweep.
std::vector<sim::sweep_curve> curves_of(experiment& e) {
  std::vector<sim::sweep_curve> curves;
  for (std::size_t p = 0; p != e.policies.size(); ++p) {
    curves.push_back({e.policies[p].name, {}});
    for (std::size_t x = 0; x != e.points.size(); ++x) curves.back().runs.push_back(e.numbers(x, p));
  }
  return curves;
}

/// The table as far as it is: of a sweep, of all its values.
std::string show_table(experiment& e) {
  return e.swept ? sim::format_sweep(*e.swept, curves_of(e)) : sim::format_table(e.numbers(0));
}

/// What is to be said of the table. @param complete whether everything has run.
std::string show_remarks(experiment& e, const arguments& a, bool complete) {
  std::string remarks;
  if (e.swept) {
    const auto curves = curves_of(e);
    if (complete) remarks += sim::describe_sweep(*e.swept, curves);
    for (const sim::sweep_curve& c : curves) {
      if (!complete) break;
      std::vector<std::string> not_here;
      for (std::size_t x = 0; x != c.runs.size(); ++x) {
        if (c.runs[x].empty()) not_here.push_back(fmt::format("{:g}", e.swept->values[x]));
      }
      if (!not_here.empty()) {
        remarks += fmt::format("{} cannot run at {} {}.\n", c.policy, e.swept->parameter, fmt::join(not_here, ", "));
      }
    }
  } else {
    const auto numbers = e.numbers(0);
    remarks += sim::format_verdict(numbers) + sim::format_remarks(numbers);
  }
  if (!a.setting.placement.empty()) remarks += name_own_placements(e.policies);
  if (!a.setting.pools.empty()) remarks += name_undivided(e.policies);
  for (const std::string& why : e.left_out) remarks += fmt::format("Left out: {}.\n", why);
  if (a.seeds > 1) remarks += e.source.describe_seeds(e.points.front().setting);
  remarks += name_unplanned(e.policies, a.setting.pools, !e.slo.empty());
  return remarks + e.of_load + e.source.unused() + e.source.fewer();
}

/// The table and the remarks.
std::string show_results(experiment& e, const arguments& a, bool complete) {
  const std::string remarks = show_remarks(e, a, complete);
  return remarks.empty() ? show_table(e) : show_table(e) + "\n" + remarks;
}

/// What is run, in a few lines.
std::string show_heading(const experiment& e, const arguments& a) {
  const point& first = e.points.front();
  std::vector<std::size_t> kv_blocks;
  for (std::size_t k = 0, i = 0; k != first.cluster.size(); i += first.cluster[k++].count) {
    kv_blocks.push_back(first.options.of(i).limits.blocks);
  }
  const std::string seeds = a.seeds == 1 ? fmt::format("seed {}", a.setting.seed)
                                         : fmt::format("seeds {} to {}: mean\u00b195 % interval", a.setting.seed,
                                                       a.setting.seed + a.seeds - 1);
  const bool rates = e.swept && e.swept->parameter != "instances";
  const std::string rate =
      rates ? fmt::format("{:.4g} to {:.4g} per second", first.rate, e.points.back().rate) : first.rate_said;
  const std::string cluster = e.swept && !rates
                                  ? fmt::format("{:g} to {:g} x {}", e.swept->values.front(), e.swept->values.back(),
                                                first.cluster.front().profile.name)
                                  : say_cluster(first.cluster);
  const bool by_default = !a.instances_given && !(e.swept && !rates);
  return fmt::format("{}\n{} requests, {}{}, {}\n{}{}, {} KV blocks of {} tokens each{}\n\n", e.source.what(),
                     first.requests, rate, e.peak, seeds, cluster, by_default ? " (the default of --instances)" : "",
                     fmt::join(kv_blocks, " and "), a.setting.size.block_size, say_routers(a.setting));
}

/// The rows of the results as JSON objects: point by point, policy by policy.
std::vector<nlohmann::ordered_json> results_as_json(experiment& e) {
  std::vector<nlohmann::ordered_json> all;
  for (std::size_t x = 0; x != e.points.size(); ++x) {
    for (std::size_t p = 0; p != e.policies.size(); ++p) {
      const sim::replicates runs = e.numbers(x, p);
      if (runs.empty()) continue;
      all.push_back(sim::to_json(runs));
      all.back().update(e.points[x].what);
      double rates = 0;
      for (std::size_t s = 0; s != e.seeds; ++s) rates += e.rate_of(x, p, s);
      all.back()["rate"] = rates / static_cast<double>(e.seeds);
      if (e.asked && e.explained[p]) all.back()["explained"] = e.explained[p]->json();
      if (e.points[x].pools[p]) {
        const sim::pool_sizes& s = *e.points[x].pools[p];
        all.back()["pools"] = fmt::format("{}/{}/{}", s.prefill, s.decode, s.mixed);
      }
    }
  }
  return all;
}

/// The timelines of `--explain`, one after the other. @throws tessera::sim::usage_error nothing happens at that time.
std::string show_explanations(const experiment& e) {
  std::string out;
  bool any = false;
  for (const auto& told : e.explained) {
    if (!told) continue;
    any = any || !told->is_outside();
    out += "\n" + told->text();
  }
  if (!any) {
    const auto [from, to] = e.explained.front()->range();
    throw sim::usage_error{
        fmt::format("nothing happens at {:g} s: the run is from {:.3f} s to {:.3f} s", e.asked->from_s, from, to)};
  }
  return out;
}

/// A row for each request of each run; of a sweep, one for each value, policy and seed.
void write_csv(experiment& e, sim::output_file& file, tool::signal_guard& signals) {
  if (e.swept) {
    std::vector<nlohmann::ordered_json> rows;
    for (std::size_t x = 0; x != e.points.size(); ++x) {
      for (std::size_t p = 0; p != e.policies.size(); ++p) {
        for (std::size_t s = 0; s != e.seeds; ++s) {
          if (!e.run(x, p, s)) continue;
          nlohmann::ordered_json row = e.points[x].what;
          row["seed"] = e.points[x].setting.seed + static_cast<std::int64_t>(s);
          row["rate"] = e.rate_of(x, p, s);
          row.update(sim::to_json(e.run(x, p, s)->numbers));
          rows.push_back(std::move(row));
        }
      }
    }
    file.write(sim::tidy_csv(rows));
    return;
  }
  nlohmann::ordered_json what;
  for (const char* key : {"workload", "trace", "rate", "instances", "profile", "routers", "report_interval_s",
                          "router_shares", "version"}) {
    if (e.points.front().what.contains(key)) what[key] = e.points.front().what.at(key);
  }
  std::string columns = "placement,";
  for (const auto& [column, field] : sim::csv_cells(what)) columns += column + ",";
  file.write(sim::csv_header(columns));
  for (std::size_t p = 0; p != e.policies.size(); ++p) {
    for (std::size_t s = 0; s != e.seeds; ++s) {
      if (!e.run(0, p, s)) continue;
      const sim::run_result& r = *e.run(0, p, s);
      what["rate"] = e.rate_of(0, p, s);
      std::string fields = sim::csv_text(r.numbers.placement) + ",";
      for (const auto& [column, field] : sim::csv_cells(what)) fields += field + ",";
      signals.check();
      file.write(sim::format_csv(r, static_cast<std::uint64_t>(e.points.front().setting.seed) + s, fields));
    }
  }
}

/// The pictures: of a sweep, its curves; else of the runs of the first seed, which are used up.
std::vector<sim::figure> figures_of(experiment& e) {
  if (e.swept) {
    const point& first = e.points.front();
    const std::string title =
        fmt::format("{}, {} requests, {}", e.source.name(), first.requests,
                    e.swept->parameter == "instances" ? first.cluster.front().profile.name : names_of(first.cluster));
    return {{"sweep", sim::sweep_script(*e.swept, curves_of(e), title), e.slo.empty() ? 720 : 1440}};
  }
  std::vector<sim::run_result> drawn;
  for (std::size_t p = 0; p != e.policies.size(); ++p) {
    if (auto& r = e.run(0, p, 0)) drawn.push_back(std::move(*r));
  }
  return sim::figures_of(drawn);
}

/// The page of `--report`: what was run, the table, the words, the pictures. @param pictures those in the report's
/// folder. @param explained what `--explain` says.
std::string make_page(experiment& e, const arguments& a, const std::string& table, const std::string& remarks,
                      const std::string& explained, const std::vector<std::filesystem::path>& pictures) {
  std::vector<std::pair<std::string, std::string>> facts;
  for (auto& [name, value] : sim::csv_cells(e.points.front().what)) {
    const bool varied =
        e.swept && (name.rfind("sweep_", 0) == 0 || name == (e.swept->parameter == "instances" ? "instances" : "rate"));
    if (!value.empty() && !varied) facts.emplace_back(name, value);
  }
  facts.emplace_back("requests", fmt::format("{}", e.points.front().requests));
  if (e.swept) facts.emplace_back("sweep", a.sweep);
  if (a.seeds > 1) facts.emplace_back("seeds", fmt::format("{}", a.seeds));
  std::string drawn;
  for (const std::filesystem::path& picture : pictures) {
    drawn += sim::html_picture(sim::read_file(picture.string()), picture.stem().string());
  }
  if (pictures.empty()) drawn = "<p>There are no pictures: gnuplot is not installed.</p>\n";
  std::vector<sim::html_section> sections{{"", sim::html_lines(show_heading(e, a) + remarks)}, {"Numbers", table}};
  if (!explained.empty()) sections.push_back({"Why", fmt::format("<pre>{}</pre>\n", sim::html_text(explained))});
  sections.push_back({"Pictures", drawn});
  sections.push_back({"What was run", sim::html_facts(facts)});
  return sim::html_page(fmt::format("replay of {}", e.source.name()), sections);
}

/// Runs the tool on its arguments. Everything that can be refused is refused before the first run.
void run(const arguments& a, const std::vector<sim::policy>& all) {
  const setting& asked = a.setting;
  if (asked.rate && asked.rate_scale) throw sim::usage_error{"--rate and --rate-scale exclude each other"};
  positive(a.seeds, max_seeds, "--seeds");
  setting to_read = asked;
  if (a.sweep.rfind("rate=", 0) == 0) to_read.rate = 1;  // so a trace without arrivals will do
  if (to_read.rate) to_read.rate_scale.reset();
  std::vector<sim::policy> policies;
  if (!a.policies.empty()) policies = sim::select_policies(all, a.policies);
  if (!a.orders.empty()) {
    for (sim::policy& p : sim::select_policies(sim::composed_orders(), a.orders, "order")) {
      if (std::any_of(policies.begin(), policies.end(), [&](const sim::policy& q) { return q.name == p.name; })) {
        throw sim::usage_error{fmt::format("{} is named by --policy and by --order", p.name)};
      }
      policies.push_back(std::move(p));
    }
  }
  static_cast<void>(machines_of(asked));
  const std::vector<sim::slo_bound> slo = asked.slo.empty() ? std::vector<sim::slo_bound>{} : sim::parse_slo(asked.slo);
  if (asked.pools == "auto" && slo.empty()) throw sim::usage_error{"--pools auto needs objectives to plan for: --slo"};
  if (a.jobs) positive(*a.jobs, max_jobs, "--jobs");
  const row_source source{to_read};
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

  // What people read makes room for what programs read.
  std::FILE* const people = a.json == "-" || a.csv == "-" ? stderr : stdout;
  // Whether anything happens at a time that is asked for, the runs say: nothing is printed before a complaint.
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

/// The built-in profiles, for people.
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
int sim::run_replay(int argc, char** argv, const std::vector<policy>& policies) {
  using namespace replay;
  arguments a;
  CLI::App app{"Replays a workload through scheduling policies and prints who wins."};
  app.set_version_flag("--version", "replay " + tool::version());
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // scripts append to their defaults
  std::string names = "comma-separated; a parameter is set as in pars:threshold=60:";
  for (const sim::policy& p : policies) {
    names += fmt::format("\n{:<10} {}", p.name, p.summary);
    if (!p.parameters.empty()) names += fmt::format(" [{}]", sim::list_parameters(p));
  }
  const CLI::Option* policies_given = app.add_option("--policy", a.policies, names)->capture_default_str();
  std::string orders = "composed by hand, with --placement; alone, or beside --policy:";
  for (const sim::policy& p : sim::composed_orders()) orders += fmt::format("\n{:<22} {}", p.name, p.summary);
  app.add_option("--order", a.orders, orders);
  add_load_options(app, a.setting);
  const CLI::Option* instances_given =
      app.add_option("--instances", a.setting.instances, "engine instances; of several kinds: 4xPROFILE,4xPROFILE")
          ->capture_default_str();
  app.add_option(
      "--explain", a.explain,
      "what happened to a request (17 or request:17), or in a second (12.5 or time:12), who decided it, why");
  app.add_option("--sweep", a.sweep,
                 "the same at several loads or sizes: rate-scale=0.5:2:0.25, rate=10:40:5 or instances=1,2,4,8")
      ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  app.add_option("--pools", a.setting.pools,
                 "PREFILL/DECODE[/MIXED] instances, or auto: what carries most within --slo");
  add_instance_options(app, a.setting);
  app.add_flag("--list-profiles", a.list_profiles, "print the built-in profiles, and where their numbers are from");
  app.add_option("--print-profile", a.print_profile, "print this profile as JSON: a start for one's own");
  app.add_option("--seeds", a.seeds, "so many runs, of this seed and those after it: means and 95 % intervals")
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
  // An empty value, as of an unset variable in a script, must not pass for none at all.
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
    run(a, policies);
  });
}
TESSERA_NAMESPACE_END
