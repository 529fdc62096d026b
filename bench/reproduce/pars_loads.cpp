// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams of requests: latency by rate, on own prompts and by length, and how long a request can starve.
#include "pars_page.hpp"

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

namespace reproduce::pars_page {

namespace {

/// All contestants on Poisson arrivals at these loads. `rows(scored, rate, s)`: the requests of seed s with what they
/// are ordered by; `history(s)`: what `due-first` has seen before. @return per load, per contestant, per seed.
template <class Rows, class History>
std::vector<runs_type> at_loads(context& c, const std::vector<contestant>& who, const std::string& name,
                                const std::string& file, Rows&& rows, History&& history) {
  const std::vector<double> capacity =
      capacities(c, [&](double rate, std::size_t s) { return rows(first_come, rate, s); });
  std::vector<runs_type> all;
  for (const double load : loads) {
    all.push_back(run_contestants(
        c, who, [&](std::size_t k, std::size_t s) { return rows(who[k].scored, load * capacity[s], s); }, history));
  }
  c.out.text(
      fmt::format("**{}**, {} requests a run; load 1 is what the server completes of these requests when they "
                  "come much too fast, {} per second.",
                  name, rows(first_come, 1, 0).size(), show(sim::estimate_mean(capacity), 2)));
  for (std::size_t l = 0; l != loads.size(); ++l) {
    c.out.text(fmt::format("{}, load {:g} ({:.2f} requests per second)", name, loads[l],
                           loads[l] * sim::estimate_mean(capacity).mean));
    table_of(c.out, who, all[l], false);
  }
  for (const auto& [word, what] : {std::pair{"mean", &outcome::mean}, std::pair{"P90", &outcome::p90}}) {
    plot p{fmt::format("{} latency per token, {}", word, name), "load", "ms per token", {}, style::lines, false, true};
    for (std::size_t k = 0; k != who.size(); ++k) {
      p.curves.push_back({who[k].name, {}, {}});
      for (std::size_t l = 0; l != loads.size(); ++l) {
        p.curves[k].x.push_back(loads[l]);
        p.curves[k].y.push_back(over_seeds(all[l][k], [&](const outcome& r) { return 1000 * (r.*what); }).mean);
      }
    }
    c.out.figure(fmt::format("rate_{}_{}", word == std::string_view{"mean"} ? "mean" : "p90", file), p.title, p);
  }
  return all;
}

}  // namespace

std::vector<std::vector<runs_type>> rates(context& c, const std::vector<answerer>& answerers) {
  c.out.heading("Latency against arrival rate");
  c.out.text(fmt::format(
      "An eighth of the time is left out at either end. \"Load\" says of how many runs the number that waits has a "
      "trend (see [replay](../../replay.md)), and by what part of the arrivals it grows; a run that is overloaded says "
      "how long it was, not what a service sees."));
  std::vector<std::vector<runs_type>> all;
  std::size_t number = 0;
  for (const answerer& a : answerers) {
    const std::size_t n = c.o.quick ? 300 : a.lengths ? 4'000 : 20'000;
    std::vector<experiment> seeds;
    for (const experiment& e : c.seeds) seeds.push_back(with_lengths(e, a));
    all.push_back(at_loads(
        c, contestants(), a.name, fmt::format("{}", ++number),
        [&](scored_by scored, double rate, std::size_t s) {
          return stream(seeds[s], seeds[s].scores[scored], n, rate, s + 1);
        },
        [&](std::size_t s) { return seeds[s].history; }));
  }
  return all;
}

std::vector<runs_type> own_prompts(context& c) {
  c.out.heading("A reasoning model's own requests");
  const sim::workload& w = sim::find_workload("r1-servegen");
  const std::size_t n = c.o.quick ? 300 : 4'000;
  std::vector<double> taus;
  for (const experiment& e : c.seeds) taus.push_back(e.tau);
  const double tau = sim::estimate_mean(taus).mean;
  c.out.text(fmt::format(
      "`{}`: prompts and lengths drawn as ServeGen publishes them, the prompts being long too. Nobody has their texts, "
      "so that the scores are made: the logarithm of the true length with as much normal noise as gives the tau-b of "
      "PARS's model here, {:.2f}. The other two models are left out: there is nothing to train.",
      w.name, tau));
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
  std::vector<contestant> who = contestants();
  who.erase(who.begin() + pointwise_sjf, who.begin() + listwise_sjf + 1);
  return at_loads(
      c, who, std::string{w.name}, "3",
      [&](scored_by scored, double rate, std::size_t s) { return made(scored, rate, 201 + s); },
      [&](std::size_t s) { return made(by_pairwise, 1, 1201 + s); });
}

std::vector<at_length> run_lengths(context& c, const answerer& a) {
  c.out.heading("How long a run above the capacity is");
  constexpr double load = 1.1;
  c.out.text(
      fmt::format("At {:g} of the capacity the wait under FCFS grows for as long as the run lasts, and so does what an "
                  "order by length gains: a ratio to FCFS is one of a run of that length. {}, the held-out requests "
                  "drawn again and again.",
                  load, a.name));
  std::vector<experiment> seeds;
  for (const experiment& e : c.seeds) seeds.push_back(with_lengths(e, a));
  const auto lengths = c.o.quick ? std::vector<std::size_t>{300} : std::vector<std::size_t>{2'000, 8'000, 32'000};
  const std::vector<double> capacity =
      capacities(c, [&](double rate, std::size_t s) { return stream(seeds[s], {}, lengths.front(), rate, s + 1); });
  const std::vector<contestant> all = contestants();
  const std::vector<contestant> who{all.front(), all[boosted_pars], all[unboosted_pars], all[smooth_pars], all.back()};
  std::vector<std::vector<std::string>> table;
  std::vector<at_length> found;
  for (const std::size_t n : lengths) {
    const runs_type runs = run_contestants(
        c, who,
        [&](std::size_t k, std::size_t s) {
          return stream(seeds[s], seeds[s].scores[who[k].scored], n, load * capacity[s], s + 1);
        },
        [&](std::size_t s) { return seeds[s].history; });
    const auto gain = [&](std::size_t k) { return ratio_of(runs.front(), runs[k], &outcome::mean); };
    found.push_back({n, gain(1), gain(2), gain(3)});
    for (std::size_t k = 0; k != who.size(); ++k) {
      const auto cell = [&](double outcome::*what, double unit, int digits) {
        return show(over_seeds(runs[k], [&](const outcome& r) { return unit * (r.*what); }), digits);
      };
      table.push_back({k == 0 ? fmt::format("{} requests", n) : "", who[k].name, cell(&outcome::mean, 1000, 1),
                       k == 0 ? "-" : show(gain(k), 2), cell(&outcome::ttft_p99, 1, 0),
                       cell(&outcome::longest_wait, 1, 0), verdict(runs[k])});
    }
  }
  c.out.table({"", "policy", "mean, ms/token", "FCFS / it, mean", "TTFT P99, s", "longest wait, s", "load"}, table);
  return found;
}

void starvation(context& c, const answerer& a) {
  c.out.heading("The starvation threshold");
  const std::vector<double> thresholds =
      c.o.quick ? std::vector<double>{120, never_boosted} : std::vector<double>{30, 60, 120, 240, 480, never_boosted};
  const std::size_t n = c.o.quick ? 300 : 4'000;
  const std::vector<double> capacity = capacities(
      c, [&](double rate, std::size_t s) { return stream(with_lengths(c.seeds[s], a), {}, n, rate, s + 1); });
  const std::vector<double> patiences = c.o.quick ? std::vector<double>{600} : std::vector<double>{120, 300, 600, 1200};
  c.out.text(
      "Besides the paper's threshold, ageing that is smooth: nobody is ever boosted, and the score is arrival + "
      "patience "
      "x q, q in [0, 1] being the place of the predicted length among recent ones. Who comes later by `patience` never "
      "overtakes. It is the same scheduler with another score, as cheap as before, and it cannot tip over into FCFS.");
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
    std::vector<std::vector<std::string>> table;
    for (std::size_t t = 0; t != runs.size(); ++t) {
      const auto cell = [&](double outcome::*what, double unit, int digits) {
        return show(over_seeds(runs[t], [&](const outcome& r) { return unit * (r.*what); }), digits);
      };
      table.push_back({t >= smooth                 ? fmt::format("smooth, patience {:g} s", patiences[t - smooth])
                       : t == thresholds.size()    ? "FCFS"
                       : std::isinf(thresholds[t]) ? "never"
                                                   : fmt::format("{:g} s", thresholds[t]),
                       cell(&outcome::mean, 1000, 1), cell(&outcome::p90, 1000, 1), cell(&outcome::ttft_p99, 1, 1),
                       cell(&outcome::longest_wait, 1, 0), cell(&outcome::boosted, 100, 1)});
    }
    c.out.text(fmt::format("**{}**, load {:g} ({:.2f} requests per second), {} requests", a.name, load,
                           load * sim::estimate_mean(capacity).mean, n));
    c.out.table({"threshold", "mean, ms/token", "P90, ms/token", "TTFT P99, s", "longest wait, s", "boosted, %"},
                table);
  }
  c.out.text(
      "In every run with a finite threshold on this page it is checked, from the records, that nobody is overtaken "
      "after his "
      "boost, neither by one that is not boosted nor by a younger one; and, where the batch is what binds, that no "
      "wait exceeds the threshold plus the longest residence unless a whole batch of older requests was boosted "
      "too. When more is boosted than runs at once, as in a long burst, no order can keep the threshold: the longest "
      "wait is then about that of FCFS.");
}

}  // namespace reproduce::pars_page
