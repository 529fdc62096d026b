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
/// What a layout of a cluster would do for the requests that came last: it is simulated.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Promises are for the 99th percentile: to such a part of the requests one may be broken.
inline constexpr double allowed = 0.01;
/// To so few in a trial that they count as none, for a trial is short.
inline constexpr double forgiven = allowed / 5;
/// To no more in a trial, and the promises will be kept.
inline constexpr double surely_kept = allowed / 2;
/// So many times as many broken promises, or less, are clearly fewer, if it is not by chance; and promises that are
/// kept likewise, for where most are broken a part of them is nothing that could be saved.
inline constexpr double clearly_fewer = 0.75;
/// So many times as many, or less, are worth whatever time it takes, if that does not grow.
inline constexpr double far_fewer = 0.25;
/// A layout falls behind if its mean latency exceeds this factor times the other's, while arrivals do not wait for
/// completions. Where a TPOT is promised, the time before the first token must exceed it, too: decoding may take as
/// long as that promise allows, and a broken one counts in `trial_outcome::broken`.
inline constexpr double much_slower = 1.25;
/// What a trial of a layout says.
struct trial_outcome {
  double broken = 0;   ///< Part of the requests to which a promise was broken; 0 if it is no more than `forgiven`.
  double e2e_s = 0;    ///< Mean end-to-end latency.
  double wait_s = 0;   ///< Of it, before the first token.
  double of = 0;       ///< Requests that count in `broken`.
  bool held = false;   ///< There were as many at any time.
  bool paced = false;  ///< A TPOT is promised.
  /// Whether it breaks clearly fewer promises, or keeps clearly more: by two deviations of the difference of two
  /// counts, too.
  [[nodiscard]] bool keeps_more(const trial_outcome& other) const noexcept {
    const auto clearly = [](double few, double few_of, double many, double many_of) {
      return few < clearly_fewer * many && many * many_of - few * few_of > 2 * std::sqrt(many * many_of + few * few_of);
    };
    return clearly(broken, of, other.broken, other.of) || clearly(1 - other.broken, other.of, 1 - broken, of);
  }
  /// Whether it is the better of two that cost nothing to choose from: promises first, where they tell them apart.
  [[nodiscard]] bool better_than(const trial_outcome& other) const noexcept {
    return keeps_more(other) || (!other.keeps_more(*this) && e2e_s < other.e2e_s);
  }
  /// Whether `other` is worth a change: it breaks clearly fewer promises and does not fall behind, or breaks not
  /// clearly more and is faster by `gain`. As many at any time cannot become more: there it falls behind when fewer
  /// requests whose promises are kept end in a second, unless it breaks far fewer.
  [[nodiscard]] bool worth(const trial_outcome& other, double gain) const noexcept {
    if (!other.keeps_more(*this)) return !keeps_more(other) && e2e_s >= gain * other.e2e_s;
    if (!held) return other.e2e_s <= much_slower * e2e_s || (paced && other.wait_s <= much_slower * wait_s);
    return other.broken <= far_fewer * broken || (other.broken <= surely_kept && broken > surely_kept) ||
           other.e2e_s * (1 - broken) <= e2e_s * (1 - other.broken);
  }
};

/// Of two trials, whose requests are as likely to come.
[[nodiscard]] inline trial_outcome mean_of(const trial_outcome& a, const trial_outcome& b) noexcept {
  return {.broken = (a.broken + b.broken) / 2,
          .e2e_s = (a.e2e_s + b.e2e_s) / 2,
          .wait_s = (a.wait_s + b.wait_s) / 2,
          .of = a.of + b.of,
          .held = a.held,
          .paced = a.paced};
}

/// Rows that a first trial runs.
inline constexpr std::size_t first_trial = 1000;
/// Rows of a trial that has to confirm another, or of one of stages.
inline constexpr std::size_t last_trial = 8000;
/// Requests that count in it, where as many are here at any time.
[[nodiscard]] constexpr std::size_t last_held_trial(std::size_t here) noexcept {
  return std::max(2 * first_trial, 2 * here);
}
/// Most instances for which layouts are tried.
inline constexpr std::size_t most_in_trials = 64;

