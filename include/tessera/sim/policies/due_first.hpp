// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/compose/due_first.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/kv/csr_tables.hpp>
#include <tessera/kv/evict_by_time.hpp>
#include <tessera/rank/expected_rest.hpp>
#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/cluster/turns.hpp>
#include <tessera/sim/policies/by_headroom.hpp>
#include <tessera/sim/policies/cascade_plan.hpp>
#include <tessera/sim/policies/disaggregated.hpp>
#include <tessera/sim/policies/due_first_config.hpp>
#include <tessera/sim/policies/instance_layout.hpp>
#include <tessera/sim/policies/layout_trials.hpp>
#include <tessera/sim/policies/learned_lengths.hpp>
#include <tessera/sim/policies/policy.hpp>
#include <tessera/sim/policies/pool_plan.hpp>
#include <tessera/sim/policies/replanning.hpp>
#include <tessera/sim/policies/usual_think.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <utility>

/// @file
/// What the four papers' systems give when they are put together: `tessera::due_first` on every instance, predicted
/// lengths, a bound on what prompts add to a step, placement by headroom, and stages where they are expected to pay.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The same cluster with so many prompt tokens in a step, beside one for each resident, as a decode step of one
/// sequence leaves time for in `seconds`. With a full batch, or far into a long prompt, a step takes longer: this
/// bounds what prompts add. At least one block's worth, lest a slow device compute none.
[[nodiscard]] inline cluster_options bounded_steps(cluster_options o, const prefill_model& model, double seconds) {
  step_shape decode;
  decode.add_decode(tokens{1});
  const double left = seconds - o.instance.timer(decode);
  o.instance.prefill_budget = max(model.cost.within(model.budget.peak_flops * left), o.instance.limits.block_size);
  for (instance_options& one : o.each) {
    const prefill_model own = calibrate_prefill(one.timer, model.budget.ttft);
    one.prefill_budget =
        max(own.cost.within(own.budget.peak_flops * (seconds - one.timer(decode))), one.limits.block_size);
  }
  return o;
}
/// The same with the prefill model and the bound that `due-first` has by default.
[[nodiscard]] inline cluster_options bounded_steps(const cluster_options& o) {
  return bounded_steps(o, calibrate_prefill(o.instance.timer, default_ttft_target), due_first_config{}.step_s);
}

/// Rows of the trial that has to confirm it.
inline constexpr std::size_t last_trial = 8000;
/// So many times as fast other sizes of the pools that there are have to be, for whoever changes over is late.
inline constexpr double least_size_gain = 1.1;
/// A trial of pools lasts at least so many times as long as a request takes.
inline constexpr double trial_lengths = 3;
/// Most instances for which pools are tried.
inline constexpr std::size_t most_in_trials = 64;

/// Simulates a workload under `due-first`. It knows nothing of the traffic beforehand but what `history` says: earlier
/// requests of the same kind, if there are any. What it learns, and which layout it gives the instances, it finds from
/// what it observes (`replanning`), and says so to `cluster_options::watcher`; `summary::placement` has the layouts, in
/// order.
[[nodiscard]] TESSERA_DETAIL_POLICIES_INLINE run_result run_due_first(const cluster_options& options,
                                                                      std::span<const trace_row> rows,
                                                                      std::span<const trace_row> history,
                                                                      const due_first_config& config,
                                                                      const progress_callback& progress);

