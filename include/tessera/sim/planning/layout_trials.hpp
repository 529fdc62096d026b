// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/golden_section.hpp>
#include <tessera/sim/planning/step_bounds.hpp>
#include <tessera/sim/systems/by_headroom.hpp>
#include <tessera/sim/systems/cascade.hpp>
#include <tessera/sim/systems/disaggregated.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// @file
/// Simulates the effect of a cluster layout on the latest requests.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Promises are for the 99th percentile: they may be broken for this fraction of the requests.
inline constexpr double allowed = 0.01;
/// Up to this fraction in a trial counts as none, because a trial is short.
inline constexpr double forgiven = allowed / 5;
/// Up to this fraction in a trial, the promises will be kept.
inline constexpr double surely_kept = allowed / 2;
/// Up to this ratio of broken promises they are clearly fewer, if chance is excluded. The same test applies to kept
/// promises: where most are broken, a fraction of the broken ones is not a saving.
inline constexpr double clearly_fewer = 0.75;
/// Up to this ratio, any latency is accepted that does not grow.
inline constexpr double far_fewer = 0.25;
/// A layout falls behind if its mean latency exceeds this factor times the other's, while arrivals do not wait for
/// completions. If a TPOT is promised, the time before the first token must exceed it as well. Decoding may take as
/// long as that promise allows, and a broken one counts in `trial_outcome::broken`.
inline constexpr double much_slower = 1.25;
/// The result of a layout's trial.
struct trial_outcome {
  double broken = 0;   ///< Fraction of the requests with a broken promise; 0 up to `forgiven`.
  double e2e_s = 0;    ///< Mean end-to-end latency.
  double wait_s = 0;   ///< The part of it before the first token.
  double of = 0;       ///< Requests that count in `broken`.
  bool held = false;   ///< The number of present requests is constant.
  bool paced = false;  ///< A TPOT is promised.
  /// Whether it breaks clearly fewer promises, or keeps clearly more: also by two deviations of the difference of two
  /// counts.
  [[nodiscard]] bool keeps_more(const trial_outcome& other) const noexcept {
    const auto clearly = [](double few, double few_of, double many, double many_of) {
      return few < clearly_fewer * many && many * many_of - few * few_of > 2 * std::sqrt(many * many_of + few * few_of);
    };
    return clearly(broken, of, other.broken, other.of) || clearly(1 - other.broken, other.of, 1 - broken, of);
  }
  /// Whether it is the better of two choices without a cost of change: promises first, if they differ.
  [[nodiscard]] bool better_than(const trial_outcome& other) const noexcept {
    return keeps_more(other) || (!other.keeps_more(*this) && e2e_s < other.e2e_s);
  }
  /// Whether `other` is worth a change. It breaks clearly fewer promises and does not fall behind. Or it breaks not
  /// clearly more and is faster by `gain`. A constant number of requests cannot grow. There it falls behind if fewer
  /// requests per second end with kept promises, unless it breaks far fewer.
  [[nodiscard]] bool worth(const trial_outcome& other, double gain) const noexcept {
    if (!other.keeps_more(*this)) return !keeps_more(other) && e2e_s >= gain * other.e2e_s;
    if (!held) return other.e2e_s <= much_slower * e2e_s || (paced && other.wait_s <= much_slower * wait_s);
    return other.broken <= far_fewer * broken || (other.broken <= surely_kept && broken > surely_kept) ||
           other.e2e_s * (1 - broken) <= e2e_s * (1 - other.broken);
  }
};

/// The mean of two trials with equally likely requests.
[[nodiscard]] inline trial_outcome mean_of(const trial_outcome& a, const trial_outcome& b) noexcept {
  return {.broken = (a.broken + b.broken) / 2,
          .e2e_s = (a.e2e_s + b.e2e_s) / 2,
          .wait_s = (a.wait_s + b.wait_s) / 2,
          .of = a.of + b.of,
          .held = a.held,
          .paced = a.paced};
}

/// Rows in a first trial.
inline constexpr std::size_t first_trial = 1000;
/// Rows in a trial that confirms another, or in one of stages.
inline constexpr std::size_t last_trial = 8000;
/// Requests that count in it, if the number of present requests is constant.
[[nodiscard]] constexpr std::size_t last_held_trial(std::size_t here) noexcept {
  return std::max(2 * first_trial, 2 * here);
}
/// Most instances for which layouts are tried.
inline constexpr std::size_t most_in_trials = 64;

namespace detail {

/// The broken promises in trials of a layout, in words.
[[nodiscard]] inline std::string broken_promises(const cluster_options& o, const trial_outcome& tried,
                                                 const trial_outcome& colocated) {
  if (!promises(o.promised)) return {};
  return fmt::format(", which broke {:.1f} % of the promises, colocated {:.1f} %", 100 * tried.broken,
                     100 * colocated.broken);
}

}  // namespace detail

