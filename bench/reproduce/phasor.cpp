// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Phasor's evaluation: figures 1, 2, 4 to 7 and 10, tables 2, 5 and 6.
#include "settings.hpp"

#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/systems/disaggregated.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

namespace {

using namespace tessera;
using namespace reproduce;
using namespace reproduce::phasor_setting;

/// Section 2.1: 5 requests a second, 25 for half a minute, and 5 again.
std::vector<trace_row> shock(const archetype& a, std::uint64_t seed, double length_s = 30, double rate = 25) {
  return sim::generate(a, {{90, 5}, {length_s, rate}, {120, 5}}, burst_cv, seed);
}

std::string number(double x, int digits = 3) { return std::isnan(x) ? "-" : fmt::format("{:.{}g}", x, digits); }
std::string fixed(double x, int digits = 2) { return std::isnan(x) ? "-" : fmt::format("{:.{}f}", x, digits); }
std::string with_interval(const estimate& e, int digits = 2) {
  return fmt::format("{:.{}f} ± {:.{}f}", e.mean, digits, e.half_width, digits);
}
/// Runs `n` jobs of every seed in parallel: `out[job][seed]`.
template <class Job>
auto run_all(const options& o, std::size_t n, Job&& job) {
  using value = decltype(job(std::size_t{}, std::uint64_t{}));
  std::vector<std::vector<value>> out(n, std::vector<value>(o.seeds));
  sim::run_parallel(n * o.seeds, o.threads,
                    [&](std::size_t k) { out[k / o.seeds][k % o.seeds] = job(k / o.seeds, k % o.seeds + 1); });
  return out;
}

template <class Result, class Get>
estimate mean_of(const std::vector<Result>& runs, Get&& get) {
  std::vector<double> values;
  for (const Result& r : runs) values.push_back(get(r));
  return sim::estimate_mean(values);
}

// -- the parts of the page -------------------------------------------------------------------------------------------

void setup(page& p, const options& o) {
  const sim::profile& v100 = testbed();
  const sim::prefill_model model =
      sim::calibrate_prefill(sim::step_timer{v100}, duration{0.4}, v100.gpu.flops * v100.gpu.flops_efficiency);
  p.text(fmt::format(
      "Eight simulated V100 with 32 GB run Qwen2.5-7B in half precision ({} KV blocks of 16 tokens each, at most 256 "
      "requests and 2,048 tokens a step), {:.0f} GB/s between them; {:.0f} Tflop/s in reach, the effective peak that "
      "the paper gives, where the built-in profile has 75. Arrivals are gamma distributed with a coefficient of "
      "variation of {}. Lengths: table 1 of the paper, log-normal with a variation of 0.3, which is our assumption: "
      "the paper's samples are not published. Promises: table 3. Pools: DistServe 4 prefill and 4 decode workers, "
      "shortest queue; Splitwise 3, 3 and 2 mixed, shortest queue, mixed workers help when every prefill queue is "
      "longer than 4 or no decode worker has room; Phasor 3, 3 and 2. Every number is a mean over {} seeds, ± its 95 "
      "% interval.",
      v100.kv_blocks(tokens{16}).count(), nvlink_bytes_per_s / 1e9, v100.gpu.flops * v100.gpu.flops_efficiency / 1e12,
      burst_cv, o.seeds));
  p.text(fmt::format(
      "Calibration (appendix B.2), from 64 simulated prefill times of 128 to 8,192 tokens: alpha = {:.4g} FLOP per "
      "token squared, beta = {:.4g} FLOP per token, R² = {:.5f} (paper: above 0.99). A prompt of 1,024 tokens takes "
      "{:.0f} ms; the paper reports about 116 ms.",
      model.cost.alpha, model.cost.beta, model.r_squared,
      1e3 * model.cost.flops(tokens{1024}) / model.budget.peak_flops));
}

/// Of ten seeds: what the tables below say.
void conclusions(page& p) {
  p.lead(
      "**What holds.** Against the static baselines as the paper has them Phasor is ahead: on the production mix P99 "
      "end to end is 66 ± 4 % below Splitwise's and 28 ± 16 % below that of DistServe with a 4/4 split at 30 requests "
      "a second, the highest of these rates that it carries, and 58 % below both at 40 to 60 (paper 38.9 and 25.7 %), "
      "where none of the three carries the load and the number says how long the runs were. At 10 and 20 a second it "
      "is level with 4/4. Routing by Phi keeps prefill queues even, and defragmentation takes a third of the blocked "
      "memory away.");
  p.lead(
      "**What falls, against baselines at their best.** *The split is what gains*: DistServe with the best of its "
      "splits has the P99 of Phasor with the best of its pools, within 2 % wherever the load is carried, and that of "
      "the published 3/3/2 at 40 and 60 a second; at 30 its 5/3 is 5 % better than 3/3/2. Phasor finds by changing "
      "roles what a plan would have said; without Phi it does so as well (table 2), without the mixed pool not at "
      "all. *No pools at all*: workers that compute prompts in chunks which keep a step within 50 ms carry the mix at "
      "40 a second in 9 of 10 runs, P99 22.5 s, where Phasor does not in 9 of 10, 39.8 s. Where both carry the load "
      "3/3/2 is 2 to 4 % better than they are on the mix at 20 and 30 a second, and 3 to 28 % worse on dialogue, "
      "code, summaries and translation; with its best pools Phasor is between 9 % better and 8 % worse, and on "
      "summaries at 20 a second 15 % worse. What pools buy is TTFT on short prompts: a tenth of a second on code "
      "instead of four tenths.");
  p.lead(
      "**Concurrency within the promises** (figure 5): DistServe with its best split holds more than Phasor with the "
      "published pools in all six kinds of tasks, 4.3 times as much on the mix, and as much as Phasor with its own "
      "best pools or up to 1.5 times as much. Of the paper's 1.85 times on the mix 1.07 are left against 4/4. Workers "
      "without pools hold less than the best split everywhere. A split that is planned for promises is not one for "
      "tails: 7/1, which DistServe's planning chooses for the mix, falls behind at 20 a second already, because a "
      "TPOT that nine of ten requests keep says nothing of the tenth. `due-first`, ours, is told the promises and "
      "finds its own split while it runs. Its column was measured with rules that turned out to be unsafe elsewhere: "
      "steps of half the promised TPOT, and any layout that breaks fewer promises, however slow. By its rules since, "
      "in one run each (seed 201): 1,812 short questions (5 % less than the best of the others), 2,343 dialogues (31 "
      "% more), 253 summaries (4 % more), 937 translations (13 % more), 406 of the mix (25 % less); code was not "
      "measured again.");
  p.lead(
      "**Where KV waits** makes no difference to Phasor at the rates that it carries. Where decode workers are too "
      "few and it waits at its source, the queue is KV that prefill workers hold, which counts as running: "
      "\"carried\" is then said of 7/1 on the mix at 20 a second, and its P99 says otherwise.");
}

void starvation(page& p, const options& o) {
  p.heading("Figure 1: starvation under a shock");
  p.text(
      "Production mix, 5 requests a second, 25 from 90 s to 120 s. Mean over the seeds of what happens within the "
      "shock, and before it.");
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
  std::vector<std::vector<std::string>> table;
  plot lines{.title = "Mean time to first token", .x_label = "seconds", .y_label = "seconds", .curves = {}};
  for (std::size_t i = 0; i != all.size(); ++i) {
    table.push_back({all[i].name,
                     with_interval(mean_of(runs[i], [&](const run_result& r) { return ttft_in(r, 0, 90).mean; })),
                     with_interval(mean_of(runs[i], [&](const run_result& r) { return ttft_in(r, 90, 120).mean; })),
                     with_interval(mean_of(runs[i], [&](const run_result& r) { return ttft_in(r, 90, 120).p99; })),
                     with_interval(mean_of(runs[i], [](const run_result& r) { return r.numbers.e2e.p99; }), 1)});
    series s{all[i].name, {}, {}};
    for (double t = 0; t < 240; t += 10) {
      s.x.push_back(t + 5);
      s.y.push_back(mean_of(runs[i], [&](const run_result& r) { return ttft_in(r, t, t + 10).mean; }).mean);
    }
    lines.curves.push_back(std::move(s));
  }
  p.table({"", "TTFT before, s", "TTFT in the shock, s", "its P99, s", "P99 end to end, s"}, table);
  p.text("The paper's DistServe-like setup goes from 0.12 s to more than 0.9 s in the shock.");
  p.figure("figure1", "Time to first token by arrival, a shock from 90 s to 120 s", lines);
}

void phantom(page& p) {
  p.heading("Figure 2: memory is free where compute is not");
  p.text(
      "One prefill worker, prompts of 1,024 tokens in batches. Paper: 122.8 µs a token alone, 42.8 µs at best, "
      "saturated from a batch of 6 to 8, with about 60 % of the memory in use.");
  const sim::profile& v100 = testbed();
  const sim::step_timer timer{v100};
  std::vector<std::vector<std::string>> rows;
  for (const std::int64_t batch : {1, 2, 4, 6, 8, 12, 16}) {
    sim::step_shape shape;
    for (std::int64_t i = 0; i != batch; ++i) shape.add_prefill(tokens{}, tokens{1024});
    const double seconds = timer(shape);
    const double flops = 2 * v100.model.parameters * 1024 * static_cast<double>(batch) +
                         v100.model.attention_flops_per_pair() * static_cast<double>(shape.prefill_pairs);
    const double memory =
        v100.model.weight_bytes() + v100.model.kv_bytes_per_token() * 1024 * static_cast<double>(batch);
    rows.push_back({std::to_string(batch), fixed(1e6 * seconds / static_cast<double>(1024 * batch), 1),
                    fixed(100 * flops / seconds / (v100.gpu.flops * v100.gpu.flops_efficiency), 1) + " %",
                    fixed(100 * memory / v100.gpu.memory_bytes, 1) + " %"});
  }
  p.table({"batch", "µs per token", "of the arithmetic in reach", "of the memory"}, rows);
  p.text(fmt::format(
      "In the roofline a single prompt of this length saturates the arithmetic already, so the gain from batching "
      "that the paper measures is missing; what the figure is about, full compute beside half-empty memory, is there. "
      "No overhead that a batch shares explains the paper's numbers either: at 42.8 µs a token {:.1f} billion "
      "parameters take {:.0f} Tflop/s, and a V100's tensor cores reach 125.",
      v100.model.parameters / 1e9, 2 * v100.model.parameters / 42.8e-6 / 1e12));
}

/// So long requests arrive: what queues shows, and what is a fluctuation.
constexpr double seconds_of_arrivals = 500;
std::size_t requests_at(const options& o, double rate) {
  return o.quick ? 200 : static_cast<std::size_t>(seconds_of_arrivals * rate);
}

/// The pools with the lowest P99 end to end on other requests, half as many.
template <class Make>
sim::pool_sizes best_for_tails(const options& o, const archetype& a, double rate, bool mixed, bool waits_at_source,
                               Make&& make) {
  const auto rows = steady(a, rate, requests_at(o, rate) / 2, planning_seed);
  cluster_options c = cluster_of(testbed(), rows.size());
  c.kv_waits_at_source = waits_at_source;
  return best_pools(o, sim::pool_divisions(workers, mixed && !o.quick),
                    [&](const sim::pool_sizes& sizes) { return -make(sizes).run(c, a, rows).numbers.e2e.p99; });
}

contestant phasor_of(const sim::pool_sizes& sizes) { return phasor("Phasor", {.mixed_pool = sizes.mixed != 0}, sizes); }

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

std::string show_change(const estimate& e) { return fmt::format("{:+.0f} ± {:.0f} %", e.mean, e.half_width); }

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

/// As many requests as are counted in a run of a closed loop, and the most that are tried in flight.
std::size_t capacity_requests(const options& o) { return o.quick ? 100 : 4000; }

void capacity(page& p, const options& all_seeds) {
  p.heading("Figure 5: concurrency within the promises");
  options o = all_seeds;
  o.seeds = std::min<std::size_t>(o.seeds, 5);
  p.text(fmt::format(
      "The most requests in flight of a closed loop, up to {0} (found by bisection to 2 %), with the P99 of TTFT and "
      "of TPOT within table 3, of {0} requests, after {1} times as many as are in flight and {3} more: the loop "
      "starts with everybody at once, and after one round only, as this page had it until 2026-11-25, that start "
      "still shows. {2} seeds. Paper: 1.1 to 2.0 times DistServe; 1.85 times on the production mix, 1.66 on code, "
      "1.41 on translation. *Best pools*: those of all ways to divide eight workers that hold most, found on other "
      "requests, half as many. `due-first` is told the promises, as `phasor` is, and nothing of the requests: it "
      "starts with all workers alike, and divides them when it knows enough.",
      capacity_requests(o), warmup_rounds, o.seeds, capacity_requests(o) / 4));
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
    return show_change(sim::estimate_mean(changes));
  };
  std::vector<std::vector<std::string>> rows;
  plot bars{.title = "Requests in flight within the promises",
            .x_label = "",
            .y_label = "relative to DistServe 4/4",
            .curves = {},
            .drawn_as = style::bars};
  for (const char* name :
       {"Splitwise", "DistServe", "its best", "Phasor", "its best pools", "colocated", "due-first"}) {
    bars.curves.push_back({name, {}, {}});
  }
  for (std::size_t a = 0; a != kinds.size(); ++a) {
    std::array<estimate, n> e;
    for (std::size_t c = 0; c != n; ++c) e[c] = sim::estimate_mean(found[a * n + c]);
    const auto times = [&](std::size_t ours, std::size_t theirs) {
      return e[theirs].mean > 0 ? fixed(e[ours].mean / e[theirs].mean) : "-";
    };
    rows.push_back(
        {fmt::format("{} ({})", kinds[a].task, kinds[a].name), with_interval(e[0], 0), with_interval(e[1], 0),
         fmt::format("{}: {}", phasor_setting::show(best[a][0]), with_interval(e[2], 0)), with_interval(e[3], 0),
         fmt::format("{}: {}", phasor_setting::show(best[a][1]), with_interval(e[4], 0)), with_interval(e[5], 0),
         with_interval(e[6], 0), times(3, 1), times(4, 1), times(4, 2), ours_to_best(a)});
    for (std::size_t c = 0; c != n; ++c) bars.curves[c].y.push_back(e[1].mean > 0 ? e[c].mean / e[1].mean : 0);
    bars.x_names.emplace_back(kinds[a].name);
  }
  p.table({"", "Splitwise", "DistServe 4/4", "DistServe, best split", "Phasor 3/3/2", "Phasor, best pools", "colocated",
           "`due-first`", "Phasor 3/3/2 / DistServe 4/4", "Phasor best / DistServe 4/4", "Phasor best / DistServe best",
           "`due-first` / the best of the others, seed by seed"},
          rows);
  p.figure("figure5", "Concurrency within the promises, relative to DistServe 4/4", bars);
}

