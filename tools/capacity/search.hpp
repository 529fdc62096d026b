// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../replay/runs.hpp"
#include "../tool.hpp"

#include <tessera/sim/cluster/cluster_options.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/planning/capacity.hpp>
#include <tessera/sim/policies/policy.hpp>
#include <tessera/sim/report/plots.hpp>
#include <tessera/sim/report/progress.hpp>
#include <tessera/sim/setup/cluster_setup.hpp>
#include <tessera/sim/setup/setting.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// The questions of `capacity`, and the runs that answer them for one policy.

namespace capacity {

namespace sim = tessera::sim;

/// The policies that a service would choose among: no oracles, and none that needs a predictor of lengths.
inline constexpr std::string_view usual_policies =
    "fcfs,rr,pascal,pascal-paced,sarathi,llumnix,cascade-steady,due-first,distserve,splitwise,phasor";

struct arguments {
  sim::setting setting;
  std::string policies{usual_policies};
  std::string find = "instances";
  std::int64_t instances_max = 64;
  std::optional<std::int64_t> instances;
  std::optional<double> price;
  std::optional<double> price_per_gpu;
  std::int64_t seeds = 1;
  std::optional<std::int64_t> jobs;
  std::string json;
  std::string csv;
  std::string plot;
  std::string plot_format = "svg";
  std::string report;
};

/// Divisions of a policy with pools that are tried with the whole workload.
inline constexpr std::size_t divisions_tried = 2;
inline constexpr std::int64_t most_asked = 4096;
inline constexpr std::int64_t most_seeds = 100;
inline constexpr std::int64_t most_jobs = 1024;

/// The factor on the rate at which no row is left between the warm-up and the drain. Above 1 if one is left without a
/// factor.
inline double most_hurried(const sim::setting& a, const std::vector<sim::trace_row>& rows) {
  double most = 0;
  for (const sim::trace_row& r : rows) {
    const auto until = [](double seconds, double left_out) {
      return left_out > 0 ? seconds / left_out : std::numeric_limits<double>::infinity();
    };
    most = std::max(most, std::min(until(r.arrival_s - rows.front().arrival_s, a.warmup),
                                   until(rows.back().arrival_s - r.arrival_s, a.drain)));
  }
  return std::max(1.0, most * (1 - 1e-6));  // excludes rounding
}

/// The runs in progress, for a line now and then.
class watch {
 public:
  watch(const std::vector<sim::policy>& policies, std::mutex& one_at_a_time)
      : policies_{policies}, one_at_a_time_{one_at_a_time}, bar_{"capacity", static_cast<double>(policies.size())} {}

  /// A run of policy `p` begins. @return its number.
  std::size_t begin(std::size_t p, std::size_t instances, std::size_t requests) {
    const std::lock_guard<std::mutex> one{one_at_a_time_};
    instances_.push_back(instances);
    const std::size_t run = pace_.add(p, static_cast<double>(requests));
    pace_.begin(run, bar_.seconds());
    return run;
  }
  /// `done` of its requests have ended.
  void update(std::size_t run, std::size_t done) {
    const std::lock_guard<std::mutex> one{one_at_a_time_};
    pace_.update(run, static_cast<double>(done));
    show();
  }
  /// The run has ended.
  void end(std::size_t run) {
    const std::lock_guard<std::mutex> one{one_at_a_time_};
    pace_.end(run, bar_.seconds());
  }
  /// `policies` policies are done. The caller holds the lock.
  void finished(std::size_t policies) {
    done_ = policies;
    show();
  }
  /// The caller holds the lock.
  void clear() noexcept { bar_.clear(); }

 private:
  void show() {
    const double now = bar_.seconds();
    bar_.update(static_cast<double>(done_), now, [&] {
      sim::progress_bar::words w;
      const auto slow = pace_.slowest(now);
      if (!slow) return w;
      w.note = fmt::format("{} with {} instance{} {:.0f} %", policies_[slow->kind].name, instances_[slow->run],
                           instances_[slow->run] == 1 ? "" : "s", 100 * slow->part);
      if (std::isnan(slow->left_s)) return w;
      w.note += fmt::format(", {} left", sim::describe_seconds(slow->left_s));
      // As long as the others took, and no less than the present run.
      if (done_ != 0) {
        const auto done = static_cast<double>(done_);
        w.left_s = std::max(slow->left_s, now / done * (static_cast<double>(policies_.size()) - done));
      }
      return w;
    });
  }

