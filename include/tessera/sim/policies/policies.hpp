// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/pool_sizes.hpp>
#include <tessera/sim/policies/due_first_config.hpp>
#include <tessera/sim/policies/policy.hpp>
#include <tessera/sim/policies/usual_think.hpp>

#if TESSERA_DETAIL_POLICIES_DEFINED
#  include <tessera/admit/future_peak.hpp>
#  include <tessera/compose/fcfs.hpp>
#  include <tessera/compose/pars.hpp>
#  include <tessera/compose/pascal.hpp>
#  include <tessera/compose/pascal_paced.hpp>
#  include <tessera/compose/round_robin.hpp>
#  include <tessera/gate/fair_tenants.hpp>
#  include <tessera/gate/in_time.hpp>
#  include <tessera/gate/tenant_deficits.hpp>
#  include <tessera/kv/evict_by_time.hpp>
#  include <tessera/placement/migrate_when_tight.hpp>
#  include <tessera/preempt/least_lost.hpp>
#  include <tessera/rank/drawn_length.hpp>
#  include <tessera/rank/expected_rest.hpp>
#  include <tessera/sim/policies/cascade_plan.hpp>
#  include <tessera/sim/policies/disaggregated.hpp>
#  include <tessera/sim/policies/due_first.hpp>
#  include <tessera/sim/policies/llumnix.hpp>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// @file
/// The policies that come with the library, by name. Where they are compiled apart (see policy.hpp), this includes no
/// more than their declarations need.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Half of the workers prefill, half decode.
[[nodiscard]] constexpr pool_sizes halves(std::size_t instances) noexcept {
  return {.prefill = instances - instances / 2, .decode = instances / 2, .mixed = 0};
}
/// Three eighths prefill, three eighths decode (at least one each), and the rest is mixed, as in Phasor's evaluation.
/// Requires: two instances at least.
[[nodiscard]] constexpr pool_sizes three_pools(std::size_t instances) noexcept {
  TESSERA_ASSERT(instances >= 2, "one to prefill and one to decode");
  const std::size_t each = instances * 3 / 8 > 0 ? instances * 3 / 8 : 1;
  return {.prefill = each, .decode = each, .mixed = instances - 2 * each};
}

/// `tessera::due_first` with all that belongs to it, or with some of it. It knows nothing beforehand, and learns while
/// it runs; `run_due_first` takes a history. Without scores it runs too, and expects the mean of the lengths, or of
/// those in the same class of prompts.
[[nodiscard]] TESSERA_DETAIL_POLICIES_INLINE policy due_first_policy(std::string name,
                                                                     const due_first_config& config = {});

/// The scores of `rows` as ranks from 0 to 1: the part of the scores that are smaller, and half of those that are
/// equal. Who has none keeps none. O(n log n).
inline void rank_scores(std::span<trace_row> rows) {
  std::vector<float> sorted;
  for (const trace_row& r : rows) {
    if (r.score == r.score) sorted.push_back(r.score);
  }
  std::sort(sorted.begin(), sorted.end());
  for (trace_row& r : rows) {
    if (r.score != r.score) continue;
    const auto [from, to] = std::equal_range(sorted.begin(), sorted.end(), r.score);
    r.score =
        static_cast<float>((from - sorted.begin()) + (to - sorted.begin())) / static_cast<float>(2 * sorted.size());
  }
}

/// How much longer the request of the highest score may wait than that of the lowest, under `pars-smooth`.
inline constexpr duration longest_overtaking{600.0};

/// PARS: the lowest score first, but whoever has waited for `threshold` goes ahead.
[[nodiscard]] TESSERA_DETAIL_POLICIES_INLINE policy pars_policy(std::string name, std::string summary,
                                                                duration threshold);

/// First come, first served with all the KV memory that `rows` can ever take: what no scheduler can do better for
/// memory, and a bound for those that preempt for it.
[[nodiscard]] TESSERA_DETAIL_POLICIES_INLINE policy oracle_policy();

/// A policy with stall-free steps: prompts in chunks as small as a target TPOT asks for.
[[nodiscard]] TESSERA_DETAIL_POLICIES_INLINE policy with_bounded_steps(policy p);