void fragmentation(page& p, const options& o) {
  p.heading("Figure 6: fragmentation");
  p.text(
      "Code (S-L) at 10 requests a second: decode memory binds. Two measures, as parts of the decode memory. "
      "*Stranded*: free blocks of workers that have fewer than a typical request needs (H_frag with d = P95 of the "
      "prompts and one block). *Blocked*: all free blocks, at moments when a request waits on one worker for memory "
      "that the workers together have. Paper: baselines peak at 49.65 %, Phasor 6.2 % on average and 7.29 % at the "
      "baselines' peak.");
  const std::vector<contestant> all{splitwise(), distserve(), phasor("Phasor", {}),
                                    phasor("Phasor without defragmentation", {.defragments = false})};
  const auto runs = run_all(o, all.size(), [&](std::size_t i, std::uint64_t seed) {
    const auto rows = steady(find("S-L"), 10, requests_at(o, 10), seed);
    return all[i].run(cluster_of(testbed(), rows.size()), find("S-L"), rows);
  });
  std::vector<std::vector<std::string>> table;
  plot lines{.title = "Decode memory that is free while a request waits for it",
             .x_label = "seconds",
             .y_label = "part of the decode memory",
             .curves = {}};
  for (std::size_t i = 0; i != all.size(); ++i) {
    const auto measure = [&](const char* name) {
      return mean_of(runs[i], [&](const run_result& r) { return 100 * r.measures.at(name); });
    };
    std::vector<sim::load_verdict> load;
    for (const run_result& r : runs[i]) load.push_back(r.numbers.load);
    table.push_back(
        {all[i].name, with_interval(measure("blocked_memory_mean"), 1) + " %",
         with_interval(measure("blocked_memory_peak"), 1) + " %",
         number(mean_of(runs[i], [](const run_result& r) { return 100 * r.numbers.fragmentation_mean; }).mean, 2) +
             " %",
         with_interval(
             measure("defragmentation_moves").mean > 0
                 ? mean_of(runs[i], [](const run_result& r) { return r.measures.at("defragmentation_moves"); })
                 : estimate{.mean = 0, .half_width = 0},
             0),
         with_interval(mean_of(runs[i], [](const run_result& r) { return r.numbers.e2e.p99; }), 0), verdict_of(load)});
    series s{all[i].name, {}, {}};
    for (const auto& [t, value] : runs[i].front().curves.at("blocked")) {
      s.x.push_back(t);
      s.y.push_back(value);
    }
    lines.curves.push_back(std::move(s));
  }
  p.table({"", "blocked, mean", "blocked, peak", "stranded, mean", "moves", "P99 end to end, s", "load"}, table);
  p.text(
      "Stranded memory in the first sense cannot be large here: a worker has 14,779 blocks, and a worker with fewer "
      "than d = 10 to 150 of them free strands at most 1 %. The paper's 49.65 % needs a definition in which free "
      "memory far above the demand of one request counts; the second measure is one, and shows the paper's picture.");
  p.figure("figure6", "Blocked memory over time, first seed", lines);
}

