// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pars.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/placement/round_robin.hpp>
#include <tessera/sim/policies/policies.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

/// @file
/// Policies that are there to be compared with: published ones with one rule left out, and memory without end.

namespace reproduce {

/// Turns the scores of `rows` into ranks from 0 to 1: the fraction of smaller scores plus half the fraction of equal
/// ones. A row without a score keeps none. O(n log n).
inline void rank_scores(std::span<tessera::sim::trace_row> rows) {
  std::vector<float> sorted;
  for (const auto& r : rows) {
    if (r.score == r.score) sorted.push_back(r.score);
  }
  std::sort(sorted.begin(), sorted.end());
  for (auto& r : rows) {
    if (r.score != r.score) continue;
    const auto [from, to] = std::equal_range(sorted.begin(), sorted.end(), r.score);
    r.score =
        static_cast<float>((from - sorted.begin()) + (to - sorted.begin())) / static_cast<float>(2 * sorted.size());
  }
}

/// The arrival of a request, plus the rank of its score as waiting time, of 600 s at most.
struct arrival_and_rank {
  template <class R>
  float operator()(const R& r) const noexcept {
    return static_cast<float>(r.state().arrived.seconds() + 600.0 * static_cast<double>(r.score));
  }
};

/// PARS with smooth ageing instead of a threshold: the rank of a score counts as waiting time, and no more.
inline tessera::sim::policy pars_smooth() {
  namespace sim = tessera::sim;
  sim::policy p = sim::make_policy<tessera::pars<sim::request, arrival_and_rank, sim::kv_store>>(
      "pars-smooth", "lowest score first, but no request is overtaken by one that comes 600 s later (needs scores)",
      {.threshold = tessera::duration::forever()});
  p.run = [by_score = std::move(p.run)](const sim::cluster_options& options, std::span<const sim::trace_row> rows,
                                        const sim::progress_callback& progress) {
    std::vector<sim::trace_row> ranked{rows.begin(), rows.end()};
    rank_scores(ranked);
    return by_score(options, ranked, progress);
  };
  return sim::needing_scores(std::move(p));
}

/// First come, first served with all the KV memory that `rows` can ever take. With respect to memory no scheduler can
/// do better, so it bounds those that preempt for memory.
inline tessera::sim::policy oracle() {
  namespace sim = tessera::sim;
  return {"oracle", "first come, first served with unlimited KV memory (an oracle)",
          [cached = sim::make_policy<tessera::fcfs<sim::request, sim::kv_store>>("oracle", "", {.watermark = 0}),
           plain = sim::make_policy<tessera::fcfs<sim::request>>("oracle", "", {.watermark = 0})](
              const sim::cluster_options& options, std::span<const sim::trace_row> rows,
              const sim::progress_callback& progress) {
            sim::cluster_options unlimited = options;
            const tessera::tokens block_size = options.instance.limits.block_size;
            std::int64_t longest = 0;
            std::int64_t all = 0;
            for (const sim::trace_row& row : rows) {
              const std::int64_t n =
                  tessera::blocks_for(tessera::tokens{row.prompt_tokens + row.output_tokens}, block_size).count();
              longest = std::max(longest, n);
              all += n;
            }
            // The running requests at their longest, or everything at once. No blocks are kept free.
            const auto enlarge = [&](tessera::scheduler_limits& limits) {
              const std::int64_t needed = std::min(all, longest * static_cast<std::int64_t>(limits.residents));
              limits.blocks = std::max(limits.blocks, static_cast<std::size_t>(needed));
            };
            enlarge(unlimited.instance.limits);
            for (sim::instance_options& one : unlimited.each) enlarge(one.limits);
            // A cache keeps a hundred bytes per block: with that number of blocks, only where requests share prefixes.
            const bool shares = options.prefix_cache && sim::turns{rows, block_size.count(), true}.shares();
            return (shares ? cached : plain).run(unlimited, rows, progress);
          }};
}

/// All variants.
inline std::vector<tessera::sim::policy> variants() {
  namespace sim = tessera::sim;
  namespace placement = tessera::placement;
  const sim::engine_maker pascal = sim::engines_of<tessera::pascal<sim::request, sim::kv_store>>();
  return {sim::make_placed_policy<placement::pascal_arrival, placement::pascal_migrate_always>(
              "pascal-nonadaptive", "PASCAL, but answers always go where Algorithm 2 says", pascal),
          sim::make_placed_policy<placement::pascal_arrival>("pascal-nomigration",
                                                             "PASCAL, but answers stay where they reasoned", pascal),
          oracle(),
          sim::pars_policy("pars-unboosted", "as pars, without boosts (needs scores)", tessera::duration::forever()),
          pars_smooth(),
          sim::make_placed_policy<placement::round_robin>(
              "in-turn", "first come, first served; new requests to the instances in turn", sim::fcfs_engines())};
}

}  // namespace reproduce