/// What prompts may add to a step that is to take `target_s`, by four steps that `timer` is asked for.
[[nodiscard]] inline cost::prefill_in_time time_prefills(const step_timer& timer, double target_s) {
  constexpr std::int64_t decodes = 64;
  constexpr tokens context{4096};
  constexpr tokens prompt{2048};
  const auto seconds = [&](std::int64_t n, tokens length, tokens prefill) {
    step_shape step;
    for (std::int64_t i = 0; i != n; ++i) step.add_decode(length);
    if (prefill > tokens{}) step.add_prefill(tokens{}, prefill);
    return timer(step);
  };
  const double one = seconds(1, tokens{1}, {});
  const double many = seconds(decodes, tokens{1}, {});
  const double far = seconds(decodes, context, {});
  cost::prefill_in_time out{.target_s = target_s};
  out.per_decode_s = std::max(0.0, (many - one) / static_cast<double>(decodes - 1));
  out.per_context_s = std::max(0.0, (far - many) / static_cast<double>(decodes * (context.count() - 1)));
  out.step_s = std::max(0.0, one - out.per_decode_s);
  out.per_prefill_s = std::max(0.0, (seconds(1, tokens{1}, prompt) - one) / static_cast<double>(prompt.count()));
  return out;
}

/// The policies that come with the library.
[[nodiscard]] TESSERA_DETAIL_POLICIES_INLINE std::vector<policy> published_policies();

/// The orders of `tessera::order` by name, for policies that are composed by hand: each over the composition that the
/// published ones have in common, `preempt::swap` and `admit::watermark`, without migration, and with the placement
/// open. What an order must know, it has as the published policy of that order has it.
[[nodiscard]] TESSERA_DETAIL_POLICIES_INLINE std::vector<policy> composed_orders();

#if TESSERA_DETAIL_POLICIES_DEFINED
TESSERA_DETAIL_POLICIES_INLINE policy with_bounded_steps(policy p) {
  p.run = [unbounded = std::move(p.run)](const cluster_options& options, std::span<const trace_row> rows,
                                         const progress_callback& progress) {
    return unbounded(bounded_steps(options), rows, progress);
  };
  return p;
}

TESSERA_DETAIL_POLICIES_INLINE policy due_first_policy(std::string name, const due_first_config& config) {
  std::vector<policy_parameter> parameters;
  for (const due_first_parameter& x : due_first_parameters) {
    parameters.push_back({x.name, x.least, x.most, [config, at = x.at](std::string own_name, double value) {
                            due_first_config changed = config;
                            changed.*at = value;
                            return due_first_policy(std::move(own_name), changed);
                          }});
  }
  return {.name = name,
          .summary =
              "ours: readers first, then who is due first by predicted length; bounded steps, headroom, stages, pools",
          .run =
              [name, config](const cluster_options& options, std::span<const trace_row> rows,
                             const progress_callback& progress) {
                run_result result = run_due_first(options, rows, {}, config, progress);
                result.numbers.policy = name;
                return result;
              },
          .placement = "own",
          .formerly = "improved",
          .parameters = std::move(parameters)};
}

TESSERA_DETAIL_POLICIES_INLINE policy pars_policy(std::string name, std::string summary, duration threshold) {
  policy p =
      make_policy<pars<request, order::score_member, kv_store>>(std::move(name), summary, {.threshold = threshold});
  p.parameters.push_back({"threshold", 0, std::numeric_limits<double>::infinity(),
                          [summary = std::move(summary)](std::string own_name, double value) {
                            return pars_policy(std::move(own_name), summary, duration{value});
                          }});
  return needing_scores(std::move(p));
}