namespace detail {

/// What the trials say of the promises that a layout breaks.
[[nodiscard]] inline std::string broken_promises(const cluster_options& o, const trial_outcome& tried,
                                                 const trial_outcome& together) {
  if (!promises(o.promised)) return {};
  return fmt::format(", which broke {:.1f} % of the promises, together {:.1f} %", 100 * tried.broken,
                     100 * together.broken);
}

}  // namespace detail

/// How layouts of a cluster serve `rows`, by simulating them.
class layout_trials {
 public:
  /// Of a cluster with such instances and promises, with such engines. Together, new requests go by
  /// headroom, or else to the least load. `progress`, which hears of signals while a trial runs, must outlive it.
  layout_trials(const cluster_options& o, const prefill_model& model, engine_maker engines,
                const progress_callback& progress, bool by_headroom = true)
      : options_{o}, model_{model}, engines_{std::move(engines)}, progress_{&progress}, by_headroom_{by_headroom} {
    // Nobody knows what will go wrong, and all that is tried is measured, but for what only reports say.
    options_.faults.clear();
    options_.watcher = nullptr;
    options_.instance.times_scheduler = false;
    for (instance_options& one : options_.each) one.times_scheduler = false;
    options_.warmup_s = options_.drain_s = 0;
  }
  /// From now on these are tried, as they came, or so many times as fast.
  void as_they_came(std::span<const trace_row> rows, double faster = 1) {
    rows_.assign(rows.begin(), rows.end());
    for (trace_row& r : rows_) r.arrival_s /= faster;
    first_counted_ = 0;
    options_.in_flight = 0;
  }
  /// From now on `n` that come as these did, over and over. The first half does not count: what was seen may be shorter
  /// than a request takes, and the trial of it about an empty cluster that fills. Requires arrivals at two times.
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
  /// From now on as many at any time as are `here` now, the last rows over and over. The first so many are cut, each at
  /// another place, lest all end at once; of promises `counted` count that are made when these are gone.
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
        // What is left of it: of its reasoning, too.
        r.reasoning_tokens = std::max<std::int64_t>(0, r.reasoning_tokens - (r.output_tokens - left));
        r.output_tokens = left;
        r.answer_tokens = left - r.reasoning_tokens;
      }
      rows_.push_back(r);
    }
  }

  /// How they are served where all instances do everything, with such bounds on the prompts in a step, by instance;
  /// none: the usual ones. As long as it takes to simulate that.
  [[nodiscard]] trial_outcome together(std::span<const tokens> bounds = {}) {
    const cluster_options o = bounds.empty() ? options_ : bounded_steps(options_, bounds);
    return by_headroom_ ? run(o, by_headroom{model_}) : run(o, by_least_load());
  }
  /// How they are served by pools of such sizes, none of which changes, with no bounds. Likewise.
  [[nodiscard]] trial_outcome apart(const pool_sizes& sizes) {
    return run(bounded_steps(options_, {}), disaggregated{sizes, planned_pools(model_)});
  }
  /// How they are served by such stages, with such bounds on the prompts in a step, by instance; none: without.
  /// Likewise.
  [[nodiscard]] trial_outcome staged(const cascade::config& stages, std::span<const tokens> bounds = {}) {
    return run(bounded_steps(options_, bounds), cascade{stages});
  }

 private:
  template <class Control>
  [[nodiscard]] trial_outcome run(cluster_options o, Control control) {
    o.instance.limits.requests = std::max(o.instance.limits.requests, rows_.size());
    for (instance_options& one : o.each) one.limits.requests = std::max(one.limits.requests, rows_.size());
    const run_result r = cluster{o, engines_, std::make_unique<Control>(std::move(control))}.run(
        rows_, [this](std::size_t) { (*progress_)(0); });  // it hears of signals
    std::size_t broken = 0, all = 0, completed = 0;
    double e2e_s = 0, wait_s = 0;
    for (const request_record& x : r.requests) {
      // Nor is the end of a closed loop, when fewer and fewer are there, as it will be.
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
  std::size_t first_counted_ = 0;  ///< Row.
  cluster_options options_;
  prefill_model model_;
  engine_maker engines_;
  const progress_callback* progress_;
  bool by_headroom_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
