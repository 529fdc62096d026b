// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a fleet's controllers lose by old reports, late actions and several routers.
#include "pascal_setting.hpp"

#include <tessera/sim/cluster/routing.hpp>
#include <tessera/sim/policies/placements.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using namespace reproduce;

constexpr std::size_t instances = 8;

constexpr const char* workload_name = "azure-conv";
constexpr double rate = 24;  // Requests per second, about 80 % of what eight instances serve.

/// One column: what the controller is told, and when.
struct view_of_fleet {
  std::size_t routers;
  double report_s;  // 0: all instances as they are at any moment.
  double action_s;
};

std::vector<view_of_fleet> views() {
  std::vector<view_of_fleet> all{{1, 0, 0}};
  for (const std::size_t routers : {1U, 4U}) {
    for (const double report_s : {0.01, 0.1, 1.0, 5.0}) {
      all.push_back({routers, report_s, 0});
      if (report_s >= 0.1) all.push_back({routers, report_s, 1});
    }
  }
  return all;
}

/// A controller as a policy and, where the policy leaves that open, a placement.
struct controller {
  sim::policy policy;
  std::string placement;
};

/// Those that know what a router knows. The order within an instance is the policy's: `fcfs` for each placement.
std::vector<controller> controllers() {
  std::vector<controller> all;
  for (const sim::named_placement& p : sim::placements()) {
    if (p.name != "pascal") all.push_back({published("fcfs"), p.name});  // that one with its migration, below
  }
  for (const char* name : {"pascal", "llumnix", "cascade", "distserve", "splitwise", "phasor", "due-first"}) {
    sim::policy p = published(name);
    // One with a placement of its own sees all instances at any moment: no router does.
    if (p.placement.empty() || p.knows_routers) all.push_back({std::move(p), ""});
  }
  return all;
}

struct sample {
  double mean = 0, p99 = 0, e2e = 0;
};

estimate mean_of(const std::vector<sample>& runs, double sample::*which) {
  std::vector<double> values;
  for (const sample& s : runs) values.push_back(s.*which);
  return sim::estimate_mean(values);
}

void run(const options& o) {
  results out{o};
  struct job {
    controller by;
    view_of_fleet sees;
  };
  std::vector<job> jobs;
  for (const controller& c : controllers()) {
    for (const view_of_fleet& v : views()) jobs.push_back({c, v});
  }
  const std::size_t requests = o.quick ? 200 : 1500;
  std::vector<std::vector<sample>> samples(jobs.size(), std::vector<sample>(o.seeds));
  sim::run_parallel(jobs.size() * o.seeds, o.threads, [&](std::size_t k) {
    const std::size_t seed = k / jobs.size();
    const job& j = jobs[k % jobs.size()];
    const rows_type rows = sim::generate(sim::find_workload(workload_name), requests, rate, seed + 1);
    cluster_options c = pascal_setting::cluster_for(rows, instances);
    c.seed = seed + 1;
    c.warmup_s = 0.2 * (rows.back().arrival_s - rows.front().arrival_s);
    if (!j.by.placement.empty()) c.placement = sim::find_placement(j.by.placement);
    if (j.sees.report_s > 0) {
      c.routed = sim::routing{.routers = j.sees.routers, .report_s = j.sees.report_s, .action_s = j.sees.action_s};
    }
    const sim::summary s = j.by.policy.run(c, rows, [](std::size_t) {}).numbers;
    samples[k % jobs.size()][seed] = {s.ttft.mean, s.ttft.p99, s.e2e.mean};
  });
  std::vector<row> rows;
  for (std::size_t i = 0; i != jobs.size(); ++i) {
    const job& j = jobs[i];
    rows.push_back({j.by.placement.empty() ? j.by.policy.name : j.by.placement, j.sees.routers, j.sees.report_s,
                    j.sees.action_s, mean_of(samples[i], &sample::mean), mean_of(samples[i], &sample::p99),
                    mean_of(samples[i], &sample::e2e)});
  }
  out.table("ages", {"controller", "routers", "report_s", "action_s", "ttft_s±", "ttft_p99_s±", "e2e_s±"}, rows);
  out.finish();
}

[[maybe_unused]] const bool added =
    reproduce::add({"report_age", "what a fleet's controllers lose by old reports and late actions", run});

}  // namespace