TESSERA_DETAIL_POLICIES_INLINE policy oracle_policy() {
  return {
      "oracle", "first come, first served with unlimited KV memory (an oracle)",
      [](const cluster_options& options, std::span<const trace_row> rows, const progress_callback& progress) {
        cluster_options unlimited = options;
        const tokens block_size = options.instance.limits.block_size;
        std::int64_t longest = 0;
        std::int64_t all = 0;
        for (const trace_row& row : rows) {
          const std::int64_t n = blocks_for(tokens{row.prompt_tokens + row.output_tokens}, block_size).count();
          longest = std::max(longest, n);
          all += n;
        }
        // Those that run at a time, all at their longest, or everything at once. Nothing is kept free besides.
        const auto enlarge = [&](scheduler_limits& limits) {
          const std::int64_t needed = std::min(all, longest * static_cast<std::int64_t>(limits.residents));
          limits.blocks = std::max(limits.blocks, static_cast<std::size_t>(needed));
        };
        enlarge(unlimited.instance.limits);
        for (instance_options& one : unlimited.each) enlarge(one.limits);
        // A cache remembers a hundred bytes of each block: of so many, only where it is of use.
        const bool shares = options.prefix_cache && turns{rows, block_size.count(), true}.shares();
        run_result result = shares ? cluster<fcfs<request, kv_store>>{unlimited, {.watermark = 0}}.run(rows, progress)
                                   : cluster<fcfs<request>>{unlimited, {.watermark = 0}}.run(rows, progress);
        result.numbers.policy = "oracle";
        result.numbers.placement = options.placement ? options.placement->name : placement_name<placement::least_load>;
        return result;
      }};
}

