// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tails of latency under bursts, and the KV of requests that wait.
#include "phasor_runs.hpp"

#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/systems/disaggregated.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reproduce::phasor_runs {

namespace {

constexpr std::array<std::string_view, 8> tail_systems{
    "Splitwise 3/3/2", "DistServe 4/4", "DistServe, planned", "DistServe, best split",
    "colocated",       "Phasor 3/3/2",  "Phasor, best pools", "Phasor 3/3/2, queues counted"};
enum : std::size_t {
  splitwise_332,
  distserve_44,
  distserve_planned,
  distserve_best,
  colocated,
  phasor_332,
  phasor_best,
  phasor_queues
};

/// All systems on one kind of task at some rates.
struct tails {
  const archetype* kind = nullptr;
  std::vector<double> rates;
  sim::pool_sizes planned{};                                                     ///< DistServe's, for the promises.
  std::vector<std::array<sim::pool_sizes, 2>> best;                              ///< [rate]: DistServe's, Phasor's.
  std::vector<std::array<std::vector<sim::summary>, tail_systems.size()>> runs;  ///< [rate][system][seed]

  [[nodiscard]] static double p99(const sim::summary& x) { return x.e2e.p99; }
  /// The mean over the seeds of one's P99 / another's - 1, in per cent: both have the same requests.
  [[nodiscard]] estimate change(std::size_t rate, std::size_t ours, std::size_t theirs) const {
    std::vector<double> values;
    for (std::size_t i = 0; i != runs[rate][ours].size(); ++i)
      values.push_back(100 * (p99(runs[rate][ours][i]) / p99(runs[rate][theirs][i]) - 1));
    return sim::estimate_mean(values);
  }
};

tails run_tails(const options& o, const archetype& a, const std::vector<double>& rates, bool waits_at_source) {
  tails t{.kind = &a, .rates = rates, .planned = plan_distserve(o, a), .best = {}, .runs = {}};
  for (const double rate : rates) {
    t.best.push_back({best_for_tails(o, a, rate, false, waits_at_source, [](auto& sizes) { return distserve(sizes); }),
                      best_for_tails(o, a, rate, true, waits_at_source, phasor_of)});
    const std::vector<contestant> all{
        splitwise(),      distserve(),          distserve(t.planned),        distserve(t.best.back()[0]),
        named("sarathi"), phasor("Phasor", {}), phasor_of(t.best.back()[1]), phasor_with_queues()};
    const auto found = run_all(o, all.size(), [&](std::size_t i, std::uint64_t seed) {
      const auto rows = steady(a, rate, requests_at(o, rate), seed);
      cluster_options c = cluster_of(testbed(), rows.size());
      c.kv_waits_at_source = waits_at_source;
      return all[i].run(c, a, rows).numbers;
    });
    t.runs.emplace_back();
    for (std::size_t i = 0; i != all.size(); ++i) t.runs.back()[i] = found[i];
  }
  return t;
}

void add_tails(std::vector<row>& rows, const char* kv_waits_at, const tails& t) {
  for (std::size_t r = 0; r != t.rates.size(); ++r) {
    const auto of = [&](std::size_t system, auto&& get) { return mean_of(t.runs[r][system], get).mean; };
    for (std::size_t s = 0; s != tail_systems.size(); ++s) {
      std::vector<sim::load_verdict> load;
      for (const sim::summary& x : t.runs[r][s]) load.push_back(x.load);
      const std::string pools = s == distserve_planned ? phasor_setting::show(t.planned)
                                : s == distserve_best  ? phasor_setting::show(t.best[r][0])
                                : s == phasor_best     ? phasor_setting::show(t.best[r][1])
                                                       : "";
      rows.push_back(
          joined<cell>({kv_waits_at, t.kind->name, t.rates[r], tail_systems[s], pools,
                        of(s, [](auto& x) { return x.ttft.p99; }), 1e3 * of(s, [](auto& x) { return x.tpot.p99; }),
                        of(s, tails::p99), s == phasor_332 ? cell{} : cell{t.change(r, phasor_332, s)},
                        s == phasor_best ? cell{} : cell{t.change(r, phasor_best, s)}},
                       load_cells(load)));
    }
  }
}

}  // namespace

void latency(results& out, const options& o) {
  std::vector<row> rows;
  std::vector<tails> all;
  for (const archetype& a : sim::archetypes()) {
    // Where each kind of task goes from carried to not.
    const std::vector<double> rates = o.quick           ? std::vector<double>{20}
                                      : a.name == "mix" ? std::vector<double>{10, 20, 30, 40, 60}
                                      : a.name == "S-S" ? std::vector<double>{20, 40, 60}
                                                        : std::vector<double>{5, 10, 20};
    all.push_back(run_tails(o, a, rates, false));
    add_tails(rows, "nowhere", all.back());
  }
  // The headline.
  const tails& mix = *std::find_if(all.begin(), all.end(), [](const tails& t) { return t.kind->name == "mix"; });
  const auto high = [&](std::size_t ours, std::size_t theirs) {
    std::vector<double> values;
    for (std::size_t r = 0; r != mix.rates.size(); ++r) {
      if (mix.rates[r] < 40 && !o.quick) continue;
      for (std::size_t i = 0; i != o.seeds; ++i)
        values.push_back(100 * (tails::p99(mix.runs[r][ours][i]) / tails::p99(mix.runs[r][theirs][i]) - 1));
    }
    return sim::estimate_mean(values);
  };
  const auto against = [&](const char* name, cell paper, std::size_t theirs) {
    return row{name, std::move(paper), high(phasor_332, theirs), high(phasor_best, theirs),
               high(phasor_queues, theirs)};
  };
  out.table("headline", {"baseline", "paper_pct", "phasor_332_pct±", "phasor_best_pools_pct±", "queues_counted_pct±"},
            {against("Splitwise", -38.9, splitwise_332), against("DistServe, 4/4", -25.7, distserve_44),
             against("DistServe, planned", {}, distserve_planned), against("DistServe, best split", {}, distserve_best),
             against("colocated", {}, colocated)});
  // So far a sequence holds no memory while its KV waits for a decode worker, which the paper leaves open. In DistServe
  // it holds the prefill worker's.
  const auto some = [&](std::initializer_list<double> of) {
    return o.quick ? std::vector<double>{20} : std::vector<double>{of};
  };
  add_tails(rows, "source", run_tails(o, find("mix"), some({20, 30, 40}), true));
  add_tails(rows, "source", run_tails(o, find("S-L"), some({5, 10}), true));
  out.table("tails",
            joined<std::string>({"kv_waits_at", "kind", "rate_per_s", "system", "pools", "ttft_p99_s", "tpot_p99_ms",
                                 "e2e_p99_s", "phasor_332_to_it_pct±", "phasor_best_to_it_pct±"},
                                load_columns),
            rows);
}

}  // namespace reproduce::phasor_runs
