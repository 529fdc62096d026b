// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/compose/due_first.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/headroom/space.hpp>
#include <tessera/kv/evict_by_time.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/phi.hpp>
#include <tessera/rank/expected_rest.hpp>
#include <tessera/rank/length_calibrator.hpp>
#include <tessera/rank/length_distribution.hpp>
#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/cluster/compare_views.hpp>
#include <tessera/sim/cluster/turns.hpp>
#include <tessera/sim/policies/cascade_plan.hpp>
#include <tessera/sim/policies/disaggregated.hpp>
#include <tessera/sim/policies/due_first_config.hpp>
#include <tessera/sim/policies/policy.hpp>
#include <tessera/sim/policies/pool_plan.hpp>
#include <tessera/sim/policies/usual_think.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

/// @file
/// What the four papers' systems give when they are put together: `tessera::due_first` on every instance, predicted
/// lengths, a bound on what prompts add to a step, placement by headroom, and stages where they are expected to pay.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The expected length that is in the member `score` of a simulated request.
struct scored_length {
  /// 0 if there is none.
  [[nodiscard]] tokens operator()(const request& r) const noexcept {
    return r.score > 0 ? tokens{static_cast<std::int64_t>(std::min(r.score, 1e9F))} : tokens{};
  }
};

/// New requests to the instance with the most headroom: the smaller of Phi_T, of the prompts of requests that have no
/// token yet, and Phi_S, of its memory when all its requests have their expected length. Both may be negative. One
/// whose prompt is cached somewhere, in part, goes where the product is least of what there would then be to compute
/// and of how many requests there would be: LMetric's, with the prompts in line, and counting the request itself, lest
/// an idle instance be worth any prefix. Requests that begin to answer stay, unless memory is tight. O(instances) a
/// request, and O(instances log blocks) where prefixes are shared.
class by_headroom {
 public:
  /// @param model what prompts cost, and the time to first token that is aimed at.
  explicit by_headroom(const prefill_model& model) : model_{model} {}

  /// Called once, before the first event.
  template <class C>
  void starts(C& c) {
    taken_.assign(c.requests().size(), {});
    totals_.assign(c.size(), {});
    views_.reserve(c.size());
  }
  /// The instance that a request which has just arrived goes to.
  template <class C>
  [[nodiscard]] std::size_t place(C& c, const request& r) {
    if (!r.prefix_hashes().empty()) c.look_at_prefixes(r);
    const auto& instances = c.candidates(r);
    const bool cached =
        !r.prefix_hashes().empty() && std::any_of(instances.begin(), instances.end(),
                                                  [](const instance_view& v) { return v.cached_tokens > tokens{}; });
    const auto own = [&](const instance_view& v) {
      const double saved = cached ? model_.cost.flops(v.cached_tokens) : 0;
      return model_.cost.flops(r.prompt) - saved;
    };
    views_.clear();
    for (const instance_view& v : instances) {
      if (cached) {
        views_.push_back({v.requests, -(totals_[v.id].flops + own(v)) * static_cast<double>(v.requests + 1)});
        continue;
      }
      // Where more was generated than expected, all in all, it is what is held.
      const blocks used = max(totals_[v.id].memory, v.kv_held);
      views_.push_back({v.requests, std::min(1 - totals_[v.id].flops / model_.budget.flops(),
                                             headroom::space_freeness(used, {}, v.capacity))});
    }
    const instance_view& chosen = instances[most_free_(views_)];
    const std::size_t to = chosen.id;
    if (c.asks(r) && cached) {
      c.because("the least to compute there times how many would be there; some of its prompt is cached",
                sim::compare_views(instances, false, true));
    } else if (c.asks(r)) {
      comparison seen{.columns = {"requests", "Phi_T", "Phi_S"}};
      for (const instance_view& v : instances) {
        seen.rows.push_back({v.id,
                             {},
                             {static_cast<double>(v.requests), 1 - totals_[v.id].flops / model_.budget.flops(),
                              headroom::space_freeness(max(totals_[v.id].memory, v.kv_held), {}, v.capacity)}});
      }
      c.because(fmt::format("the most headroom, the smaller of Phi_T and Phi_S; {} tokens are expected of it",
                            scored_length{}(r).count()),
                std::move(seen));
    }
    const tokens block_size = c.options().instance.limits.block_size;
    taken_[r.index] = {to, {blocks_for(r.prompt + scored_length{}(r), block_size), own(chosen)}};
    totals_[to] += taken_[r.index].what;
    return to;
  }
  /// `r` has its first token.
  template <class C>
  void prefilled(C&, const request& r) {
    taken& t = taken_[r.index];
    totals_[t.at].flops -= t.what.flops;
    t.what.flops = 0;
  }
  /// A request begins to answer: it may move.
  template <class C>
  void answers(C& c, request& r) {
    prefilled(c, r);  // which is not said of one that has moved
    migration_.answers(c, r);
  }
  /// `r` has arrived with its KV.
  template <class C>
  void moved(C&, const request& r) {
    taken& t = taken_[r.index];
    totals_[t.at] -= t.what;
    t.at = r.where;
    totals_[t.at] += t.what;
  }
  /// `r` was refused.
  template <class C>
  void rejected(C& c, const request& r) {
    finished(c, r);
  }
  /// The instance of `r` has died.
  template <class C>
  void lost(C& c, const request& r) {
    finished(c, r);
  }
  /// `r` has ended.
  template <class C>
  void finished(C&, const request& r) {
    totals_[taken_[r.index].at] -= taken_[r.index].what;
  }