namespace detail {

/// TRAIL: what is left of each output by the lengths of all, those of its score where there are scores.
[[nodiscard]] TESSERA_DETAIL_POLICIES_INLINE policy trail_policy(std::string name, std::string summary) {
  return {name, std::move(summary),
          [name](const cluster_options& options, std::span<const trace_row> rows, const progress_callback& progress) {
            auto memory =
                storage_for<rank::length_distribution>({.window = std::max<std::size_t>(rows.size(), 1), .groups = 16});
            rank::length_distribution lengths{memory};
            for (const trace_row& r : rows) lengths.observe(r.score, tokens{r.output_tokens});
            lengths.fit();
            using by_rest = order::shortest_rest<rank::expected_rest<>>;
            using scheduler = iteration_scheduler<request, by_rest, preempt::swap, admit::watermark, kv_store>;
            const typename scheduler::config config{.order = {.rest_of = {.lengths = &lengths}}};
            return make_policy<scheduler>(name, "", config).run(options, rows, progress);
          }};
}

/// Least slack to what is promised, or else to a TTFT of 1 s and a TPOT of 0.1 s; a token of a prompt takes what it
/// does in one of 1024.
/// @tparam Gate `gate::in_time` refuses who could not have its first token in time, by what waits when it comes.
template <class Gate = gate::in_line>
[[nodiscard]] policy slack_policy(std::string name, std::string summary) {
  return {name, std::move(summary),
          [name](const cluster_options& options, std::span<const trace_row> rows, const progress_callback& progress) {
            const double token_s = prompt_token_seconds(options.instance.timer, tokens{1024});
            using scheduler = iteration_scheduler<request, order::least_slack<>, preempt::swap, admit::watermark,
                                                  kv_store, kv::csr_tables, Gate>;
            typename scheduler::config config{.order = {.prefill_per_token = duration{token_s}}};
            auto& promised = config.order.promise.promised;
            promised.ttft = ttft_target(options.promised);
            if (options.promised.tpot_s > 0) promised.tpot = duration{options.promised.tpot_s};
            cluster_options o = options;
            if constexpr (std::same_as<Gate, gate::in_time>) {
              config.gate.prefill_per_s = 1 / token_s;
              o.answer_within_s = ttft_target(options.promised).seconds();
            }
            return make_policy<scheduler>(name, "", config).run(o, rows, progress);
          }};
}

/// First come, first served, with memory kept for what the outputs of those who run will need, each of them drawn from
/// the lengths of this workload. A twentieth of the memory is left out.
[[nodiscard]] TESSERA_DETAIL_POLICIES_INLINE policy past_future_policy(std::string name, std::string summary) {
  return {
      name, std::move(summary),
      [name](const cluster_options& options, std::span<const trace_row> rows, const progress_callback& progress) {
        auto memory =
            storage_for<rank::length_distribution>({.window = std::max<std::size_t>(rows.size(), 1), .groups = 1});
        rank::length_distribution lengths{memory};
        constexpr float none = std::numeric_limits<float>::quiet_NaN();
        for (const trace_row& r : rows) lengths.observe(none, tokens{r.output_tokens});
        lengths.fit();
        using admit = tessera::admit::basic_future_peak<rank::drawn_length<>>;
        using scheduler = iteration_scheduler<request, order::fcfs, preempt::swap, admit, kv_store>;
        const typename scheduler::config config{.admit = {.headroom = 0.05, .expected_output = {.lengths = &lengths}}};
        return make_policy<scheduler>(name, "", config).run(options, rows, progress);
      }};
}

/// First come, first served, whose victims are those of the last few whose KV costs least to have back.
[[nodiscard]] TESSERA_DETAIL_POLICIES_INLINE policy least_lost_policy(std::string name, std::string summary) {
  return {name, std::move(summary),
          [name](const cluster_options& options, std::span<const trace_row> rows, const progress_callback& progress) {
            using scheduler =
                iteration_scheduler<request, order::fcfs, preempt::least_lost, admit::watermark, kv_store>;
            const cost::prefill_in_time steps = time_prefills(options.instance.timer, 0);
            typename scheduler::config config;
            config.preempt.seconds_per_block = options.instance.swap_seconds_per_block;
            config.preempt.seconds_per_token = steps.per_prefill_s;
            config.preempt.seconds_per_token_squared = 0;
            return make_policy<scheduler>(name, "", config).run(options, rows, progress);
          }};
}

/// First come, first served, with as much of prompts in each step as leaves those who decode in time.
[[nodiscard]] TESSERA_DETAIL_POLICIES_INLINE policy adaptive_steps_policy(std::string name, std::string summary) {
  policy p = make_policy<fcfs<request, kv_store>>(std::move(name), std::move(summary));
  p.run = [unbounded = std::move(p.run)](const cluster_options& options, std::span<const trace_row> rows,
                                         const progress_callback& progress) {
    cluster_options o = options;
    const auto adapt = [](instance_options& i) {
      i.prefill_in_time = time_prefills(i.timer, due_first_config{}.step_s);
      i.prefill_in_time->least = i.limits.block_size;
    };
    adapt(o.instance);
    for (instance_options& one : o.each) adapt(one);
    return unbounded(o, rows, progress);
  };
  return p;
}

/// Least attained service, of programs where there are sessions.
[[nodiscard]] TESSERA_DETAIL_POLICIES_INLINE policy attained_policy(std::string name, std::string summary) {
  return make_policy<
      iteration_scheduler<request, order::least_attained_service<>, preempt::swap, admit::watermark, kv_store>>(
      std::move(name), std::move(summary));
}

/// Earliest due, by lengths that are expected from the scores and lengths of this workload.
[[nodiscard]] TESSERA_DETAIL_POLICIES_INLINE policy due_policy(std::string name, std::string summary) {
  return {name, std::move(summary),
          [name](const cluster_options& options, std::span<const trace_row> rows, const progress_callback& progress) {
            std::vector<trace_row> expecting{rows.begin(), rows.end()};
            expect_lengths(expecting, rows, true);
            const learned_lengths lengths{expecting};
            using scheduler = tessera::due_first<request, rank::expected_length<>, order::pacer_member, kv_store>;
            return make_policy<scheduler>(name, "", {.expected = lengths.expected()}).run(options, expecting, progress);
          }};
}

/// First come, first served with a prefix cache that forgets in another order than that of use.
template <class Eviction>
[[nodiscard]] policy keeping_policy(std::string name, std::string summary) {
  policy p = make_policy<fcfs<request, kv::basic_prefix_cache<Eviction>>>(std::move(name), std::move(summary));
  p.run = [kept = p.run](const cluster_options& options, std::span<const trace_row> rows,
                         const progress_callback& progress) {
    cluster_options o = options;
    o.kept_s = usual_think_s(rows);
    return kept(o, rows, progress);
  };
  return p;
}

/// When a request came, and the place of its score on top, which is worth so much waiting.
struct arrival_and_rank {
  template <schedulable R>
  [[nodiscard]] float operator()(const R& r) const noexcept {
    return static_cast<float>(r.state().arrived.seconds() +
                              longest_overtaking.seconds() * static_cast<double>(r.score));
  }
};

/// PARS with smooth ageing instead of a threshold: the place of its score is worth so much waiting, and no more.
[[nodiscard]] TESSERA_DETAIL_POLICIES_INLINE policy smooth_pars_policy() {
  policy p = make_policy<pars<request, arrival_and_rank, kv_store>>(
      "pars-smooth", "lowest score first, but nobody is overtaken by who comes 600 s later (needs scores)",
      {.threshold = duration::forever()});
  p.run = [by_score = p.run](const cluster_options& options, std::span<const trace_row> rows,
                             const progress_callback& progress) {
    std::vector<trace_row> due{rows.begin(), rows.end()};
    rank_scores(due);
    return by_score(options, due, progress);
  };
  return needing_scores(std::move(p));
}

}  // namespace detail

