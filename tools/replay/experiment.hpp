// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../tool.hpp"
#include "runs.hpp"
#include "words.hpp"

#include <tessera/sim/policies/policy.hpp>
#include <tessera/sim/report/explanation.hpp>
#include <tessera/sim/report/plots.hpp>
#include <tessera/sim/report/progress.hpp>
#include <tessera/sim/report/remarks.hpp>
#include <tessera/sim/report/replicates.hpp>
#include <tessera/sim/report/sweep.hpp>
#include <tessera/sim/setup/cluster_setup.hpp>
#include <tessera/sim/setup/load_source.hpp>
#include <tessera/sim/setup/setting.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// Everything that `replay` runs: one point, or one for each value of a sweep.

namespace replay {

struct arguments {
  sim::setting setting;
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

// Limits of plausible arguments.
inline constexpr std::int64_t max_seeds = 10'000;
inline constexpr std::int64_t max_jobs = 1024;

/// One workload on one cluster, checked: a table of its own, or a value of a sweep.
struct point {
  sim::setting setting;
  std::vector<sim::machines> cluster;
  std::vector<sim::trace_row>
      rows;  ///< For the first seed; empty in a sweep, in which rows are drawn when they are needed.
  std::size_t requests = 0;
  double rate = 0;
  std::string rate_said{};
  sim::cluster_options options;
  std::vector<bool> runs;                             ///< Whether a policy can run here.
  std::vector<std::optional<sim::pool_sizes>> pools;  ///< By policy, if planned.
  nlohmann::ordered_json what;                        ///< A description of the experiment, for JSON and CSV.
};

/// Why a policy cannot run there; empty if it can.
inline std::string unsuitable(const sim::policy& p, const point& at, const sim::load_source& source) {
  try {
    sim::require_suitable(p, at.options, at.rows, source.name());
  } catch (const sim::usage_error& why) {
    return why.what();
  }
  return {};
}

/// All runs, and their results.
struct experiment {
  const sim::load_source& source;
  std::vector<sim::policy> policies{};
  std::vector<sim::slo_bound> slo{};
  std::optional<sim::sweep> swept{};
  std::vector<point> points{};  ///< One, or one for each value of the sweep.
  std::size_t seeds = 1;
  std::size_t jobs = 1;
  std::optional<sim::question> asked{};  ///< What to explain in the runs of the first seed.
  bool keeps_all = false;  ///< Whether every request of every run is kept; otherwise only those of the first seed.
  std::vector<std::string> left_out{};  ///< Why some policies do not run.
  std::string of_load{};                ///< Remarks on the load: see `sim::describe_load`.
  std::string peak{};                   ///< When most requests of a trace come; empty: not reported.

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
  /// The numbers of all policies that have some.
  [[nodiscard]] std::vector<sim::replicates> numbers(std::size_t x) {
    std::vector<sim::replicates> all;
    for (std::size_t p = 0; p != policies.size(); ++p) {
      if (auto n = numbers(x, p); !n.empty()) all.push_back(std::move(n));
    }
    return all;
  }

  /// The arrival rate in a run. For sessions the actual rate, because their later turns wait for answers.
  [[nodiscard]] double rate_of(std::size_t x, std::size_t p, std::size_t s) {
    return source.has_sessions() ? arrivals_of(run(x, p, s)->numbers) : rates[x * seeds + s];
  }

  std::vector<std::optional<sim::run_result>> results{};
  std::vector<std::unique_ptr<sim::explanation>> explained{};  ///< By policy, if something is to be explained.
  std::vector<double> rates{};                                 ///< The rates of the rows, by point and seed.
};

/// The point of a setting. @throws tessera::sim::usage_error
inline point prepare(const sim::load_source& source, const sim::setting& asked, std::size_t seeds) {
  const auto seed = static_cast<std::uint64_t>(asked.seed);
  std::vector<sim::machines> cluster = sim::machines_of(asked);
  std::vector<sim::trace_row> rows = source.rows(asked, seed);
  sim::cluster_options options = sim::size_cluster(asked, cluster, rows, seed);
  // If a later seed leaves nothing to measure, that must be known before the first run.
  for (std::size_t s = 1; s < seeds && (asked.warmup > 0 || asked.drain > 0) && source.draws(asked); ++s) {
    sim::check_window(asked, source.rows(asked, seed + s));
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

/// All points, with the policies that can run at each. A policy that can run nowhere is left out; if none is left, its
/// reason is an error.
inline void prepare_points(experiment& e, const arguments& a) {
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
    sim::setting s = a.setting;
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
    if (v == 0) {
      const bool has_times = e.source.has_arrivals() && !e.source.has_sessions();
      e.of_load = sim::describe_load(x.cluster, x.options, x.rows, e.slo, has_times);
    }
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

/// Plans the pools of `--pools auto` everywhere. @return the results, a line each.
inline std::string plan_all_pools(experiment& e, tool::signal_guard& signals) {
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
/// its seeds; `bar` is wiped before. @param one_at_a_time held during changes of `e`.
template <class Finished>
void run_all(experiment& e, sim::progress_bar& bar, std::mutex& one_at_a_time, tool::signal_guard& signals,
             Finished&& finished) {
  std::size_t all_done = 0;
  // Point by point and seed by seed: the rows are drawn once, and freed when the last of their runs has ended.
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
      own.options = s == 0 ? at.options : sim::size_cluster(at.setting, at.cluster, own.rows, seed);
    });
    std::size_t told = 0;
    const auto notify = [&](std::size_t done) {
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
        if (done - told < 256) return;  // now and then: other runs draw as well
        const std::lock_guard<std::mutex> one{one_at_a_time};
        notify(done);
      });
      if (answer) answer->finish(r);
      evaluate(r, e.slo, options.faults);
      if (e.swept || (s != 0 && !e.keeps_all)) r.requests = {};
      if (e.swept || s != 0) r.timeline = {};
      const std::lock_guard<std::mutex> one{one_at_a_time};
      notify(own.rows.size());
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

}  // namespace replay
