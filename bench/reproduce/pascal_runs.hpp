// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What the parts of PASCAL's evaluation share: runs, and how they compare.

#include "pascal_setting.hpp"

#include <tessera/compose/pascal.hpp>
#include <tessera/compose/pascal_paced.hpp>
#include <tessera/sim/input/workload.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reproduce::pascal_runs {

using namespace reproduce::pascal_setting;
using tessera::blocks;
namespace placement = tessera::placement;
namespace order = tessera::order;
using sim::make_policy;
using sim::request;

// -- runs -----------------------------------------------------------------------------------------------------------

/// What is kept of a run.
struct sample {
  sim::summary numbers;
  bins_type tail;          ///< Tail TTFT per bin of reasoning length.
  double same_target = 0;  ///< Mean run of successive phase changes that go on at one instance.
};

inline double mean_run_of_targets(std::vector<sim::request_record> requests) {
  std::erase_if(requests, [](const auto& r) { return std::isnan(r.phase_change) || r.reasoning_tokens == 0; });
  std::sort(requests.begin(), requests.end(),
            [](const auto& a, const auto& b) { return a.phase_change < b.phase_change; });
  if (requests.empty()) return sim::never;
  std::size_t runs = 1;
  for (std::size_t i = 1; i < requests.size(); ++i) runs += requests[i].instance != requests[i - 1].instance ? 1U : 0U;
  return static_cast<double>(requests.size()) / static_cast<double>(runs);
}

inline sample keep(sim::run_result&& run) {
  sample s;
  s.tail = tails_of(run.numbers);
  s.same_target = mean_run_of_targets(std::move(run.requests));
  s.numbers = std::move(run.numbers);
  return s;
}

/// The runs of one policy at one load, one per seed.
using samples = std::vector<sample>;

template <class F>
estimate over(const samples& all, F&& f) {
  std::vector<double> values;
  for (const sample& s : all) values.push_back(static_cast<double>(f(s)));
  std::erase_if(values, [](double x) { return std::isnan(x); });
  return sim::estimate_mean(values);
}

/// How the tails of one policy compare with another's, over the bins. The halves are those of the 95 % intervals of the
/// differences in the two bins, seed by seed, in parts of the other's mean.
struct compared : comparison {
  double best_half = 0;
  double worst_half = 0;
};

inline compared compare(const samples& a, const samples& b) {
  const bins_type base = bins(b, &sample::tail);
  compared c{compare_tails(bins(a, &sample::tail), base)};
  const auto half_width = [&](std::int64_t bin) {
    std::vector<double> differences;
    for (std::size_t seed = 0; seed != a.size(); ++seed)
      differences.push_back((a[seed].tail.at(bin) - b[seed].tail.at(bin)) / base.at(bin));
    return sim::estimate_mean(differences).half_width;
  };
  c.best_half = half_width(c.best_bin);
  c.worst_half = half_width(c.worst_bin);
  return c;
}

inline std::vector<cell> load_cells(const samples& all) {
  std::vector<sim::load_verdict> runs;
  for (const sample& s : all) runs.push_back(s.numbers.load);
  return reproduce::load_cells(runs);
}

/// The rows of the comparisons: other ones than those that were looked at while the policies were made (seeds 1 to
/// 4).
inline constexpr std::uint64_t first_seed = 101;

/// The seed of what `due-first` has seen before.
inline constexpr std::uint64_t history_seed = 1001;
/// The part of the arrivals' time that is left out at its beginning, while the cluster fills, and as much at its end.
/// There requests see a cluster that empties.
inline constexpr double left_out = 0.125;

/// Runs every policy on `seeds` seeds of `workload` at `rate`.
inline std::vector<samples> run_all(const options& o, const std::vector<sim::policy>& policies, const sim::workload& w,
                                    double rate, std::size_t requests, std::size_t seeds) {
  std::vector<samples> all(policies.size(), samples(seeds));
  sim::run_parallel(policies.size() * seeds, o.threads, [&](std::size_t i) {
    const std::size_t p = i % policies.size();
    const std::size_t seed = i / policies.size();
    const rows_type rows = sim::generate(w, requests, rate, first_seed + seed);
    sim::cluster_options cluster = cluster_for(rows);
    cluster.warmup_s = cluster.drain_s = left_out * (rows.back().arrival_s - rows.front().arrival_s);
    all[p][seed] = keep(policies[p].run(cluster, rows, [](std::size_t) {}));
  });
  return all;
}

// -- what is shown --------------------------------------------------------------------------------------------------

inline estimate in_percent(const estimate& e) { return {.mean = 100 * e.mean, .half_width = 100 * e.half_width}; }

/// Loads, in parts of saturation. The paper's "high" may lie on either side of it.
inline const std::vector<double> all_levels{0.80, 0.93, 0.99, 1.05, 1.10};
inline const std::vector<double> about_saturation{0.99, 1.05};
inline constexpr double high = 0.99;
inline std::int64_t in_percent(double level) { return std::llround(100 * level); }

/// The policy of a name.
struct lookup {
  const std::vector<sim::policy>& policies;
  [[nodiscard]] std::size_t operator[](std::string_view name) const {
    for (std::size_t i = 0; i != policies.size(); ++i) {
      if (policies[i].name == name) return i;
    }
    throw sim::usage_error{fmt::format("no policy {}", name)};
  }
};

/// How much a workload is looked at.
struct effort {
  std::size_t requests;    ///< Requests of a run.
  std::size_t saturating;  ///< Requests of a run that looks for saturation.
  std::vector<double> levels;
  /// Runs per number: far below saturation they differ little.
  [[nodiscard]] static std::size_t seeds_at(double load, std::size_t seeds) {
    return load < 0.9 ? (seeds + 1) / 2 : seeds;
  }
};

// -- parts of the evaluation, each in a source of its own ------------------------------------------------------------

/// The policies of the main comparison: the library's, and round-robin in its other reading. What `due-first` knows
/// of the traffic is that of `history`.
std::vector<sim::policy> compared_policies(const rows_type& history);
/// PASCAL with one rule off at a time, and what it is compared with under other placements of new requests.
std::vector<sim::policy> ablations();
void show_section_three(results& out, const options& o);
/// The rows of section V's files.
struct evaluation {
  std::vector<row> loads, bins, always_migrating;
};
/// Adds a workload's. @return the rate at which FCFS saturates.
double evaluate(evaluation& e, const options& o, const sim::workload& w, const effort& f);
void show_rules(results& out, const options& o, const sim::workload& w, const effort& f, double saturation);

}  // namespace reproduce::pascal_runs