TESSERA_DETAIL_POLICIES_INLINE std::vector<policy> published_policies() {
  return {
      make_policy<fcfs<request, kv_store>>("fcfs",
                                           "first come, first served; the newest is swapped out when blocks run out"),
      make_policy<round_robin<request, kv_store>>("rr", "round-robin with a quantum of 500 tokens, both phases alike"),
      make_policy<pascal<request, kv_store>, placement::pascal_arrival, placement::pascal_migrate_adaptively>(
          "pascal", "PASCAL: reasoning first, answers share the rest and move to where it is quiet", {}, {},
          {.headroom = quantum_blocks}),
      make_policy<pascal<request, kv_store>, placement::pascal_arrival, placement::pascal_migrate_always>(
          "pascal-nonadaptive", "PASCAL, but answers always go where Algorithm 2 says"),
      make_policy<pascal<request, kv_store>, placement::pascal_arrival>("pascal-nomigration",
                                                                        "PASCAL, but answers stay where they reasoned"),
      make_policy<pascal_paced<request, order::pacer_member, kv_store>, placement::least_load,
                  placement::migrate_when_tight>(
          "pascal-paced", "reasoning first, but answers get what their readers need, just in time", {}, {},
          {.headroom = quantum_blocks}),
      oracle_policy(),
      pars_policy("pars", "PARS: lowest score first; whoever has waited 120 s goes ahead (needs scores)",
                  duration{120}),
      needing_scores(make_policy<pars<request, order::score_member, kv_store>>(
          "pars-unboosted", "as pars, but nobody goes ahead (needs scores)", {.threshold = duration::forever()})),
      detail::smooth_pars_policy(),
      detail::trail_policy(
          "trail", "TRAIL: shortest expected rest first, expected anew as outputs grow, from this workload's lengths"),
      detail::slack_policy("slack",
                           "whoever must be served soonest for what is promised, or a TTFT of 1 s and a TPOT of 0.1 s"),
      detail::slack_policy<gate::in_time>(
          "slack-refusing", "as slack, but who could not have its first token in time is refused when it comes"),
      detail::attained_policy(
          "autellix", "Autellix: calls of the program, or session, that has been given least go first, in levels"),
      make_policy<pars<request, true_length, kv_store>>("sjf", "shortest job first by the true lengths (an oracle)",
                                                        {.threshold = duration::forever()}),
      with_bounded_steps(make_policy<fcfs<request, kv_store>>(
          "sarathi",
          "fcfs with stall-free steps: prompts in chunks as small as a target TPOT asks for, in Sarathi's manner")),
      detail::adaptive_steps_policy("sarathi-adaptive",
                                    "as sarathi, with what each step's own decodes leave of the target to prompts"),
      detail::past_future_policy("past-future",
                                 "fcfs that starts who fits at the worst moment to come, by lengths drawn from this "
                                 "workload's, as Past-Future scheduling"),
      detail::least_lost_policy("least-lost",
                                "fcfs whose victims are those of the last eight whose KV costs least to have back"),
      with_pools(make_control_policy<fcfs<request, kv_store>>(
                     "distserve", "half of the instances prefill, half decode, each the shortest queue",
                     [](const cluster_options& o, auto) {
                       return disaggregated{o.pools.value_or(halves(o.instances)), distserve{}};
                     },
                     2, {}, "shortest queue"),
                 2),
      with_pools(make_control_policy<fcfs<request, kv_store>>(
                     "splitwise", "prefill and decode pools by the shortest queue, and a mixed one that helps out",
                     [](const cluster_options& o, auto) {
                       return disaggregated{o.pools.value_or(three_pools(o.instances)), splitwise{}};
                     },
                     3, {}, "shortest queue"),
                 3),
      with_pools(
          make_control_policy<fcfs<request, kv_store>>(
              "phasor", "Phasor: prefill and decode pools by headroom, defragmented, workers change between them",
              [](const cluster_options& o, auto) {
                return disaggregated{
                    o.pools.value_or(three_pools(o.instances)),
                    phasor_control{{.model = calibrate_prefill(o.instance.timer, ttft_target(o.promised))}}};
              },
              3, {}, "Phi"),
          3),
      make_policy<iteration_scheduler<request, order::fcfs, preempt::swap, admit::watermark, kv_store, kv::csr_tables,
                                      gate::fair_tenants>>(
          "vtc", "VTC: of the tenants with requests that wait the one that has been given least starts next"),
      make_policy<iteration_scheduler<request, order::longest_prefix<>, preempt::swap, admit::watermark, kv_store,
                                      kv::csr_tables, gate::tenant_deficits>>(
          "dlpm",
          "DLPM: of the tenants with credit whoever has most of its prompt cached starts next; what is cached costs no "
          "credit"),
      detail::keeping_policy<kv::keep_until<>>("continuum",
                                               "fcfs that keeps the KV of a turn that calls a tool as long as nine of "
                                               "ten tools take, in Continuum's manner"),
      detail::keeping_policy<kv::next_use<>>(
          "kvflow",
          "fcfs that forgets first the KV whose session goes on last, as KVFlow, by the true times (an oracle)"),
      make_policy<fcfs<request, kv_store>, placement::round_robin>(
          "in-turn", "first come, first served; new requests to the instances in turn"),
      make_control_policy<fcfs<request, kv_store>>(
          "llumnix", "load-aware dispatch and live migration, in the manner of Llumnix",
          [](const cluster_options&, auto) { return llumnix{}; }, 1, {}, "freeness"),
      make_control_policy<fcfs<request, kv_store>>(
          "llumnix-published", "Llumnix: as llumnix, but of what waits only the first counts, as published",
          [](const cluster_options&, auto) { return llumnix{{.counts_queue = false}}; }, 1, {}, "freeness"),
      // Their stages are planned from the workload itself, as from a history of the same traffic.
      with_most(make_control_policy<fcfs<request, kv_store>>(
                    "cascade", "CascadeInfer: instances in stages by length, planned from this workload's lengths",
                    [](const cluster_options& o, std::span<const trace_row> rows) {
                      return cascade{published_cascade(plan_cascade(o, rows, arrival_rate(rows)))};
                    },
                    1, {}, "stages"),
                most_in_stages),
      with_most(make_control_policy<fcfs<request, kv_store>>(
                    "cascade-steady", "as cascade, with stages planned for a steady load, and dispatch by what waits",
                    [](const cluster_options& o, std::span<const trace_row> rows) {
                      return cascade{steady_cascade(plan_cascade(o, rows, arrival_rate(rows), layout::steady))};
                    },
                    1, {}, "stages"),
                most_in_stages),
      due_first_policy("due-first"),
  };
}

