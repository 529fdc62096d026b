// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams of requests: latency by rate, on own prompts and by length, and how long a request can starve.
#include "pars_runs.hpp"

#include <tessera/rank/train.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/report/progress.hpp>

#include <fmt/ranges.h>
#include <boost/math/distributions/normal.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reproduce::pars_runs {

namespace {

/// All contestants on Poisson arrivals at these loads. `rows(scored, rate, s)`: the requests of seed s with what they
/// are ordered by; `history(s)`: what `due-first` has seen before. Load 1 is what the server completes when they come
/// much too fast.
template <class Rows, class History>
void at_loads(context& c, const std::vector<contestant>& systems, const std::string& name, Rows&& rows,
              History&& history) {
  const std::vector<double> capacity =
      capacities(c, [&](double rate, std::size_t s) { return rows(first_come, rate, s); });
  for (const double load : loads) {
    add_runs(
        c, name, load, load * sim::estimate_mean(capacity).mean, systems,
        run_contestants(
            c, systems, [&](std::size_t k, std::size_t s) { return rows(systems[k].scored, load * capacity[s], s); },
            history));
  }
}

}  // namespace

void rates(context& c, const std::vector<answerer>& answerers) {
  for (const answerer& a : answerers) {
    const std::size_t n = c.o.quick ? 300 : a.lengths ? 4'000 : 20'000;
    std::vector<experiment> seeds;
    for (const experiment& e : c.seeds) seeds.push_back(with_lengths(e, a));
    at_loads(
        c, contestants(), a.name,
        [&](scored_by scored, double rate, std::size_t s) {
          return stream(seeds[s], seeds[s].scores[scored], n, rate, s + 1);
        },
        [&](std::size_t s) { return seeds[s].history; });
  }
}

// The texts of these prompts are not published, so the scores are made. They are the logarithm of the true length with
// as much normal noise as gives the tau-b of PARS's model here. The other two models are left out, because there is
// nothing to train.
void own_prompts(context& c) {
  const sim::workload& w = sim::find_workload("r1-servegen");
  const std::size_t n = c.o.quick ? 300 : 4'000;
  std::vector<double> taus;
  for (const experiment& e : c.seeds) taus.push_back(e.tau);
  const double tau = sim::estimate_mean(taus).mean;
  const auto lengths_of = [](const std::vector<sim::trace_row>& rows) {
    std::vector<float> lengths;
    for (const sim::trace_row& r : rows) lengths.push_back(static_cast<float>(r.output_tokens));
    return lengths;
  };
  const double noise = noise_for(lengths_of(answers_of(w, n, 1, 1)), tau, 1);
  const auto made = [&](scored_by scored, double rate, std::uint64_t seed) {
    std::vector<sim::trace_row> rows = answers_of(w, n, rate, seed);
    const std::vector<float> truth = lengths_of(rows);
    const std::vector<float> scores = scored == by_truth ? truth : with_noise(truth, noise, seed);
    for (std::size_t i = 0; i != rows.size(); ++i) rows[i].score = scores[i];
    return rows;
  };
  std::vector<contestant> systems = contestants();
  systems.erase(systems.begin() + pointwise_sjf, systems.begin() + listwise_sjf + 1);
  at_loads(
      c, systems, std::string{w.name},
      [&](scored_by scored, double rate, std::size_t s) { return made(scored, rate, 201 + s); },
      [&](std::size_t s) { return made(by_pairwise, 1, 1201 + s); });
}