  const std::vector<sim::policy>& policies_;
  std::mutex& one_at_a_time_;
  sim::progress_bar bar_;
  sim::run_pace pace_;
  std::vector<std::size_t> instances_;  // by run
  std::size_t done_ = 0;
};

/// The runs of one policy, of any size and load.
class laboratory {
 public:
  /// @param rows by seed.
  laboratory(const arguments& a, const std::vector<sim::policy>& policies, std::size_t policy,
             const std::vector<std::vector<sim::trace_row>>& rows, const sim::profile& profile,
             const std::vector<sim::slo_bound>& slo, tool::signal_guard& signals, watch& watched)
      : arguments_{a},
        number_{policy},
        policy_{policies[policy]},
        rows_{rows},
        profile_{profile},
        slo_{slo},
        signals_{signals},
        watched_{watched},
        trial_{replay::trial_of(rows.front())} {}

  /// The workload on `instances` instances, at `factor` times its rate: the run of the worst seed. It meets the
  /// objectives if the runs of all seeds do.
  [[nodiscard]] sim::capacity_trial run(std::size_t instances, double factor) const {
    sim::capacity_trial worst = run_first(instances, factor);
    for (std::size_t s = 1; s != rows_.size() && worst.meets(); ++s) {
      const std::vector<sim::trace_row> hurried = sim::hurried(rows_[s], factor);
      sim::cluster_options options = sized(instances, hurried, seed() + s);
      options.pools = worst.pools;
      sim::capacity_trial t{instances, factor, worst.pools, simulate(options, hurried)};
      if (!t.meets() || sim::strain(t.numbers.slo) > sim::strain(worst.numbers.slo)) worst = std::move(t);
    }
    return worst;
  }

 private:
  /// The run of the first seed; for a policy with pools, on the best division found.
  [[nodiscard]] sim::capacity_trial run_first(std::size_t instances, double factor) const {
    const std::vector<sim::trace_row> hurried = sim::hurried(rows_.front(), factor);
    sim::cluster_options options = sized(instances, hurried, seed());
    if (policy_.pools == 0) return {instances, factor, std::nullopt, simulate(options, hurried)};
    sim::cluster_options small = options;
    small.warmup_s = small.drain_s = 0;
    small.faults.clear();
    const std::vector<sim::trace_row> beginning = sim::hurried(trial_, factor);
    const auto likely =
        sim::likely_divisions(instances, policy_.pools == 3, divisions_tried, [&](const sim::pool_sizes& sizes) {
          small.pools = sizes;
          return simulate(small, beginning);
        });
    std::optional<sim::capacity_trial> best;
    for (const sim::pool_sizes& sizes : likely) {
      options.pools = sizes;
      sim::capacity_trial t{instances, factor, sizes, simulate(options, hurried)};
      if (!best || t.meets() || sim::strain(t.numbers.slo) < sim::strain(best->numbers.slo)) best = std::move(t);
      if (best->meets()) break;
    }
    return *best;
  }

  [[nodiscard]] sim::cluster_options sized(std::size_t instances, const std::vector<sim::trace_row>& rows,
                                           std::uint64_t seed) const {
    const sim::machines kind{instances, profile_};
    return sim::size_cluster(arguments_.setting, {&kind, 1}, rows, seed);
  }

  [[nodiscard]] std::uint64_t seed() const noexcept { return static_cast<std::uint64_t>(arguments_.setting.seed); }

  [[nodiscard]] sim::summary simulate(const sim::cluster_options& options,
                                      const std::vector<sim::trace_row>& rows) const {
    const std::size_t run = watched_.begin(number_, options.instances, rows.size());
    std::size_t told = 0;
    sim::run_result r = policy_.run(options, rows, [&](std::size_t done) {
      signals_.check();
      if (done - told < 256) return;  // now and then: other runs draw as well
      watched_.update(run, told = done);
    });
    watched_.end(run);
    replay::evaluate(r, slo_, options.faults);
    return std::move(r.numbers);
  }

  const arguments& arguments_;
  std::size_t number_;
  const sim::policy& policy_;
  const std::vector<std::vector<sim::trace_row>>& rows_;
  const sim::profile& profile_;
  const std::vector<sim::slo_bound>& slo_;
  tool::signal_guard& signals_;
  watch& watched_;
  std::vector<sim::trace_row> trial_;
};

}  // namespace capacity