 private:
  /// What requests take of an instance.
  struct demand {
    blocks memory{};   // when they have their expected length
    double flops = 0;  // until they have their first token
    void operator+=(const demand& d) noexcept { memory += d.memory, flops += d.flops; }
    void operator-=(const demand& d) noexcept { memory -= d.memory, flops -= d.flops; }
  };
  struct taken {
    std::size_t at = 0;
    demand what{};
  };
  struct view {
    std::size_t requests = 0;
    double phi = 0;
  };

  prefill_model model_;
  placement::highest_phi most_free_{};
  placed<placement::least_load, placement::migrate_when_tight> migration_{{}, {.headroom = quantum_blocks}};
  std::vector<taken> taken_;    // by request
  std::vector<demand> totals_;  // by instance
  std::vector<view> views_;
};

/// The scores of `rows` as expected output lengths, learned from the scores and lengths of a `history`, with a step for
/// every 64 scores. Rows without a score expect the mean; without a history nobody expects anything.
inline void expect_lengths(std::vector<trace_row>& rows, std::span<const trace_row> history, bool predicts) {
  if (history.empty()) {
    for (trace_row& r : rows) r.score = 0;
    return;
  }
  const auto scores =
      std::count_if(history.begin(), history.end(), [](const trace_row& r) { return r.score == r.score; });
  const auto steps = static_cast<std::size_t>(scores) / 64;
  const rank::length_calibrator::limits limits{.window = history.size(),
                                               .groups = std::clamp<std::size_t>(steps, 1, 32)};
  auto memory = storage_for<rank::length_calibrator>(limits);
  rank::length_calibrator calibrator{memory};
  constexpr float none = std::numeric_limits<float>::quiet_NaN();
  for (const trace_row& r : history) calibrator.observe(predicts ? r.score : none, tokens{r.output_tokens});
  calibrator.fit();
  for (trace_row& r : rows) r.score = static_cast<float>(calibrator(predicts ? r.score : none).count());
}

/// How long outputs are that have the same expected length: what is expected of a request anew when it has reasoned for
/// a while.
class learned_lengths {
 public:
  /// Learns from requests that have ended. @param ended with expected lengths for scores, see `expect_lengths`.
  explicit learned_lengths(std::span<const trace_row> ended)
      : memory_{
            storage_for<rank::length_distribution>({.window = std::max<std::size_t>(ended.size(), 1), .groups = 32})} {
    for (const trace_row& r : ended) lengths_.observe(r.score, tokens{r.output_tokens});
    lengths_.fit();
  }
  /// An `order::output_predictor` for requests whose scores are expected lengths. This object must outlive it.
  [[nodiscard]] rank::expected_length<> expected() const noexcept { return {&lengths_}; }

 private:
  owned_storage<rank::length_distribution::limits> memory_;
  rank::length_distribution lengths_{memory_};
};

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

/// Rows of a history that a first trial of pools runs.
inline constexpr std::size_t first_trial = 1000;
/// Rows of the trial that has to confirm it.
inline constexpr std::size_t last_trial = 8000;
/// Most instances for which pools are tried.
inline constexpr std::size_t most_in_trials = 64;

/// Simulates a workload under `due-first`. What it knows of the traffic, lengths and rate, is that of `history`:
/// earlier requests of the same kind, or, for want of any, the rows themselves.
[[nodiscard]] TESSERA_DETAIL_POLICIES_INLINE run_result run_due_first(const cluster_options& options,
                                                                      std::span<const trace_row> rows,
                                                                      std::span<const trace_row> history,
                                                                      const due_first_config& config,
                                                                      const progress_callback& progress);