TESSERA_DETAIL_POLICIES_INLINE std::vector<policy> composed_orders() {
  return {
      make_policy<fcfs<request, kv_store>>("fcfs", "by arrival"),
      make_policy<round_robin<request, kv_store>>("round-robin", "in turn, after a quantum of 500 tokens"),
      make_policy<pascal<request, kv_store>>("two-phase", "reasoning before answers, each in turn"),
      make_policy<pascal_paced<request, order::pacer_member, kv_store>>(
          "paced", "answers about to run dry, then reasoning, then other answers"),
      detail::due_policy("earliest-due", "answers about to run dry, then who is due first by expected length"),
      needing_scores(make_policy<pars<request, order::score_member, kv_store>>("ranked", "lowest score (needs scores)",
                                                                               {.threshold = duration::forever()})),
      detail::trail_policy("shortest-rest", "shortest expected rest, by this workload's lengths"),
      detail::attained_policy("least-attained-service", "the session that has been given least"),
      detail::slack_policy("least-slack", "least slack to what is promised, or a TTFT of 1 s and a TPOT of 0.1 s"),
      make_policy<iteration_scheduler<request, order::longest_prefix<>, preempt::swap, admit::watermark, kv_store>>(
          "longest-prefix", "most of the prompt cached"),
  };
}
#endif

}  // namespace sim
TESSERA_NAMESPACE_END