void skew(page& p, const options& o) {
  p.heading("Figure 7: queues under memory-aware routing");
  p.text(
      "Production mix; 35 requests a second from 90 s to 210 s, as many as four of these workers cannot compute. Mean "
      "length of the longest prefill queue over that of the others, all of the run. Paper: 2.4 under memory-aware "
      "routing, uniform under compute-aware.");
  const contestant by_memory{"memory-aware",
                             [](const sim::cluster_options& c, const archetype&, const std::vector<trace_row>& rows) {
                               return simulate(c, {workers / 2, workers / 2, 0}, sim::memory_aware{}, rows);
                             }};
  const std::vector<contestant> all{by_memory, distserve(), phasor("Phi", {.mixed_pool = false})};
  const auto runs = run_all(o, all.size(), [&](std::size_t i, std::uint64_t seed) {
    const auto rows = shock(find("mix"), seed, 120, 35);
    return all[i].run(cluster_of(testbed(), rows.size()), find("mix"), rows);
  });
  std::vector<std::vector<std::string>> table;
  for (std::size_t i = 0; i != all.size(); ++i) {
    table.push_back(
        {all[i].name,
         with_interval(mean_of(runs[i], [](const run_result& r) { return r.measures.at("prefill_queue_skew"); })),
         with_interval(mean_of(runs[i], [](const run_result& r) { return r.numbers.ttft.p99; }), 1)});
  }
  p.table({"routing", "skew", "P99 TTFT, s"}, table);
  for (const std::size_t i : {std::size_t{0}, all.size() - 1}) {
    plot lines{.title = fmt::format("Prefill queues, {}", all[i].name),
               .x_label = "seconds",
               .y_label = "prompts",
               .curves = {}};
    for (std::size_t w = 0; w != workers / 2; ++w) {
      series s{fmt::format("worker {}", w), {}, {}};
      for (const auto& [t, value] : runs[i].front().curves.at(fmt::format("queue {}", w))) {
        s.x.push_back(t);
        s.y.push_back(value);
      }
      lines.curves.push_back(std::move(s));
    }
    p.figure(i == 0 ? "figure7-memory" : "figure7-phi", fmt::format("Prefill queues, {}, first seed", all[i].name),
             lines);
  }
}