#if TESSERA_DETAIL_POLICIES_DEFINED
TESSERA_DETAIL_POLICIES_INLINE run_result run_due_first(const cluster_options& options, std::span<const trace_row> rows,
                                                        std::span<const trace_row> history,
                                                        const due_first_config& config,
                                                        const progress_callback& progress) {
  // What a turn leaves behind is kept until the next one usually comes.
  using store = kv::basic_prefix_cache<kv::keep_until<>>;
  using scheduler = tessera::due_first<request, rank::expected_length<>, order::pacer_member, store>;
  std::vector<trace_row> expecting{rows.begin(), rows.end()};
  expect_lengths(expecting, history, config.predicts);
  std::vector<trace_row> earlier{history.begin(), history.end()};
  expect_lengths(earlier, history, config.predicts);
  const learned_lengths lengths{earlier};
  const typename scheduler::config ordered{
      .pace = duration{config.pace}, .revised = config.revised, .expected = lengths.expected()};
  // Whoever shares prefixes goes where they are: neither the plan of stages nor pools know of them.
  const bool shares = options.prefix_cache && turns{rows, options.instance.limits.block_size.count(), true}.shares();
  if (config.stages && !shares && options.instances > 1 && options.instances <= most_in_stages && !history.empty()) {
    const cascade_plan plan = plan_cascade(options, history, arrival_rate(history), layout::steady);
    if (options.watcher != nullptr) {
      options.watcher->note(never,
                            fmt::format("stages by length are expected to gain {:.3g} times: {} than {:g}", plan.gain,
                                        plan.gain >= config.least_gain ? "not less" : "less", config.least_gain));
    }
    if (plan.gain >= config.least_gain) {
      // Steps are not bounded: who is read for long is not where prompts are, and prompts get all that they need.
      run_result result =
          cluster<scheduler, cascade>{options, ordered, cascade{steady_cascade(plan)}}.run(expecting, progress);
      result.numbers.placement = "stages";
      return result;
    }
  }
  const prefill_model model = calibrate_prefill(options.instance.timer, default_ttft_target);
  cluster_options o = config.bounded_steps ? bounded_steps(options, model, config.step_s) : options;
  if (shares) o.kept_s = usual_think_s(history);
  if (config.pools && !shares && o.instances > 1 && o.instances <= most_in_trials && !history.empty()) {
    using apart = disaggregated<phasor_control>;
    const auto split = [&](const pool_sizes& p) {
      return apart{p, phasor_control{{.model = model, .changes_roles = false}}};
    };
    // Nobody knows what will go wrong, and all that is tried is measured.
    cluster_options tried = o;
    tried.faults.clear();
    tried.watcher = nullptr;
    tried.warmup_s = tried.drain_s = 0;
    const auto trial = [&](std::size_t n, auto control) {
      n = std::min(n, earlier.size());
      return cluster<scheduler, decltype(control)>{tried, ordered, std::move(control)}
          .run(std::span{earlier}.first(n), [&progress](std::size_t) { progress(0); })  // it hears of signals
          .numbers.e2e.mean;
    };
    const pool_sizes sizes = best_split(o.instances, [&](const pool_sizes& p) { return trial(first_trial, split(p)); });
    // A short trial does not see a queue that grows slowly; a long one of what has lost the short one is not worth it.
    const auto gains = [&](std::size_t n) {
      return trial(n, by_headroom{model}) >= config.least_pool_gain * trial(n, split(sizes));
    };
    const bool apart_pays = gains(first_trial) && gains(last_trial);
    if (o.watcher != nullptr) {
      o.watcher->note(never, fmt::format("prompts and decodes apart ({}/{}) {} in trials on its history", sizes.prefill,
                                         sizes.decode, apart_pays ? "paid" : "did not pay"));
    }
    if (apart_pays) {
      run_result result = cluster<scheduler, apart>{o, ordered, split(sizes)}.run(expecting, progress);
      result.numbers.placement = "pools";
      return result;
    }
  }
  if (config.by_headroom) {
    run_result result = cluster<scheduler, by_headroom>{o, ordered, by_headroom{model}}.run(expecting, progress);
    result.numbers.placement = "headroom";
    return result;
  }
  using placing = placed<placement::least_load, placement::migrate_when_tight>;
  run_result result =
      cluster<scheduler, placing>{o, ordered, {{}, {.headroom = quantum_blocks}}}.run(expecting, progress);
  result.numbers.placement = placement_name<placement::least_load>;
  return result;
}
#endif

}  // namespace sim
TESSERA_NAMESPACE_END