#if TESSERA_DETAIL_POLICIES_DEFINED
namespace detail {

/// The layout that is expected to be best for the traffic that was seen: stages if the planner expects them to gain
/// enough, or pools, or `long_steps` (bounds by instance; may be empty) if trials on the last rows do, by the promises
/// that are kept and then by the mean end-to-end latency. The layout that there is need not gain as much.
template <class Scheduler>
[[nodiscard]] instance_layout best_layout(const cluster_options& o, const due_first_config& config,
                                          std::span<const tokens> long_steps, layout_trials<Scheduler>& trials,
                                          const seen_traffic& seen, const instance_layout& now) {
  const std::span<const trace_row> rows = seen.rows;
  instance_layout best;
  const auto less = [](bool enough) { return enough ? "not less" : "less"; };
  if (config.stages && o.instances > 1 && o.instances <= most_in_stages && !rows.empty()) {
    // A few large stages hold up better than the plan knows: no instance is alone with what has come to it. More, where
    // they carry more.
    const std::size_t least = std::max<std::size_t>(1, o.instances / 4);
    cascade_plan plan = plan_cascade(o, rows, seen.rate, layout::steady, least);
    if (least > 1 && plan.carried < 1) {
      cascade_plan finer = plan_cascade(o, rows, seen.rate, layout::steady);
      if (plan.carried < 0.95 * finer.carried) plan = std::move(finer);
    }
    const double wanted = now.kind == layout_kind::stages ? config.kept_gain : config.least_gain;
    best.why =
        fmt::format("at {:.3g} requests a second stages by length are expected to gain {:.3g} times, {} than {:g}",
                    seen.rate, plan.gain, less(plan.gain >= wanted), wanted);
    if (plan.gain >= wanted) {
      best.kind = layout_kind::stages;
      best.stages = steady_cascade(plan);
      best.why += ":";
      for (const partition::stage& s : plan.stages) {
        best.why += fmt::format(" {} from {} tokens on", s.instances, s.from.count());
        best.why += &s == &plan.stages.back() ? "" : ",";
      }
      return best;
    }
  }
  if (!config.pools || o.instances < 2 || o.instances > most_in_trials) return best;
  if (!best.why.empty()) best.why += "; ";
  const auto last = [&](std::size_t n) { return rows.last(std::min(n, rows.size())); };
  const std::span<const trace_row> recent = last(first_trial);
  // A trial that is not much longer than a request takes is about an empty cluster that fills.
  const double seconds = recent.size() < first_trial / 2 ? 0 : recent.back().arrival_s - recent.front().arrival_s;
  trial_outcome together{.e2e_s = never};
  if (seconds > 0 && !seen.held) {
    trials.as_they_came(recent);
    together = trials.together();
  }
  const bool as_they_came = seconds >= trial_lengths * together.e2e_s;
  if (!as_they_came) {
    // Who is held to so many needs no arrivals to be known, but lengths, and not of the short alone.
    if (!seen.held || seen.ended < seen.here) {
      best.why += "too little is known for trials";
      return best;
    }
    trials.as_many_as(seen.here, first_trial / 2, rows);
    together = trials.together();
  }
  const bool are_apart = now.kind == layout_kind::pools;
  const auto split = best_split(o.instances, are_apart ? now.pools.prefill : o.instances / 2,
                                [&](const pool_sizes& p) { return trials.apart(p); });
  pool_sizes sizes = split.sizes;
  trial_outcome apart = split.cost;
  if (are_apart && sizes.prefill != now.pools.prefill) {
    const trial_outcome present = trials.apart(now.pools);
    if (!present.worth(apart, least_size_gain)) {
      sizes = now.pools;
      apart = present;
    }
  }
  trial_outcome longer{.broken = 1, .e2e_s = never};
  if (!long_steps.empty()) longer = trials.together(long_steps);
  bool try_longer = false;
  const auto pays = [&] {
    // For longer steps nobody has to move.
    try_longer = !long_steps.empty() && (are_apart ? apart.worth(longer, config.least_pool_gain)
                                                   : !longer.worth(apart, config.least_pool_gain));
    const bool is_there = try_longer ? !now.bounds.empty() && !are_apart : are_apart;
    return together.worth(try_longer ? longer : apart, is_there ? 1 : config.least_pool_gain);
  };
  // A short trial does not see a queue that grows slowly, nor who is late once in a while; a long one of what has lost
  // the short one is not worth it.
  bool paid = pays();
  if (paid && (!as_they_came || rows.size() > first_trial)) {
    if (as_they_came) {
      trials.as_they_came(last(last_trial));
    } else {
      trials.as_many_as(seen.here, std::max(2 * first_trial, 2 * seen.here), rows);
    }
    together = trials.together();
    apart = trials.apart(sizes);
    if (!long_steps.empty()) longer = trials.together(long_steps);
    paid = pays();
  }
  best.why += try_longer ? "steps as long as the promised TPOT allows"
                         : fmt::format("prompts and decodes apart ({}/{})", sizes.prefill, sizes.decode);
  best.why += fmt::format(" {} in trials on the last requests", paid ? "paid" : "did not pay");
  if (promises(o.promised)) {
    best.why += fmt::format(", which broke {:.1f} % of the promises, together {:.1f} %",
                            100 * (try_longer ? longer : apart).broken, 100 * together.broken);
  }
  if (!paid) return best;
  best.bounds.assign(long_steps.begin(), long_steps.end());
  if (!try_longer) {
    best.kind = layout_kind::pools;
    best.pools = sizes;
  }
  return best;
}

}  // namespace detail