void ablation(page& p, const options& o) {
  p.heading("Table 2: what each part contributes");
  const std::vector<contestant> all{splitwise(),
                                    distserve(),
                                    phasor("Phasor", {}),
                                    phasor("without Phi", {.by_phi = false}),
                                    phasor("without mixed pool", {.mixed_pool = false}),
                                    phasor("without defragmentation", {.defragments = false}),
                                    phasor_with_queues()};
  const std::vector<std::array<std::string, 7>> paper{{"1.22", "1.13", "1.34", "0.91", "0.86", "0.93", ""},
                                                      {"1.00", "1.00", "1.00", "1.00", "1.00", "1.00", ""},
                                                      {"0.66", "0.91", "0.74", "1.59", "1.63", "1.85", ""},
                                                      {"0.92", "0.95", "0.90", "1.42", "1.55", "1.52", ""},
                                                      {"0.72", "0.93", "0.82", "1.50", "1.58", "1.48", ""},
                                                      {"0.68", "0.96", "0.82", "1.35", "1.60", "1.68", ""},
                                                      {"-", "-", "-", "-", "-", "-", ""}};
  const std::size_t requests = capacity_requests(o);
  struct row {
    double summaries, code, mix, code_capacity, summaries_capacity, mix_capacity;
  };
  const auto runs = run_all(o, all.size(), [&](std::size_t i, std::uint64_t seed) {
    const auto run = [&](const char* name, double rate) {
      const auto rows = steady(find(name), rate, requests_at(o, rate), seed);
      return all[i].run(cluster_of(testbed(), rows.size()), find(name), rows).numbers;
    };
    return row{run("L-S", 10).ttft.p99,
               run("S-L", 10).e2e.p99,
               run("mix", 30).e2e.p99,
               slo_concurrency(all[i], find("S-L"), requests, requests, seed),
               slo_concurrency(all[i], find("L-S"), requests, requests, seed),
               slo_concurrency(all[i], find("mix"), requests, requests, seed)};
  });
  const std::array<double row::*, 6> columns{
      &row::summaries, &row::code, &row::mix, &row::code_capacity, &row::summaries_capacity, &row::mix_capacity};
  std::vector<std::vector<std::string>> table;
  for (std::size_t i = 0; i != all.size(); ++i) {
    std::vector<std::string> cells{all[i].name};
    for (std::size_t c = 0; c != columns.size(); ++c) {
      const auto get = [&](const row& r) { return r.*columns[c]; };
      const double base = mean_of(runs[1], get).mean;
      cells.push_back(fmt::format("{} ({})", base > 0 ? fixed(mean_of(runs[i], get).mean / base) : "-", paper[i][c]));
    }
    table.push_back(std::move(cells));
  }
  p.text(
      "Relative to DistServe; the paper's value (Qwen2.5-7B) in brackets. P99: TTFT of summaries at 10 requests a "
      "second, end to end of code at 10 and of the mix at 30. Capacity: as in figure 5.");
  p.table({"", "P99 summaries", "P99 code", "P99 mix", "capacity code", "capacity summaries", "capacity mix"}, table);
}

