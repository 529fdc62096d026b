// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tails of latency under bursts, and the KV of requests that wait.
#include "phasor_page.hpp"

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

namespace reproduce::phasor_page {

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

void show_tails(page& p, const std::vector<tails>& all) {
  std::vector<std::vector<std::string>> table;
  for (const tails& t : all) {
    for (std::size_t r = 0; r != t.rates.size(); ++r) {
      const auto of = [&](std::size_t system, auto&& get) { return mean_of(t.runs[r][system], get).mean; };
      for (std::size_t s = 0; s != tail_systems.size(); ++s) {
        std::vector<sim::load_verdict> load;
        for (const sim::summary& x : t.runs[r][s]) load.push_back(x.load);
        const std::string pools = s == distserve_planned ? fmt::format(": {}", phasor_setting::show(t.planned))
                                  : s == distserve_best  ? fmt::format(": {}", phasor_setting::show(t.best[r][0]))
                                  : s == phasor_best     ? fmt::format(": {}", phasor_setting::show(t.best[r][1]))
                                                         : "";
        table.push_back({s != 0 ? "" : fmt::format("{}, {:g}/s", t.kind->name, t.rates[r]),
                         fmt::format("{}{}", tail_systems[s], pools), number(of(s, [](auto& x) { return x.ttft.p99; })),
                         number(1e3 * of(s, [](auto& x) { return x.tpot.p99; })), number(of(s, tails::p99)),
                         s == phasor_332 ? "-" : show_change(t.change(r, phasor_332, s)),
                         s == phasor_best ? "-" : show_change(t.change(r, phasor_best, s)), verdict_of(load)});
      }
    }
  }
  p.table({"", "", "P99 TTFT, s", "P99 TPOT, ms", "P99 end to end, s", "Phasor 3/3/2 to it",
           "Phasor, best pools, to it", "load"},
          table);
}

}  // namespace

void latency(page& p, const options& o) {
  p.heading("Figures 4 and 10: latency over the arrival rate");
  p.text(fmt::format(
      "Requests arrive for {:g} s in each run. *Planned* is what DistServe is about: the split that carries the "
      "highest rate at which nine of ten requests keep both promises. *Best split* and *best pools*: of all ways to "
      "divide eight workers the one with the lowest P99 end to end at this rate. All are found on other requests. "
      "*Colocated* has no pools: every worker computes prompts in chunks that keep a step within 50 ms, and a request "
      "goes where least memory is held or waited for. Changes are of the P99 end to end, taken seed by seed. \"Load\" "
      "says of how many runs the queue grows (overload) or not, and by what part of the arrivals: where it does, P99 "
      "says how long the run was. *Queues counted* is ours: a decode worker's Phi_S counts the memory that sequences "
      "wait for there, so that it is negative under overload, as Phi_T is. As printed, Phi_S never falls below 0: "
      "once prefill is late, no shortage on the decode side can win a worker back.",
      seconds_of_arrivals));
  std::vector<tails> all;
  for (const archetype& a : sim::archetypes()) {
    // Where each kind of task goes from carried to not.
    const std::vector<double> rates = o.quick           ? std::vector<double>{20}
                                      : a.name == "mix" ? std::vector<double>{10, 20, 30, 40, 60}
                                      : a.name == "S-S" ? std::vector<double>{20, 40, 60}
                                                        : std::vector<double>{5, 10, 20};
    all.push_back(run_tails(o, a, rates, false));
    plot lines{.title = fmt::format("{} ({})", a.task, a.name),
               .x_label = "requests per second",
               .y_label = "P99 end to end, seconds",
               .curves = {}};
    for (std::size_t s = 0; s + 1 != tail_systems.size(); ++s) {
      series one{std::string{tail_systems[s]}, rates, {}};
      for (std::size_t r = 0; r != rates.size(); ++r) one.y.push_back(mean_of(all.back().runs[r][s], tails::p99).mean);
      lines.curves.push_back(std::move(one));
    }
    p.figure(fmt::format("figure10-{}", a.name), fmt::format("P99 end to end, {}", a.task), lines);
  }
  show_tails(p, all);
  // The headline.
  const tails& mix = *std::find_if(all.begin(), all.end(), [](const tails& t) { return t.kind->name == "mix"; });
  const auto high = [&](std::size_t ours, std::size_t theirs) {
    std::vector<double> values;
    for (std::size_t r = 0; r != mix.rates.size(); ++r) {
      if (mix.rates[r] < 40 && !o.quick) continue;
      for (std::size_t i = 0; i != o.seeds; ++i)
        values.push_back(100 * (tails::p99(mix.runs[r][ours][i]) / tails::p99(mix.runs[r][theirs][i]) - 1));
    }
    return show_change(sim::estimate_mean(values));
  };
  const auto row = [&](std::string_view to, const char* paper, std::size_t theirs) {
    return std::vector<std::string>{fmt::format("to {}", to), paper, high(phasor_332, theirs),
                                    high(phasor_best, theirs), high(phasor_queues, theirs)};
  };
  p.table({"P99 end to end at 40 to 60 requests a second, production mix", "paper", "3/3/2", "best pools",
           "3/3/2, queues counted"},
          {row("Splitwise", "-38.9 %", splitwise_332), row("DistServe, 4/4", "-25.7 %", distserve_44),
           row("DistServe, planned", "-", distserve_planned), row("DistServe, best split", "-", distserve_best),
           row("colocated", "-", colocated)});
}

void waiting_kv(page& p, const options& o) {
  p.heading("Where KV waits");
  p.text(
      "Above, a sequence whose KV waits for a decode worker holds no memory meanwhile, which the paper leaves open. "
      "In DistServe it holds the prefill worker's. The production mix and code again, so "
      "(`cluster_options::kv_waits_at_source`):");
  std::vector<tails> all;
  const auto rates = [&](std::initializer_list<double> some) {
    return o.quick ? std::vector<double>{20} : std::vector<double>{some};
  };
  all.push_back(run_tails(o, find("mix"), rates({20, 30, 40}), true));
  all.push_back(run_tails(o, find("S-L"), rates({5, 10}), true));
  show_tails(p, all);
}

}  // namespace reproduce::phasor_page
