// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/planning/best_layout.hpp>
#include <tessera/sim/planning/due_first_config.hpp>
#include <tessera/sim/planning/layout_trials.hpp>
#include <tessera/sim/planning/pool_plan.hpp>
#include <tessera/sim/planning/staged_layout.hpp>
#include <tessera/sim/planning/steady_trial.hpp>
#include <tessera/sim/systems/instance_layout.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {
namespace detail {

/// Pools, if trials on the last rows show that they pay; else colocated. Pools are compared with instances that do
/// everything, with the bounds `steps`, by instance (empty: the usual ones).
instance_layout pooled_layout(const cluster_options& o, const due_first_config& config, std::span<const tokens> steps,
                              layout_trials& trials, const seen_traffic& seen, const instance_layout& now) {
  const std::span<const trace_row> rows = seen.rows;
  instance_layout best{.bounds = {steps.begin(), steps.end()}};
  if (!config.pools || o.instances < 2 || o.instances > most_in_trials) return best;
  const auto last = [&](std::size_t n) { return rows.last(std::min(n, rows.size())); };
  const std::span<const trace_row> recent = last(first_trial);
  // A trial that is not much longer than a request's latency is about an empty cluster that fills.
  const double seconds = recent.size() < first_trial / 2 ? 0 : recent.back().arrival_s - recent.front().arrival_s;
  trial_outcome colocated{.e2e_s = never};
  if (seconds > 0 && !seen.held) {
    trials.as_they_came(recent);
    colocated = trials.colocated(steps);
  }
  const bool as_they_came = seconds >= trial_lengths * colocated.e2e_s;
  if (!as_they_came) {
    // With a constant number of requests, arrivals need not be known, but lengths must be, and not only the short ones.
    if (!seen.held || seen.ended < seen.here) {
      best.why = "too little is known for trials of pools";
      best.tried = false;
      return best;
    }
    trials.as_many_as(seen.here, first_trial / 2, rows);
    colocated = trials.colocated(steps);
  }
  const bool are_disaggregated = now.kind == layout_kind::pools;
  std::optional<trial_outcome> first;  // of the present sizes, if there are any
  const auto try_sizes = [&](const pool_sizes& p) {
    const trial_outcome found = trials.disaggregated(p);
    if (!first) first = found;
    return found;
  };
  const auto split = best_split(o.instances, are_disaggregated ? now.pools.prefill : o.instances / 2, try_sizes,
                                [](const trial_outcome& a, const trial_outcome& b) { return a.better_than(b); });
  pool_sizes sizes = split.sizes;
  trial_outcome disaggregated = split.cost;
  if (are_disaggregated && sizes.prefill != now.pools.prefill && !first->worth(disaggregated, least_size_gain)) {
    sizes = now.pools;
    disaggregated = *first;
  }
  // The present pools need only not lose. But if a trial is about to say that they lose while the queue grows in them,
  // something misleads it.
  const double gain = !are_disaggregated ? config.least_pool_gain : seen.behind ? least_behind_gain : 1;
  bool paid = colocated.worth(disaggregated, gain);
  const auto compare = [&] {
    colocated = trials.colocated(steps);
    disaggregated = trials.disaggregated(sizes);
    paid = colocated.worth(disaggregated, gain);
  };
  // A short trial misses a queue that grows slowly, and requests that are late once in a while. If a candidate has lost
  // the short trial, a long one is not worth its time.
  if (paid && !as_they_came) {
    trials.as_many_as(seen.here, last_held_trial(seen.here), rows);
    compare();
  }
  if (paid && as_they_came && rows.size() > first_trial) {
    trials.as_they_came(last(last_trial));
    compare();
  }
  best.why = fmt::format(
      "prompts and decodes disaggregated ({}/{}) {} in trials on the last requests ({:.3g} s a request, "
      "colocated {:.3g} s){}",
      sizes.prefill, sizes.decode, paid ? "paid" : "did not pay", disaggregated.e2e_s, colocated.e2e_s,
      broken_promises(o, disaggregated, colocated));
  // A layout that is fixed for one rate has no margin for another.
  if (paid && as_they_came) {
    const trial_outcome calm_colocated = colocated, calm_disaggregated = disaggregated;
    const double faster = seen.rate > 0 ? std::clamp(seen.lately / seen.rate, busier, busiest) : busier;
    trials.as_they_came(last(last_trial), faster);
    compare();
    // A layout that keeps more promises at the observed rate need only keep as many at a higher one.
    paid = calm_disaggregated.keeps_more(calm_colocated)
               ? !colocated.keeps_more(disaggregated)
               : mean_of(calm_colocated, colocated).worth(mean_of(calm_disaggregated, disaggregated), gain);
    if (!paid) {
      best.why += fmt::format(", but not at {:.3g} times the rate ({:.3g} s and {:.3g} s)", faster, disaggregated.e2e_s,
                              colocated.e2e_s);
    }
  }
  if (!paid) return best;
  best.kind = layout_kind::pools;
  best.pools = sizes;
  return best;
}

}  // namespace detail
}  // namespace sim

namespace sim {

instance_layout best_layout(const cluster_options& o, const due_first_config& config,
                            std::span<const tokens> usual_steps, std::span<const std::vector<tokens>> longer_steps,
                            layout_trials& trials, const seen_traffic& seen, const instance_layout& now) {
  const bool has_stages = config.stages && o.instances > 1;
  const steady_trial trial =
      has_stages || !longer_steps.empty() ? detail::begin_steady_trial(o, trials, seen) : steady_trial::impossible;
  const detail::tried_steps steps = detail::try_steps(config, usual_steps, longer_steps, trials, trial, now);
  instance_layout staged = detail::staged_layout(o, config, usual_steps, trials, trial, steps.outcome, seen, now);
  if (staged.kind == layout_kind::stages) return staged;
  instance_layout tried = detail::pooled_layout(o, config, steps.bounds, trials, seen, now);
  std::vector<std::string> why;
  const auto say = [&why](std::string words) {
    if (!words.empty()) why.push_back(std::move(words));
  };
  say(std::move(staged.why));
  if (steps.outcome || !steps.bounds.empty()) {
    say(fmt::format("{} {}",
                    steps.bounds.empty()
                        ? "the usual steps"
                        : fmt::format("steps of at most {} prompt tokens", steps.bounds.front().count()),
                    steps.outcome ? fmt::format("took {:.3g} s a request in a trial", steps.outcome->e2e_s)
                                  : "stay, for too little is known for a trial"));
  }
  say(std::move(tried.why));
  if (why.empty()) say("no other layout can be tried");
  tried.why = fmt::format("{}", fmt::join(why, "; "));
  return tried;
}

}  // namespace sim
TESSERA_NAMESPACE_END