void sensitivity(page& p, const options& o) {
  p.heading("Table 5: sensitivity");
  const std::vector<contestant> all{phasor("as published", {}),
                                    phasor("alpha x 0.5", {.alpha = 0.5}),
                                    phasor("alpha x 2", {.alpha = 2}),
                                    phasor("theta_frag 0.10", {.theta_frag = 0.10}),
                                    phasor("theta_frag 0.35", {.theta_frag = 0.35}),
                                    phasor("epoch 20 ms", {.epoch_s = 0.02}),
                                    phasor("epoch 200 ms", {.epoch_s = 0.2}),
                                    phasor("theta_flow 0.50", {.theta_flow = 0.5}),
                                    phasor("theta_flow 0.80", {.theta_flow = 0.8})};
  const std::array<const char*, 9> paper{"1 / 1",       "1.14 / 1.18", "0.99 / 1.00", "1.09 / 1.12", "1.00 / 1.00",
                                         "0.99 / 0.99", "1.06 / 1.08", "1.02 / 1.01", "1.04 / 1.03"};
  const auto runs = run_all(o, all.size(), [&](std::size_t i, std::uint64_t seed) {
    const auto rows = steady(find("mix"), 20, requests_at(o, 20), seed);
    return all[i].run(cluster_of(testbed(), rows.size()), find("mix"), rows).numbers;
  });
  const auto e2e = [](const sim::summary& s) { return s.e2e.p99; };
  const auto ttft = [](const sim::summary& s) { return s.ttft.p99; };
  std::vector<std::vector<std::string>> table;
  for (std::size_t i = 0; i != all.size(); ++i) {
    table.push_back({all[i].name, fixed(mean_of(runs[i], e2e).mean / mean_of(runs[0], e2e).mean),
                     fixed(mean_of(runs[i], ttft).mean / mean_of(runs[0], ttft).mean), paper[i]});
  }
  p.text("Production mix at 20 requests a second, relative to the published settings.");
  p.table({"", "P99 end to end", "P99 TTFT", "paper, both"}, table);
  p.text(
      "The two rows of theta_frag cannot differ from 1 by which workers are defragmented, and are no confirmation of "
      "the paper's. H_frag, for which the paper has no formula, is here all that is free where that is less than d; "
      "so a worker with stranded blocks has a Phi_S of 0, below any threshold. What changes with theta_frag is the "
      "Phi_S that a worker keeps when it takes sequences.");
}

