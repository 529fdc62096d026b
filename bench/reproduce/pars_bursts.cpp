// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bursts of requests: the policies side by side, what spreads of lengths change, and what tau-b is worth.
#include "pars_runs.hpp"

#include <tessera/rank/train.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/report/progress.hpp>

#include <fmt/ranges.h>
#include <boost/math/distributions/normal.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace reproduce::pars_runs {

namespace {

/// Log-normal lengths about a median of 60 tokens, at most 2,048.
answerer lognormal(double sigma) {
  return {fmt::format("log-normal, deviation {:.2f}", sigma), [sigma](double q) {
            const double z = boost::math::quantile(boost::math::normal{}, q);
            return std::min(60 * std::exp(sigma * z), 2048.0);
          }};
}

/// The deviation that gives these requests that product. Bisection.
answerer with_spread(const std::vector<sim::trace_row>& rows, double product) {
  double low = 0.1;
  double high = 5;
  for (int i = 0; i != 30; ++i) {
    const double middle = 0.5 * (low + high);
    std::vector<sim::trace_row> changed = rows;
    change_lengths(changed, lognormal(middle).lengths);
    (spread(changed) < product ? low : high) = middle;
  }
  return lognormal(0.5 * (low + high));
}

}  // namespace

void bursts(context& c, const std::vector<answerer>& answerers) {
  const std::vector<contestant> systems = contestants();
  for (const answerer& a : answerers) add_runs(c, a.name, 0, 0, systems, burst_runs(c, systems, a));
}

// Under FCFS long and short requests wait alike. So the mean latency per token is about the mean wait times the mean of
// 1/L. The mean wait goes with the mean of L. An order by length spares short requests the wait. So the gain should
// grow with mean(L) x mean(1/L), whatever the model.
void spreads(context& c) {
  std::vector<row> table;
  const std::vector<contestant> all = contestants();
  for (const double product : {1.5, 2.0, 4.0, 8.0, 12.0, 16.0}) {
    const std::vector<contestant> systems{all.front(), all[unboosted_pars], all[unboosted_pars], all.back()};
    std::vector<experiment> seeds;
    for (const experiment& e : c.seeds) seeds.push_back(with_lengths(e, with_spread(e.rows, product)));
    std::vector<std::vector<float>> noisy(seeds.size());
    for (std::size_t s = 0; s != seeds.size(); ++s) noisy[s] = noised(seeds[s].scores[by_truth], paper_tau, s + 1);
    const runs_type runs = run_contestants(
        c, systems,
        [&](std::size_t k, std::size_t s) {
          return burst(seeds[s], k == 1 ? noisy[s] : seeds[s].scores[systems[k].scored]);
        },
        [&](std::size_t s) { return seeds[s].history; });
    std::vector<double> products;
    for (const experiment& e : seeds) products.push_back(spread(e.rows));
    const std::array<std::string, 4> scores{"", fmt::format("tau-b {:g}", paper_tau), "PARS's model", "oracle"};
    for (std::size_t k = 1; k != systems.size(); ++k) {
      table.push_back({sim::estimate_mean(products), scores[k], ratio_of(runs.front(), runs[k], &outcome::mean),
                       ratio_of(runs.front(), runs[k], &outcome::p90)});
    }
  }
  c.out.table("spread", {"length_spread±", "scores", "fcfs_mean_ratio±", "fcfs_p90_ratio±"}, table);
}

// The burst again, scored by oracles that were made worse. Their score is the logarithm of the true length with as much
// normal noise as gives the tau-b named. FCFS is a tau-b of 0.
void tau_curve(context& c, const std::vector<answerer>& answerers) {
  const std::vector<double> levels =
      c.o.quick ? std::vector<double>{0, 0.5, 1}
                : std::vector<double>{0, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8, 0.9, 0.95, 1};
  std::vector<row> table;
  std::vector<double> ours;
  for (const experiment& e : c.seeds) ours.push_back(e.tau);
  const std::vector<contestant> systems = contestants();
  for (const answerer& a : answerers) {
    std::vector<std::vector<outcome>> runs(levels.size(), std::vector<outcome>(c.seeds.size()));
    sim::run_parallel(levels.size() * c.seeds.size(), c.o.threads, [&](std::size_t i) {
      const std::size_t s = i % c.seeds.size();
      const experiment e = with_lengths(c.seeds[s], a);
      runs[i / c.seeds.size()][s] =
          run(by_score(), c.profile, burst(e, noised(e.scores[by_truth], levels[i / c.seeds.size()], s + 1)));
    });
    for (std::size_t l = 0; l != levels.size(); ++l) {
      table.push_back({"noise", levels[l], a.name, ratio_of(runs[l], runs.back(), &outcome::mean),
                       ratio_of(runs[l], runs.back(), &outcome::p90)});
    }
    const runs_type model = burst_runs(c, {systems[unboosted_pars], systems.back()}, a);
    table.push_back({"model", sim::estimate_mean(ours).mean, a.name, ratio_of(model[0], model[1], &outcome::mean),
                     ratio_of(model[0], model[1], &outcome::p90)});
  }
  c.out.table("tau", {"scores", "tau_b", "lengths", "to_oracle_mean_ratio±", "to_oracle_p90_ratio±"}, table);
}

}  // namespace reproduce::pars_runs
