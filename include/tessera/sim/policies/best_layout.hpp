// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/policies/cascade_plan.hpp>
#include <tessera/sim/policies/due_first_config.hpp>
#include <tessera/sim/policies/instance_layout.hpp>
#include <tessera/sim/policies/layout_trials.hpp>
#include <tessera/sim/policies/pool_plan.hpp>
#include <tessera/sim/policies/replanning.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// @file
/// The planner of `due-first`: which layout is expected to be best for the traffic that was seen.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Rows of a trial that has to confirm another, or of one of stages.
inline constexpr std::size_t last_trial = 8000;
/// Requests that count in it, where as many are here at any time.
[[nodiscard]] constexpr std::size_t last_held_trial(std::size_t here) noexcept {
  return std::max(2 * first_trial, 2 * here);
}
/// So many times as fast other sizes of the pools that there are have to be, for whoever changes over is late.
inline constexpr double least_size_gain = 1.1;
/// A trial of pools lasts at least so many times as long as a request takes.
inline constexpr double trial_lengths = 3;
/// Most output tokens of a trial of stages that has more than `first_trial` rows: some seconds to simulate.
inline constexpr double most_tried_tokens = 3.2e7;
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

/// Stages, if the planner expects them to gain enough and a trial agrees; else together. Steady stages of many
/// instances each; of few, where a trial finds them faster; or published ones where these gain enough once more: they
/// carry more, but first tokens wait longer. Prompts are bounded in them by `usual_steps`, by instance, where a trial
/// says so; may be empty. With more instances than are tried, and where all came at once, the planner's word is taken.
template <class Scheduler>
[[nodiscard]] instance_layout staged_layout(const cluster_options& o, const due_first_config& config,
                                            std::span<const tokens> usual_steps, layout_trials<Scheduler>& trials,
                                            const seen_traffic& seen, const instance_layout& now) {
  const std::span<const trace_row> rows = seen.rows;
  instance_layout best;
  if (!config.stages || o.instances < 2 || o.instances > most_in_stages || rows.empty()) return best;
  double output = 0;
  for (const trace_row& r : rows) output += static_cast<double>(r.output_tokens);
  const double affordable = most_tried_tokens * static_cast<double>(rows.size()) / output;
  const std::size_t tried =
      affordable >= last_trial ? last_trial : std::max(first_trial, static_cast<std::size_t>(affordable));
  const std::span<const trace_row> recent = rows.last(std::min(tried, rows.size()));
  const bool come_apart = recent.back().arrival_s > recent.front().arrival_s;
  const bool is_tried = o.instances <= most_in_trials && (seen.held || come_apart);
  // A few large stages hold up better than the plan knows: no instance is alone with what has come to it. More, where
  // they carry more, or are faster in a trial.
  const std::size_t least = std::max<std::size_t>(1, o.instances / 4);
  cascade_plan plan = plan_cascade(o, rows, seen.rate, layout::steady, least);
  std::optional<cascade_plan> finer;
  if (least > 1 && (is_tried || plan.carried < 1)) {
    finer = plan_cascade(o, rows, seen.rate, layout::steady);
    if (plan.carried < 0.95 * finer->carried) plan = *finer;
  }
  const bool are_there = now.kind == layout_kind::stages;
  // How many small ones there are differs from plan to plan.
  const bool are_small = are_there && now.stages.backlog_weight == steady_cascade(plan).backlog_weight &&
                         std::any_of(now.stages.stages.begin(), now.stages.stages.end(),
                                     [&](const partition::stage& s) { return s.instances < least; });
  const double least_fine_gain = are_small ? 1 : config.least_fine_gain;
  const double gain = is_tried && finer ? std::max(plan.gain, finer->gain / least_fine_gain) : plan.gain;
  // Whether those that there are pay is what the trial says.
  const double wanted =
      is_tried ? (are_there ? 1 : config.least_tried_gain) : (are_there ? config.kept_gain : config.least_gain);
  bool pays = gain >= wanted;
  best.why = fmt::format("at {:.3g} requests a second stages by length are expected to gain {:.3g} times, {} than {:g}",
                         seen.rate, gain, pays ? "not less" : "less", wanted);
  if (!pays) return best;
  best.stages = steady_cascade(plan);
  bool are_bounded = are_there && !now.bounds.empty();
  if (is_tried) {
    if (seen.held) {
      if (seen.ended < seen.here) {
        best.why += ", and too little is known for a trial";
        return best;
      }
      trials.as_many_as(seen.here, last_held_trial(seen.here), rows);
    } else {
      trials.going_on(recent, tried);
    }
    const trial_outcome together = trials.together();
    trial_outcome staged = trials.staged(best.stages);
    const auto try_stages = [&](cascade::config stages, double wanted_gain) {
      const trial_outcome other = trials.staged(stages);
      if (!staged.worth(other, wanted_gain)) return;
      staged = other;
      best.stages = std::move(stages);
    };
    if (finer && finer->stages != plan.stages) try_stages(steady_cascade(*finer), least_fine_gain);
    instance_layout published{.kind = layout_kind::stages,
                              .stages = published_cascade(plan_cascade(o, rows, seen.rate)),
                              .bounds = now.bounds};
    const double least_full_gain = alike(published, now) ? 1 : config.least_full_gain;
    try_stages(std::move(published.stages), least_full_gain);
    if (!usual_steps.empty()) {
      const trial_outcome bounded = trials.staged(best.stages, usual_steps);
      are_bounded = staged.worth(bounded, are_bounded ? 1 : config.least_bounded_gain);
      if (are_bounded) staged = bounded;
    }
    pays = together.worth(staged, are_there ? 1 : config.least_stage_gain);
    best.why += fmt::format("; they took {:.3g} s a request in a trial, together {:.3g} s{}", staged.e2e_s,
                            together.e2e_s, broken_promises(o, staged, together));
  }
  if (!pays) return best;
  best.kind = layout_kind::stages;
  if (are_bounded) best.bounds.assign(usual_steps.begin(), usual_steps.end());
  best.why += ":";
  for (const partition::stage& s : best.stages.stages) {
    best.why += fmt::format(" {} from {} tokens on", s.instances, s.from.count());
    best.why += &s == &best.stages.stages.back() ? "" : ",";
  }
  if (!best.bounds.empty()) best.why += ", prompts bounded";
  return best;
}

