// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Phasor's evaluation: figures 1, 2, 4 to 7 and 10, tables 2, 5 and 6.
#include "phasor_runs.hpp"

#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/systems/disaggregated.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace reproduce::phasor_runs {

namespace {

// Appendix B.2: what a prompt costs, from 64 simulated prefill times.
void calibration(results& out) {
  const sim::profile& v100 = testbed();
  const sim::prefill_model model =
      sim::calibrate_prefill(sim::step_timer{v100}, duration{0.4}, v100.gpu.flops * v100.gpu.flops_efficiency);
  out.table("calibration", {"alpha_flop_per_token2", "beta_flop_per_token", "r_squared", "prompt_of_1024_ms"},
            {{model.cost.alpha, model.cost.beta, model.r_squared,
              1e3 * model.cost.flops(tokens{1024}) / model.budget.peak_flops}});
}

// Figure 1: the production mix, 5 requests a second, 25 from 90 s to 120 s.
void starvation(results& out, const options& o) {
  const std::vector<contestant> all{distserve(), splitwise(), phasor("Phasor", {})};
  const auto runs = run_all(o, all.size(), [&](std::size_t i, std::uint64_t seed) {
    const auto rows = shock(find("mix"), seed);
    return all[i].run(cluster_of(testbed(), rows.size()), find("mix"), rows);
  });
  const auto ttft_in = [](const run_result& r, double from, double to) {
    std::vector<double> values;
    for (const sim::request_record& q : r.requests) {
      if (q.arrival >= from && q.arrival < to) values.push_back(q.ttft());
    }
    return sim::describe(values);
  };
  std::vector<row> rows;
  for (std::size_t i = 0; i != all.size(); ++i) {
    rows.push_back({all[i].name, mean_of(runs[i], [&](const run_result& r) { return ttft_in(r, 0, 90).mean; }),
                    mean_of(runs[i], [&](const run_result& r) { return ttft_in(r, 90, 120).mean; }),
                    mean_of(runs[i], [&](const run_result& r) { return ttft_in(r, 90, 120).p99; }),
                    mean_of(runs[i], [](const run_result& r) { return r.numbers.e2e.p99; })});
  }
  out.table("shock", {"system", "ttft_before_s±", "ttft_in_shock_s±", "ttft_p99_in_shock_s±", "e2e_p99_s±"}, rows);
}

// Figure 2: one prefill worker, prompts of 1,024 tokens in batches. Memory is free where compute is not.
void phantom(results& out) {
  const sim::profile& v100 = testbed();
  const sim::step_timer timer{v100};
  std::vector<row> rows;
  for (const std::int64_t batch : {1, 2, 4, 6, 8, 12, 16}) {
    sim::step_shape shape;
    for (std::int64_t i = 0; i != batch; ++i) shape.add_prefill(tokens{}, tokens{1024});
    const double seconds = timer(shape);
    const double flops = 2 * v100.model.parameters * 1024 * static_cast<double>(batch) +
                         v100.model.attention_flops_per_pair() * static_cast<double>(shape.prefill_pairs);
    const double memory =
        v100.model.weight_bytes() + v100.model.kv_bytes_per_token() * 1024 * static_cast<double>(batch);
    rows.push_back({batch, 1e6 * seconds / static_cast<double>(1024 * batch),
                    100 * flops / seconds / (v100.gpu.flops * v100.gpu.flops_efficiency),
                    100 * memory / v100.gpu.memory_bytes});
  }
  out.table("batches", {"batch", "us_per_token", "arithmetic_pct", "memory_pct"}, rows);
}

// Figure 5: the most requests in flight of a closed loop with the P99 of TTFT and of TPOT within table 3, by bisection.
// The best pools are found on other requests, half as many.
void capacity(results& out, const options& all_seeds) {
  options o = all_seeds;
  o.seeds = std::min<std::size_t>(o.seeds, 5);
  const auto& kinds = sim::archetypes();
  const auto swept = [&](const archetype& a, bool mixed, auto&& make) {
    return best_pools(o, sim::pool_divisions(workers, mixed), [&](const sim::pool_sizes& sizes) {
      return slo_concurrency(make(sizes), a, capacity_requests(o), capacity_requests(o) / 2, planning_seed);
    });
  };
  std::vector<std::vector<contestant>> systems;
  std::vector<std::array<sim::pool_sizes, 2>> best;
  for (const archetype& a : kinds) {
    best.push_back(
        {swept(a, false, [](const sim::pool_sizes& s) { return distserve(s); }), swept(a, !o.quick, phasor_of)});
    systems.push_back({splitwise(), distserve(), distserve(best.back()[0]), phasor("Phasor", {}),
                       phasor_of(best.back()[1]), named("sarathi"), named("due-first")});
  }
  constexpr std::size_t n = 7;
  const auto found = run_all(o, kinds.size() * n, [&](std::size_t k, std::uint64_t seed) {
    const archetype& a = kinds[k / n];
    return slo_concurrency(systems[k / n][k % n], a, capacity_requests(o), capacity_requests(o), seed);
  });
  // To whichever of the others holds most in the mean.
  const auto ours_to_best = [&](std::size_t kind) {
    const auto mean = [&](std::size_t c) { return sim::estimate_mean(found[kind * n + c]).mean; };
    std::size_t best = 0;
    for (std::size_t c = 1; c + 1 != n; ++c) best = mean(c) > mean(best) ? c : best;
    std::vector<double> changes;
    for (std::size_t s = 0; s != o.seeds; ++s) {
      changes.push_back(100 * (found[kind * n + n - 1][s] / found[kind * n + best][s] - 1));
    }
    return sim::estimate_mean(changes);
  };
  constexpr std::array<const char*, n> names{"Splitwise",    "DistServe 4/4",      "DistServe, best split",
                                             "Phasor 3/3/2", "Phasor, best pools", "colocated",
                                             "due-first"};
  std::vector<row> rows;
  for (std::size_t a = 0; a != kinds.size(); ++a) {
    for (std::size_t c = 0; c != n; ++c) {
      rows.push_back({kinds[a].name, names[c],
                      c == 2   ? cell{phasor_setting::show(best[a][0])}
                      : c == 4 ? cell{phasor_setting::show(best[a][1])}
                               : cell{},
                      sim::estimate_mean(found[a * n + c]), c + 1 == n ? cell{ours_to_best(a)} : cell{}});
    }
  }
  out.table("concurrency", {"kind", "system", "pools", "in_flight±", "to_best_other_pct±"}, rows);
}

void run(const options& o) {
  results out{o};
  calibration(out);
  starvation(out, o);
  phantom(out);
  latency(out, o);
  capacity(out, o);
  fragmentation(out, o);
  skew(out, o);
  ablation(out, o);
  sensitivity(out, o);
  energy(out, o);
  out.finish();
}

[[maybe_unused]] const bool added =
    add({"phasor", "figures 1, 2, 4 to 7, 10, tables 2, 5, 6: one headroom signal for prefill and decode pools", run});

}  // namespace

}  // namespace reproduce::phasor_runs