TESSERA_DETAIL_POLICIES_INLINE run_result run_due_first(const cluster_options& options, std::span<const trace_row> rows,
                                                        std::span<const trace_row> history,
                                                        const due_first_config& config,
                                                        const progress_callback& progress) {
  // What a turn leaves behind is kept until the next one usually comes.
  using store = kv::basic_prefix_cache<kv::keep_until<>>;
  using scheduler = tessera::due_first<request, rank::expected_length<>, order::pacer_member, store, kv::csr_tables,
                                       gate::fair_tenants>;
  learned_lengths lengths;
  // Among tenants who is due first has no say: whoever sends most would be due most.
  const typename scheduler::config ordered{.pace = duration{config.pace},
                                           .revised = config.revised,
                                           .expected = lengths.expected(),
                                           .gate = {.most_skipped = std::numeric_limits<std::size_t>::max()}};
  cluster_options own = options;
  due_first_config parts = config;
  if (options.prefix_cache && turns{rows, options.instance.limits.block_size.count(), true}.shares()) {
    own.kept_s = usual_think_s(history.empty() ? rows : history);
    // Whoever shares prefixes goes where they are: neither the plan of stages nor pools know of them.
    parts.stages = parts.pools = false;
  }
  // A promise of more than the default is no reason to let prompts weigh less against memory.
  const duration target = std::min(ttft_target(own.promised), default_ttft_target);
  const prefill_model model = calibrate_prefill(own.instance.timer, target);
  const cluster_options bounded = config.bounded_steps ? bounded_steps(own, model, config.step_s) : own;
  replanning::config r{.model = model, .by_headroom = config.by_headroom, .predicts = config.predicts};
  // Half of what is promised for a token, as `due_first_config::step_s` is half of a usual promise.
  const double long_s = own.promised.tpot_s / 2;
  std::vector<tokens> long_steps;
  const cluster_options longer = long_s > config.step_s ? bounded_steps(own, model, long_s) : own;
  for (std::size_t i = 0; i != own.instances; ++i) {
    r.bounds.push_back(bounded.of(i).prefill_budget);
    if (config.bounded_steps && long_s > config.step_s) long_steps.push_back(longer.of(i).prefill_budget);
  }
  layout_trials<scheduler> trials{bounded, model, ordered, progress};
  replanning control{std::move(r), lengths, history, [&](const seen_traffic& seen, const instance_layout& now) {
                       return detail::best_layout(own, parts, long_steps, trials, seen, now);
                     }};
  return cluster<scheduler, replanning>{own, ordered, std::move(control)}.run(rows, progress);
}
#endif

}  // namespace sim
TESSERA_NAMESPACE_END