/// Simulates how layouts of a cluster serve `rows`.
class layout_trials {
 public:
  /// For a cluster with these instances, promises and engines. Together, new requests go by headroom, or else to the
  /// least load. `progress`, which receives signals while a trial runs, must outlive it.
  layout_trials(const cluster_options& o, const prefill_model& model, engine_maker engines,
                const progress_callback& progress, bool by_headroom = true)
      : options_{o}, model_{model}, engines_{std::move(engines)}, progress_{&progress}, by_headroom_{by_headroom} {
    // Future faults are unknown, and trials need no measurements that only reports use.
    options_.faults.clear();
    options_.routed.reset();
    options_.watcher = nullptr;
    options_.instance.times_scheduler = false;
    for (instance_options& one : options_.each) one.times_scheduler = false;
    options_.warmup_s = options_.drain_s = 0;
  }
  /// Sets the requests of later trials: these, as they came, or `faster` times as fast.
  void as_they_came(std::span<const trace_row> rows, double faster = 1) {
    rows_.assign(rows.begin(), rows.end());
    for (trace_row& r : rows_) r.arrival_s /= faster;
    first_counted_ = 0;
    options_.in_flight = 0;
  }
  /// Sets the requests of later trials: `n` that come as these did, repeated. The first half does not count. Otherwise,
  /// if the observed time is shorter than a request's latency, the trial is about an empty cluster that fills. Requires
  /// arrivals at two times.
  void going_on(std::span<const trace_row> rows, std::size_t n) {
    const double first = rows.front().arrival_s;
    const double span = rows.back().arrival_s - first;
    TESSERA_ASSERT(span > 0, "rows that come one after another");
    const double again = span + span / static_cast<double>(rows.size() - 1);
    rows_.clear();
    for (std::size_t i = 0; i != n; ++i) {
      rows_.push_back(rows[i % rows.size()]);
      rows_.back().arrival_s += static_cast<double>(i / rows.size()) * again - first;
    }
    first_counted_ = n / 2;
    options_.in_flight = 0;
  }
  /// Sets the requests of later trials: a constant number, `here`, with the last rows repeated. The first `here` are
  /// cut at different places, so that they do not all end at once. `counted` of the promises made after these are gone
  /// count.
  void as_many_as(std::size_t here, std::size_t counted, std::span<const trace_row> rows) {
    rows_.clear();
    // Before that a trial is about its beginning.
    first_counted_ = 2 * here + first_trial / 2;
    options_.in_flight = here;
    golden_section parts;
    for (std::size_t i = 0; i != first_counted_ + counted + here; ++i) {
      trace_row r = rows[rows.size() - 1 - i % rows.size()];
      r.arrival_s = 0;
      if (i < here) {
        const double part = parts.next();
        const auto left = std::max<std::int64_t>(1, std::llround(part * static_cast<double>(r.output_tokens)));
        // The rest of it, also of its reasoning.
        r.reasoning_tokens = std::max<std::int64_t>(0, r.reasoning_tokens - (r.output_tokens - left));
        r.output_tokens = left;
        r.answer_tokens = left - r.reasoning_tokens;
      }
      rows_.push_back(r);
    }
  }

  /// The outcome if all instances do everything, with these bounds on the prompts in a step, by instance; empty: the
  /// usual ones. Takes the time of a simulation.
  [[nodiscard]] trial_outcome colocated(std::span<const tokens> bounds = {}) {
    const cluster_options o = bounds.empty() ? options_ : bounded_steps(options_, bounds);
    return by_headroom_ ? run(o, by_headroom{model_}) : run(o, by_least_load());
  }
  /// The outcome with pools of constant sizes, without bounds. Likewise.
  [[nodiscard]] trial_outcome disaggregated(const pool_sizes& sizes) {
    return run(bounded_steps(options_, {}), sim::disaggregated{sizes, planned_pools(model_)});
  }
  /// The outcome with these stages and these bounds on the prompts in a step, by instance; empty: none. Likewise.
  [[nodiscard]] trial_outcome staged(const cascade::config& stages, std::span<const tokens> bounds = {}) {
    return run(bounded_steps(options_, bounds), cascade{stages});
  }

 private:
  template <class Control>
  [[nodiscard]] trial_outcome run(cluster_options o, Control control) {
    o.instance.limits.requests = std::max(o.instance.limits.requests, rows_.size());
    for (instance_options& one : o.each) one.limits.requests = std::max(one.limits.requests, rows_.size());
    const run_result r = cluster{o, engines_, std::make_unique<Control>(std::move(control))}.run(
        rows_, [this](std::size_t) { (*progress_)(0); });  // receives signals
    std::size_t broken = 0, all = 0, completed = 0;
    double e2e_s = 0, wait_s = 0;
    for (const request_record& x : r.requests) {
      // The end of a closed loop does not count either: fewer and fewer requests are present.
      if (x.id < first_counted_ || x.id + o.in_flight >= rows_.size()) continue;
      ++all;
      if (x.completed()) {
        ++completed;
        e2e_s += x.e2e();
        wait_s += x.first_token - x.arrival;
      }
      const bool late = o.promised.ttft_s > 0 && !(x.ttft() <= o.promised.ttft_s);
      const bool slow = o.promised.tpot_s > 0 && (!x.completed() || x.tpot() > o.promised.tpot_s);
      broken += late || slow ? 1U : 0U;
    }
    const double part = all == 0 ? 0 : static_cast<double>(broken) / static_cast<double>(all);
    return {.broken = part > forgiven ? part : 0,
            .e2e_s = e2e_s / static_cast<double>(completed),
            .wait_s = wait_s / static_cast<double>(completed),
            .of = static_cast<double>(all),
            .held = o.in_flight > 0,
            .paced = o.promised.tpot_s > 0};
  }

  std::vector<trace_row> rows_;
  std::size_t first_counted_ = 0;  ///< The first row that counts.
  cluster_options options_;
  prefill_model model_;
  engine_maker engines_;
  const progress_callback* progress_;
  bool by_headroom_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