// Above the capacity the wait under FCFS grows for as long as the run lasts, and so does what an order by length gains.
void run_lengths(context& c, const answerer& a) {
  constexpr double load = 1.1;
  std::vector<experiment> seeds;
  for (const experiment& e : c.seeds) seeds.push_back(with_lengths(e, a));
  const auto lengths = c.o.quick ? std::vector<std::size_t>{300} : std::vector<std::size_t>{2'000, 8'000, 32'000};
  const std::vector<double> capacity =
      capacities(c, [&](double rate, std::size_t s) { return stream(seeds[s], {}, lengths.front(), rate, s + 1); });
  const std::vector<contestant> all = contestants();
  const std::vector<contestant> systems{all.front(), all[boosted_pars], all[unboosted_pars], all[smooth_pars],
                                        all.back()};
  std::vector<row> table;
  for (const std::size_t n : lengths) {
    const runs_type runs = run_contestants(
        c, systems,
        [&](std::size_t k, std::size_t s) {
          return stream(seeds[s], seeds[s].scores[systems[k].scored], n, load * capacity[s], s + 1);
        },
        [&](std::size_t s) { return seeds[s].history; });
    for (std::size_t k = 0; k != systems.size(); ++k) {
      const auto mean = [&](double outcome::*what, double unit) {
        return over_seeds(runs[k], [&](const outcome& r) { return unit * (r.*what); });
      };
      table.push_back(joined<cell>({n, systems[k].name, mean(&outcome::mean, 1000),
                                    k == 0 ? cell{} : cell{ratio_of(runs.front(), runs[k], &outcome::mean)},
                                    mean(&outcome::ttft_p99, 1), mean(&outcome::longest_wait, 1)},
                                   load_cells(runs[k])));
    }
  }
  c.out.table("run_length",
              joined<std::string>(
                  {"requests", "policy", "mean_ms_per_token±", "fcfs_mean_ratio±", "ttft_p99_s±", "longest_wait_s±"},
                  load_columns),
              table);
}

// Besides the paper's threshold, smooth ageing: no request is ever boosted, and the score is `arrival + patience * q`.
// `q`, in [0, 1], is the place of the predicted length among recent ones. A request that comes later by `patience`
// never overtakes.
void starvation(context& c, const answerer& a) {
  std::vector<row> table;
  const std::vector<double> thresholds =
      c.o.quick ? std::vector<double>{120, never_boosted} : std::vector<double>{30, 60, 120, 240, 480, never_boosted};
  const std::size_t n = c.o.quick ? 300 : 4'000;
  const std::vector<double> capacity = capacities(
      c, [&](double rate, std::size_t s) { return stream(with_lengths(c.seeds[s], a), {}, n, rate, s + 1); });
  const std::vector<double> patiences = c.o.quick ? std::vector<double>{600} : std::vector<double>{120, 300, 600, 1200};
  for (const double load : {0.95, 1.1}) {
    const std::size_t smooth = thresholds.size() + 1;
    std::vector<std::vector<outcome>> runs(smooth + patiences.size(), std::vector<outcome>(c.seeds.size()));
    sim::run_parallel(runs.size() * c.seeds.size(), c.o.threads, [&](std::size_t i) {
      const std::size_t s = i % c.seeds.size();
      const std::size_t t = i / c.seeds.size();
      const experiment e = with_lengths(c.seeds[s], a);
      auto rows = stream(e, e.scores[by_pairwise], n, load * capacity[s], s + 1);
      if (t < thresholds.size()) {
        runs[t][s] = run(by_score(thresholds[t]), c.profile, rows, thresholds[t]);
      } else if (t == thresholds.size()) {
        runs[t][s] = run(published("fcfs"), c.profile, rows);
      } else {
        std::vector<float> sorted = e.scores[by_pairwise];
        std::sort(sorted.begin(), sorted.end());
        for (sim::trace_row& r : rows) {
          const auto below = std::lower_bound(sorted.begin(), sorted.end(), r.score) - sorted.begin();
          const double place = static_cast<double>(below) / static_cast<double>(sorted.size());
          r.score = static_cast<float>(r.arrival_s + patiences[t - smooth] * place);
        }
        runs[t][s] = run(by_score(), c.profile, rows);
      }
    });
    for (std::size_t t = 0; t != runs.size(); ++t) {
      const auto mean = [&](double outcome::*what, double unit) {
        return over_seeds(runs[t], [&](const outcome& r) { return unit * (r.*what); });
      };
      table.push_back({load,
                       t >= smooth                 ? fmt::format("smooth, patience {:g} s", patiences[t - smooth])
                       : t == thresholds.size()    ? "FCFS"
                       : std::isinf(thresholds[t]) ? "never"
                                                   : fmt::format("{:g} s", thresholds[t]),
                       mean(&outcome::mean, 1000), mean(&outcome::p90, 1000), mean(&outcome::ttft_p99, 1),
                       mean(&outcome::longest_wait, 1), mean(&outcome::boosted, 100)});
    }
  }
  c.out.table("threshold",
              {"load", "threshold", "mean_ms_per_token±", "p90_ms_per_token±", "ttft_p99_s±", "longest_wait_s±",
               "boosted_pct±"},
              table);
}

}  // namespace reproduce::pars_runs