void energy(page& p, const options& o) {
  p.heading("Table 6: energy");
  constexpr double idle_watts = 60;
  constexpr double busy_watts = 250;
  p.text(
      fmt::format("Production mix at 30 requests a second. The power model is an assumption, not a measurement: a V100 "
                  "draws {} W in a step and {} W between two.",
                  busy_watts, idle_watts));
  const std::vector<contestant> all{splitwise(), distserve(), phasor("Phasor", {})};
  const std::array<const char*, 3> paper{"1315 / 0.243", "1410 / 0.201", "1720 / 0.175"};
  const auto runs = run_all(o, all.size(), [&](std::size_t i, std::uint64_t seed) {
    const auto rows = steady(find("mix"), 30, requests_at(o, 30), seed);
    return all[i].run(cluster_of(testbed(), rows.size()), find("mix"), rows);
  });
  const auto seconds = [](const run_result& r) {
    double last = 0;
    for (const sim::request_record& q : r.requests) last = std::max(last, q.finish);
    return last - r.requests.front().arrival;
  };
  const auto joules = [&](const run_result& r) {
    double sum = idle_watts * seconds(r) * workers;
    for (const sim::instance_facts& f : r.instances) sum += (busy_watts - idle_watts) * f.busy_s;
    return sum;
  };
  const auto outputs = [](const run_result& r) {
    double sum = 0;
    for (const sim::instance_facts& f : r.instances) sum += static_cast<double>(f.output_tokens);
    return sum;
  };
  std::vector<std::vector<std::string>> table;
  for (std::size_t i = 0; i != all.size(); ++i) {
    table.push_back(
        {all[i].name, fixed(mean_of(runs[i], [&](const run_result& r) { return joules(r) / seconds(r); }).mean, 0),
         fixed(mean_of(runs[i], [&](const run_result& r) { return outputs(r) / seconds(r); }).mean, 0),
         fixed(mean_of(runs[i], [&](const run_result& r) { return joules(r) / outputs(r); }).mean, 3), paper[i]});
  }
  p.table({"", "watts", "output tokens per s", "joules per output token", "paper: watts / joules"}, table);
}

void run(const options& o) {
  page p{o, "Phasor, reproduced in simulation"};
  setup(p, o);
  if (!o.quick) conclusions(p);
  starvation(p, o);
  phantom(p);
  latency(p, o);
  waiting_kv(p, o);
  capacity(p, o);
  fragmentation(p, o);
  skew(p, o);
  ablation(p, o);
  sensitivity(p, o);
  energy(p, o);
  p.finish();
}

[[maybe_unused]] const bool added =
    add({"phasor", "figures 1, 2, 4 to 7, 10, tables 2, 5, 6: one headroom signal for prefill and decode pools", run});

}  // namespace