/// Pools, or steps with such bounds, by instance (may be empty), if trials on the last rows say that they pay; else
/// together.
template <class Scheduler>
[[nodiscard]] instance_layout tried_layout(const cluster_options& o, const due_first_config& config,
                                           std::span<const tokens> long_steps, layout_trials<Scheduler>& trials,
                                           const seen_traffic& seen, const instance_layout& now) {
  const std::span<const trace_row> rows = seen.rows;
  instance_layout best;
  if (!config.pools || o.instances < 2 || o.instances > most_in_trials) return best;
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
      best.why = "too little is known for trials of pools";
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
    const bool is_there = try_longer ? now.kind == layout_kind::together && !now.bounds.empty() : are_apart;
    return together.worth(try_longer ? longer : apart, is_there ? 1 : config.least_pool_gain);
  };
  // A short trial does not see a queue that grows slowly, nor who is late once in a while; a long one of what has lost
  // the short one is not worth it.
  bool paid = pays();
  if (paid && (!as_they_came || rows.size() > first_trial)) {
    if (as_they_came) {
      trials.as_they_came(last(last_trial));
    } else {
      trials.as_many_as(seen.here, last_held_trial(seen.here), rows);
    }
    together = trials.together();
    apart = trials.apart(sizes);
    if (!long_steps.empty()) longer = trials.together(long_steps);
    paid = pays();
  }
  const trial_outcome& tried = try_longer ? longer : apart;
  best.why =
      fmt::format("{} {} in trials on the last requests ({:.3g} s a request, together {:.3g} s){}",
                  try_longer ? "steps as long as the promised TPOT allows"
                             : fmt::format("prompts and decodes apart ({}/{})", sizes.prefill, sizes.decode),
                  paid ? "paid" : "did not pay", tried.e2e_s, together.e2e_s, broken_promises(o, tried, together));
  if (!paid) return best;
  best.bounds.assign(long_steps.begin(), long_steps.end());
  if (!try_longer) {
    best.kind = layout_kind::pools;
    best.pools = sizes;
  }
  return best;
}

}  // namespace detail

/// The layout that is expected to be best: stages, with or without the bounds `usual_steps`, by instance, or pools, or
/// steps with the bounds `long_steps` instead, where trials say so, by the promises that are kept and then by the mean
/// end-to-end latency. The layout that there is need not gain as much. Either may be empty: it is not tried.
template <class Scheduler>
[[nodiscard]] instance_layout best_layout(const cluster_options& o, const due_first_config& config,
                                          std::span<const tokens> usual_steps, std::span<const tokens> long_steps,
                                          layout_trials<Scheduler>& trials, const seen_traffic& seen,
                                          const instance_layout& now) {
  instance_layout staged = detail::staged_layout(o, config, usual_steps, trials, seen, now);
  if (staged.kind == layout_kind::stages) return staged;
  instance_layout tried = detail::tried_layout(o, config, long_steps, trials, seen, now);
  if (!staged.why.empty()) tried.why = fmt::format("{}{}{}", staged.why, tried.why.empty() ? "" : "; ", tried.why);
  return tried;
}

}  // namespace sim
TESSERA_NAMESPACE_END
