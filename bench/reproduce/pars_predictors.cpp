// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PARS's predictors: how well they rank, and what they take.
#include "pars_runs.hpp"

#include <tessera/rank/features.hpp>
#include <tessera/rank/scorer.hpp>
#include <tessera/rank/train.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/report/progress.hpp>

#include <fmt/ranges.h>
#include <boost/math/distributions/normal.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace reproduce::pars_runs {

void predictors(context& c) {
  std::vector<method> methods{pairwise, listwise, pointwise};
  const std::vector<double> deltas =
      c.o.quick ? std::vector<double>{0, 0.25} : std::vector<double>{0, 0.1, 0.25, 0.3, 0.4, 0.5, 0.6};
  for (const double d : deltas) methods.push_back({fmt::format("delta {:g}", d), rank::objective::pairwise, d});
  const auto taus = cross_validate(c.o, c.data, methods);
  std::vector<row> learned;
  for (std::size_t m = 0; m != 3; ++m) {
    const auto [lowest, highest] = std::minmax_element(taus[m].begin(), taus[m].end());
    learned.push_back({methods[m].name, sim::estimate_mean(taus[m]), *lowest, *highest,
                       m == 0 ? cell{} : cell{difference(taus[0], taus[m])}});
  }
  c.out.table("predictors", {"training", "tau_b±", "lowest_fold_tau_b", "highest_fold_tau_b", "pars_lead_tau_b±"},
              learned);

  const std::vector<double>& unfiltered = taus[3];
  std::vector<std::pair<double, std::size_t>> sweep{{0.2, 0}};
  for (std::size_t d = 0; d != deltas.size(); ++d) sweep.emplace_back(deltas[d], 3 + d);
  std::sort(sweep.begin(), sweep.end());
  std::vector<row> filtered;
  for (const auto& [delta, m] : sweep) {
    filtered.push_back({delta, sim::estimate_mean(taus[m]), m == 3 ? cell{} : cell{difference(taus[m], unfiltered)}});
  }
  c.out.table("filter", {"delta", "tau_b±", "gain_over_no_filter_tau_b±"}, filtered);
}

void facts(context& c) {
  const auto seconds = [](auto&& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const rank::row_split split = rank::split_fold(c.data.all_rows(), 11, 0, 1);  // about 7,000 of 7,683
  rank::linear_training model;
  const double training = seconds([&] { model = train(c.data, split.train, pairwise, 1); });
  std::string words;
  for (std::size_t i = 0, n = 0; n < 100; ++i) {
    for (const char ch : c.prompts[i % c.prompts.size()].text + " ") {
      if (n >= 100) break;
      n += ch == ' ' ? 1 : 0;
      words += ch;
    }
  }
  const rank::prompt_scorer scorer{rank::hashed_features{}, model.model()};
  std::vector<double> times;
  volatile float sink = 0;
  for (int repeat = 0; repeat != 101; ++repeat) {
    times.push_back(seconds([&] {
                      for (int i = 0; i != 20; ++i) sink = scorer(words);
                    }) /
                    20);
  }
  static_cast<void>(sink);
  std::sort(times.begin(), times.end());
  std::vector<double> taus;
  for (const experiment& e : c.seeds) taus.push_back(e.tau);
  c.out.table("facts", {"what", "value±"},
              {{"tau-b of the served scores", sim::estimate_mean(taus)},
               {"prompts to train on", split.train.size()},
               {"training s", training},
               {"scoring a prompt of 100 words us", 1e6 * times[times.size() / 2]}});
}

}  // namespace reproduce::pars_runs
