// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CascadeInfer's evaluation: figures 6 to 16.
#include "settings.hpp"

#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/planning/cascade_plan.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace {

using namespace tessera;
using namespace reproduce;
using namespace reproduce::cascade_setting;

// -- testbeds --------------------------------------------------------------------------------------------------------

sim::model_spec llama_8b() { return sim::find_profile("h200-llama-3.1-8b").model; }
sim::model_spec qwen_32b() {
  sim::model_spec m = sim::find_profile("h100-96gb-qwen-32b").model;
  m.name = "Qwen-2.5-32B";
  return m;
}
sim::model_spec llama_70b() {
  return {
      .name = "Llama-3.1-70B", .parameters = 70.6e9, .layers = 80, .query_heads = 64, .kv_heads = 8, .head_dim = 128};
}

/// 181 Tflop/s, 864 GB/s, 48 GB, 142 multiprocessors; PCIe 4.0 x16 to the network.
sim::profile on_l40(const sim::model_spec& m) {
  sim::profile p = on_h20(m);
  p.name = "l40 " + m.name;
  p.gpu.name = "L40 48 GB";
  p.gpu.flops = 181e12;
  p.gpu.flops_efficiency = 0.6;
  p.gpu.bytes_per_s = 864e9;
  p.gpu.memory_bytes = 48e9;
  p.links.fabric_bytes_per_s = 25e9;
  p.attention.multiprocessors = 142;
  return p;
}
/// Each of `ways` GPUs has as many of the heads and of every matrix, and runs two all-reduces a layer, 15 us each.
sim::profile in_parallel(sim::profile p, int ways) {
  p.name += fmt::format(" TP={}", ways);
  p.model.parameters /= ways;
  p.model.query_heads /= ways;
  p.model.kv_heads /= ways;
  p.gpu.launch_seconds += 30e-6 * static_cast<double>(p.model.layers);
  return p;
}

// -- systems ---------------------------------------------------------------------------------------------------------

contestant llumnix() { return {"Llumnix-like", runs(published("llumnix"))}; }

/// Those that know nothing of lengths, then CascadeInfer as published and ours.
std::vector<contestant> all_systems() {
  return {{"round-robin", runs(published("in-turn"))},
          llumnix(),
          // What any policy could have: a placement that counts what waits, and steps that prompts do not stretch.
          {"least load, bounded steps", runs(published("sarathi"))},
          cascade("CascadeInfer"),
          cascade("steady", sim::layout::steady)};
}
constexpr std::size_t systems = 5;
constexpr std::size_t baselines = 3;

/// One point of an experiment: a workload at a rate on a testbed, under one system.
struct point {
  source from;
  sim::profile testbed;
  double rate = 1;
  contestant system;
  std::size_t instances = gpus;
  double memory = 1;
  double seconds = 40;  ///< Of arrivals.
  double warmup = 0;    ///< Of these, not measured.
  unloaded slo{};
};

numbers run_point(const options& o, const point& p, std::uint64_t seed) {
  const auto wanted = static_cast<std::size_t>(p.rate * p.seconds);
  const std::size_t n = o.quick ? 120 : std::max<std::size_t>(wanted, 200);
  cluster_options c = cluster_of(p.testbed, n, p.instances, p.memory);
  if (!o.quick) c.warmup_s = p.warmup;
  // The history that stages are planned from is traffic of the same kind, not the run's own.
  return measure(
      p.system.run(c, draw(p.from, p.rate, o.quick ? 200 : 4000, 1000 + seed), draw(p.from, p.rate, n, seed)), p.slo);
}

using samples = std::vector<numbers>;

/// All points under every seed, in parallel.
std::vector<samples> run_all(const options& o, const std::vector<point>& points) {
  std::vector<samples> out(points.size(), samples(o.seeds));
  sim::run_parallel(points.size() * o.seeds, o.threads, [&](std::size_t k) {
    out[k / o.seeds][k % o.seeds] = run_point(o, points[k / o.seeds], k % o.seeds + 1);
  });
  return out;
}

template <class Get>
estimate mean_of(const samples& runs, Get&& get) {
  std::vector<double> values;
  for (const numbers& r : runs) values.push_back(get(r));
  return sim::estimate_mean(values);
}
estimate mean_of(const samples& runs, double numbers::*what) {
  return mean_of(runs, [what](const numbers& r) { return r.*what; });
}

std::string fixed(double x, int digits = 2) { return std::isnan(x) ? "-" : fmt::format("{:.{}f}", x, digits); }
std::string show(const estimate& e, int digits) {
  return fmt::format("{:.{}f} ± {:.{}f}", e.mean, digits, e.half_width, digits);
}
std::string show_ms(const samples& s, double numbers::*what) {
  return show(mean_of(s, [what](const numbers& r) { return 1e3 * (r.*what); }), 1);
}
/// The mean over the seeds of ours / theirs - 1, by seed: both have the same requests.
std::string change(const samples& ours, const samples& theirs, double numbers::*what) {
  std::vector<double> values;
  for (std::size_t i = 0; i != ours.size(); ++i) values.push_back(100 * (ours[i].*what / theirs[i].*what - 1));
  const estimate e = sim::estimate_mean(values);
  return fmt::format("{:+.0f} ± {:.0f} %", e.mean, e.half_width);
}
std::string ratio(const samples& ours, const samples& theirs, double numbers::*what) {
  std::vector<double> values;
  for (std::size_t i = 0; i != ours.size(); ++i) values.push_back(ours[i].*what / theirs[i].*what);
  const estimate e = sim::estimate_mean(values);
  return fmt::format("{:.2f} ± {:.2f}", e.mean, e.half_width);
}
std::string describe_stages(const std::vector<partition::stage>& stages) {
  std::string out;
  for (const partition::stage& s : stages) {
    out += fmt::format("{}[{}, {}) x {}", out.empty() ? "" : ", ", s.from.count(),
                       s.to == partition::unbounded ? std::string{"..."} : std::to_string(s.to.count()), s.instances);
  }
  return out;
}

unloaded alone(const source& s, const sim::profile& p) {
  const rows_type rows = draw(s, 1, 40, 99);
  cluster_options c = cluster_of(p, rows.size(), 1);
  c.in_flight = 1;
  const run_result r = simulate(c, sim::placed<tessera::placement::round_robin>{}, rows);
  return {r.numbers.ttft.mean, r.numbers.tpot.mean};
}

// -- the parts of the page -------------------------------------------------------------------------------------------

void setup(page& p, const options& o) {
  p.text(fmt::format(
      "Sixteen simulated GPUs in FP16, one instance each, first come, first served with chunked prefill (at most 1,024 "
      "requests and 8,192 tokens a step, KV blocks of 16 tokens). H20: 148 Tflop/s, 4.8 TB/s, 141 GB, 400 Gbit/s "
      "between instances. Step times are a roofline, and the decode attention kernel does not split a sequence in a "
      "batch "
      "that fills the device, so that a batch waits for its longest sequence. Arrivals are Poisson, {} s of them in "
      "every run, as in the paper, but where another time is named; rates are given as the part of the time that the "
      "prompts alone would keep all instances busy, or in "
      "requests "
      "per second. Every number is a mean over {} seeds, ± its 95 % interval; changes are taken seed by seed.",
      40, o.seeds));
  p.text(fmt::format(
      "**Workloads.** *ShareGPT*: {} (mean 2,340 tokens in, 439 out; nothing is longer than 8,192; the paper discards "
      "above 128K). *Long-tailed*: the built-in `r1-servegen` (mean about 1,200 in, 1,550 out, up to 57,000 and "
      "33,000): "
      "many short requests and some very long, most of the time spent decoding.",
      o.data.empty() ? "the built-in quantiles of ShareGPT" : "lengths of ShareGPT conversations"));
  p.text(
      "**Systems.** *Round-robin*: independent instances, as the paper's vLLM. *Llumnix-like*: dispatch to the highest "
      "freeness, and live migration of the shortest request from the least to the most free instance every 0.5 s. "
      "*Least load, bounded steps*: what any policy could have: new requests go where the fewest tokens are held or "
      "waited for, and prompts come in chunks that keep a step within 50 ms. Changes are from round-robin, and from "
      "the best of these three in that number. "
      "*CascadeInfer*: as published: cost model fitted to profiled batches, stages by `exact`, ranges refined by "
      "quality "
      "every second, bid-ask between stages and at 25 % above the mean within them, messages of 50 µs on average. The "
      "paper does "
      "not say how a new request finds its instance within a stage; here it goes where the fewest tokens are. "
      "*Steady*: "
      "ours, the same mechanisms with stages planned for a steady load (`steady_plan`), and prompt tokens that are not "
      "computed yet counting eight times at dispatch. Stages are planned from other requests of the same workload than "
      "those of the run. The paper's SGLang and its newer Llumnix engine are other engines, not other policies; they "
      "are "
      "left out. So is figure 8: one instance runs the same scheduler under every policy here.");
  p.text(
      "**Throughput** is output tokens per second while requests arrive, from a third of the time on: the end of a run "
      "is "
      "the end of its longest output, which says nothing about a system in service.");
}

/// Of ten seeds, and of five where runs are long: what the tables below say.
void conclusions(page& p) {
  p.lead(
      "**What holds.** On the long-tailed workload stages pay, in the paper's 40 s and in service. *In runs of 40 s* "
      "CascadeInfer takes 34 to 59 % less time per token than the best of three baselines that know no lengths, and "
      "has 1.08 to 2.03 times their throughput, more as the load grows: at 200/s the paper's throughput, TTFT and TPOT "
      "are all reached. *In runs of 40 minutes* it takes 67 ± 7 % less time per token at 30/s, which all carry, and 68 "
      "± 8 % less at 40/s, where the baselines are about to fall behind; at 50/s and 60/s nobody keeps up, but "
      "CascadeInfer leaves 4 and 14 % of what arrives behind, the baselines 21 and 34 %, at 1.14 and 1.22 times their "
      "throughput. `steady`, the same mechanisms planned for a steady load, takes 82 and 87 % less time per token at "
      "30/s and 40/s with 23 and 52 % less TTFT, and carries 40/s in all five runs.");
  p.lead(
      "**What does not.** *Who pays for it*: from 60/s to 120/s in the 40 s mean TTFT is 39 to 69 % above the best "
      "baseline's, and at 200/s, where everything is overloaded, P99 TTFT is 117 s against 20 to 34 s. In 40 minutes "
      "at 40/s one run of five falls behind, and the mean of the TTFT, 11.5 ± 22.5 s, says only that. *ShareGPT*, "
      "where nothing is longer than 8,192 tokens: no throughput is gained, and with the larger models a bound on the "
      "steps alone brings time per token lower than stages do. With prompts of a tenth of the length CascadeInfer "
      "fails there: a fifth of the throughput is lost, and requests wait for most of the run, which `steady` avoids. "
      "*Refining ranges* by quality changes little against not refining them; by memory, latency is 16 to 22 % higher "
      "and TTFT lower by 40 to 50 %, and by count all is worse. The balance within stages (figure 16) is the paper's "
      "in direction where ranges are refined, -32 ± 20 % and -18 ± 24 %, and within noise elsewhere; what the protocol "
      "evens out everywhere are the loads.");
}

void cost_model(page& p) {
  p.heading("Figure 13: the cost model");
  const sim::profile h20 = on_h20(llama_3b());
  const rows_type history = draw(long_chat(), 40, 4000, 1);
  const auto rows = sim::profile_costs(h20);
  cost::fit_result relative;
  cost::fit_result absolute;
  static_cast<void>(cost::fit(rows, {}, relative));
  static_cast<void>(cost::fit(rows, {.relative = false}, absolute));
  p.table({"", "mean error, held-out batches", "constant predictor"},
          {{"paper", "8.9 %", "64 %"},
           {"ours, relative least squares", fixed(100 * relative.held_out_error, 1) + " %",
            fixed(100 * relative.constant_error, 0) + " %"},
           {"ours, the paper's absolute least squares", fixed(100 * absolute.held_out_error, 1) + " %",
            fixed(100 * absolute.constant_error, 0) + " %"}});
  plot histogram{
      .title = "Prediction error", .x_label = "relative error", .y_label = "part of the batches", .curves = {}};
  series ours{"cost model", {}, {}};
  series constant{"constant", {}, {}};
  double mean = 0;
  for (const cost::profile_row& r : rows) mean += r.latency / static_cast<double>(rows.size());
  for (double x = -0.975; x < 1; x += 0.05) {
    double in = 0;
    double in_constant = 0;
    for (const cost::profile_row& r : rows) {
      const double e = relative.model.per_request(r.load) / r.latency - 1;
      const double c = mean / r.latency - 1;
      in += std::fabs(e - x) <= 0.025 ? 1 : 0;
      in_constant += std::fabs(c - x) <= 0.025 ? 1 : 0;
    }
    ours.x.push_back(x);
    ours.y.push_back(in / static_cast<double>(rows.size()));
    constant.x.push_back(x);
    constant.y.push_back(in_constant / static_cast<double>(rows.size()));
  }
  histogram.curves = {ours, constant};
  p.figure("figure13", "Relative error of the predicted normalised latency, all profiled batches", histogram);

  // The same model against the scheduler itself: closed loops with a constant number in flight.
  double error = 0;
  int loops = 0;
  for (const std::int64_t length : {256, 1024, 4096, 16384}) {
    for (const std::size_t batch : {std::size_t{4}, std::size_t{32}}) {
      rows_type loop;
      std::mt19937_64 random{7};
      cost::batch_features load;
      const std::size_t n = 4 * batch;
      for (std::size_t i = 0; i != n; ++i) {
        const auto prompt = length + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(length));
        const auto output = 128 + static_cast<std::int64_t>(random() % 256);
        loop.push_back({.prompt_tokens = prompt, .output_tokens = output, .answer_tokens = output});
        if (i >= batch && i < 2 * batch) load.join({tokens{prompt}, tokens{prompt + output / 2}});
      }
      cluster_options c = cluster_of(h20, n, 1);
      c.in_flight = batch;
      const run_result r = simulate(c, sim::placed<tessera::placement::round_robin>{}, loop);
      double latency = 0;
      double counted = 0;
      for (const sim::request_record& q : r.requests) {
        if (q.id < batch || q.id >= 3 * batch) continue;  // the loop's start and end are not a loop
        latency += q.normalized_latency();
        counted += 1;
      }
      error += std::fabs(relative.model.per_request(load.features()) / (latency / counted) - 1);
      ++loops;
    }
  }
  p.text(
      fmt::format("The profile measures batches by the step times. Against the scheduler itself, in closed loops of 4 "
                  "and 32 requests "
                  "of 256 to 32,768 tokens in flight on one instance, the mean error is {:.1f} %.",
                  100 * error / loops));
}

/// Figures 6, 7 and 10 of one workload: tables over rates.
struct sweep {
  std::string name;
  std::vector<point> points;
  std::vector<std::string> labels;  ///< One for each group of systems.
  std::vector<samples> runs;
};

sweep sweep_of(const options& o, std::string name, const source& s, const sim::profile& t, std::size_t instances,
               const std::vector<std::pair<std::string, double>>& rates, bool with_slo = false, double seconds = 40,
               double warmup = 0) {
  sweep out{.name = std::move(name), .points = {}, .labels = {}, .runs = {}};
  const unloaded slo = with_slo ? alone(s, t) : unloaded{};
  for (const auto& [label, rate] : rates) {
    out.labels.push_back(label);
    for (const contestant& c : all_systems()) {
      out.points.push_back({.from = s,
                            .testbed = t,
                            .rate = rate,
                            .system = c,
                            .instances = instances,
                            .seconds = seconds,
                            .warmup = warmup,
                            .slo = slo});
    }
  }
  out.runs = run_all(o, out.points);
  return out;
}

void show_sweep(page& p, const sweep& s) {
  std::vector<std::vector<std::string>> table;
  for (std::size_t g = 0; g != s.labels.size(); ++g) {
    const auto* group = s.runs.data() + systems * g;
    const auto best = [&](double numbers::*what, bool more) -> const samples& {
      std::size_t b = 0;
      for (std::size_t c = 1; c != baselines; ++c) {
        const double x = mean_of(group[c], what).mean, y = mean_of(group[b], what).mean;
        if (more ? x > y : x < y) b = c;
      }
      return group[b];
    };
    for (std::size_t c = 0; c != systems; ++c) {
      const samples& mine = group[c];
      const auto against = [&](double numbers::*what) {
        return c < baselines ? std::string{"-"}
                             : change(mine, group[0], what) + " / " + change(mine, best(what, false), what);
      };
      std::vector<sim::load_verdict> load;
      for (const numbers& r : mine) load.push_back(r.load);
      table.push_back({c == 0 ? s.labels[g] : "", s.points[systems * g + c].system.name,
                       show(mean_of(mine, &numbers::ttft), 3), against(&numbers::ttft),
                       fixed(mean_of(mine, &numbers::ttft_p99).mean), show_ms(mine, &numbers::tpot),
                       against(&numbers::tpot), fixed(1e3 * mean_of(mine, &numbers::tpot_p99).mean, 0),
                       show_ms(mine, &numbers::normalized), show(mean_of(mine, &numbers::throughput), 0),
                       c < baselines ? "-"
                                     : ratio(mine, group[0], &numbers::throughput) + " / " +
                                           ratio(mine, best(&numbers::throughput, true), &numbers::throughput),
                       verdict_of(load)});
    }
  }
  p.table(
      {"load", "", "TTFT, s", "to round-robin / best baseline", "P99, s", "TPOT, ms", "to round-robin / best baseline",
       "P99, ms", "normalised latency, ms", "tokens per s", "times round-robin / best baseline", "load"},
      table);
}

void draw_sweep(page& p, const std::string& file, const sweep& s, const std::vector<double>& x, const char* x_label) {
  const auto lines = [&](const char* suffix, const char* title, const char* y, double numbers::*what, bool log) {
    plot l{.title = title, .x_label = x_label, .y_label = y, .curves = {}, .log_y = log};
    for (std::size_t c = 0; c != systems; ++c) {
      series one{s.points[c].system.name, x, {}};
      for (std::size_t g = 0; g != s.labels.size(); ++g) one.y.push_back(mean_of(s.runs[systems * g + c], what).mean);
      l.curves.push_back(std::move(one));
    }
    p.figure(file + suffix, fmt::format("{}, {}", title, s.name), l);
  };
  lines("-ttft", "Mean time to first token", "seconds", &numbers::ttft, true);
  lines("-tpot", "Mean time per output token", "seconds", &numbers::tpot, true);
  lines("-throughput", "Throughput", "output tokens per second", &numbers::throughput, false);
}

std::vector<std::pair<std::string, double>> rates_of(const source& s, const sim::profile& t, std::size_t instances,
                                                     std::initializer_list<double> parts) {
  std::vector<std::pair<std::string, double>> out;
  for (const double part : parts) {
    const double rate = rate_for(s, t, instances, part);
    out.emplace_back(fmt::format("{:.2f} ({:.3g}/s)", part, rate), rate);
  }
  return out;
}

void attainment(page& p, const std::vector<const sweep*>& sweeps) {
  p.heading("Figure 12: SLO attainment");
  p.text(
      "Part of the requests whose TTFT and TPOT are both within 5, 10 and 20 times those of a request alone. Paper, "
      "3B: "
      "3.8 to 7.6 times the baselines' attainment at 5 times, 2.0 to 2.8 at 20 times.");
  std::vector<std::vector<std::string>> table;
  for (const sweep* s : sweeps) {
    for (std::size_t g = 0; g != s->labels.size(); ++g) {
      std::vector<std::string> cells{s->name, s->labels[g]};
      for (std::size_t c = 0; c != systems; ++c) {
        std::string text;
        for (std::size_t k = 0; k != 3; ++k) {
          const double part = mean_of(s->runs[systems * g + c], [k](const numbers& r) { return r.attained[k]; }).mean;
          text += (k == 0 ? "" : " / ") + fixed(100 * part, 0);
        }
        cells.push_back(text + " %");
      }
      table.push_back(std::move(cells));
    }
  }
  p.table({"", "load", "round-robin", "Llumnix-like", "least load, bounded steps", "CascadeInfer", "steady"}, table);
}

/// A comparison of variants at some rates of the long-tailed workload, 3B on H20.
void variants(page& p, const options& o, const std::vector<contestant>& all, const std::vector<double>& rates,
              std::size_t base) {
  std::vector<point> points;
  for (const double rate : rates) {
    for (const contestant& c : all) {
      points.push_back({.from = long_chat(), .testbed = on_h20(llama_3b()), .rate = rate, .system = c});
    }
  }
  const auto runs = run_all(o, points);
  std::vector<std::vector<std::string>> table;
  for (std::size_t i = 0; i != points.size(); ++i) {
    const samples& reference = runs[i / all.size() * all.size() + base];
    table.push_back({i % all.size() == 0 ? fmt::format("{:g}/s", points[i].rate) : "", points[i].system.name,
                     show(mean_of(runs[i], &numbers::ttft), 3), show_ms(runs[i], &numbers::normalized),
                     i % all.size() == base ? "-" : change(runs[i], reference, &numbers::normalized),
                     show(mean_of(runs[i], &numbers::throughput), 0),
                     i % all.size() == base ? "-" : ratio(runs[i], reference, &numbers::throughput)});
  }
  p.table(
      {"", "", "TTFT, s", "normalised latency, ms", "to " + all[base].name, "tokens per s", "times " + all[base].name},
      table);
}

void layouts(page& p, const options& o) {
  p.heading("Figure 14: layouts");
  p.text(
      "Long-tailed workload, 3B. Paper: CascadeInfer's layout has 30 % less latency and 7.1 % more throughput than the "
      "chain; no pipeline is worst. `exact` is the optimum of the paper's objective, `merge` the paper's heuristic for "
      "it.");
  variants(p, o,
           {cascade("exact"), cascade("merge (paper)", sim::layout::merge), cascade("bucketed", sim::layout::bucketed),
            cascade("chain", sim::layout::chain), cascade("flat", sim::layout::flat)},
           {90, 120}, 0);
  const sim::profile h20 = on_h20(llama_3b());
  std::vector<std::vector<std::string>> table;
  for (const auto& [name, from, rate] :
       {std::tuple{"ShareGPT", chat(o), 90.0}, std::tuple{"long-tailed", long_chat(), 90.0}}) {
    const rows_type history = draw(from, rate, o.quick ? 300 : 20'000, 1);
    const cluster_options c = cluster_of(h20, history.size());
    for (const auto& [method, how] :
         {std::pair{"exact", sim::layout::exact}, std::pair{"merge", sim::layout::merge},
          std::pair{"chain", sim::layout::chain}, std::pair{"steady", sim::layout::steady}}) {
      const sim::cascade_plan plan = sim::plan_cascade(c, history, rate, how);
      table.push_back({name, method, describe_stages(plan.stages), fixed(1e3 * plan.seconds, 1)});
    }
  }
  p.text(
      "The plans for ShareGPT at 90 and the long-tailed workload at 90 requests per second, from 20,000 requests, and "
      "how "
      "long planning took here (paper: 60 ms for its heuristic, an estimated 51 hours without):");
  p.table({"", "method", "stages", "ms"}, table);
}

void refinement(page& p, const options& o) {
  p.heading("Figure 15: range refinement");
  p.text(
      "Long-tailed workload, 3B, stages by `exact`. Paper: 21 % less latency and 12 % more throughput than the "
      "memory-based policy; by quantity is worst.");
  const auto by = [](sim::refinement r) { return [r](sim::cascade::config& c) { c.refine = r; }; };
  variants(p, o,
           {cascade("quality"), cascade("memory", sim::layout::exact, by(sim::refinement::memory)),
            cascade("count", sim::layout::exact, by(sim::refinement::count)),
            cascade("none", sim::layout::exact, by(sim::refinement::none))},
           {90, 120}, 0);
}

void balance(page& p, const options& o) {
  p.heading("Figure 16: balance within stages");
  p.text(
      "Four stages of four instances, cut at the quartiles of the final lengths; *refined* as the published system "
      "does, or left there. Coefficient of variation of the output tokens per instance, mean of the stages. Paper: the "
      "full protocol has 40 % less than hand-over alone and 47 % less than round-robin.");
  std::vector<std::vector<std::string>> table;
  for (const auto& [from, rate] : {std::pair{long_chat(), 30.0}, std::pair{chat(o), 7.0}, std::pair{chat(o), 70.0}}) {
    std::vector<std::int64_t> lengths;
    for (const trace_row& r : draw(from, rate, 4000, 1000)) lengths.push_back(r.prompt_tokens + r.output_tokens);
    std::sort(lengths.begin(), lengths.end());
    std::vector<partition::stage> stages;
    for (std::size_t q = 0; q != 4; ++q) {
      stages.push_back({.from = q == 0 ? tokens{} : stages.back().to,
                        .to = q == 3 ? partition::unbounded : tokens{lengths[lengths.size() * (q + 1) / 4]},
                        .instances = 4});
    }
    for (const auto refine : {sim::refinement::quality, sim::refinement::none}) {
      std::vector<point> points;
      for (const auto& [name, how] :
           {std::pair{"round-robin", sim::stage_balance::in_turn},
            std::pair{"hand-over only", sim::stage_balance::hand_over}, std::pair{"full", sim::stage_balance::full}}) {
        contestant in_stages = cascade(name, sim::layout::exact, [stages, how, refine](sim::cascade::config& c) {
          c.stages = stages;
          c.balance = how;
          c.refine = refine;
        });
        points.push_back({.from = from, .testbed = on_h20(llama_3b()), .rate = rate, .system = std::move(in_stages)});
      }
      const auto runs = run_all(o, points);
      for (std::size_t i = 0; i != points.size(); ++i) {
        table.push_back({i == 0 ? fmt::format("{}, {:g}/s, {}", from.name, rate,
                                              refine == sim::refinement::none ? "ranges fixed" : "refined")
                                : "",
                         points[i].system.name, show(mean_of(runs[i], &numbers::stage_cv), 3),
                         i == 0 ? "-" : change(runs[i], runs[0], &numbers::stage_cv),
                         i == 2 ? change(runs[2], runs[1], &numbers::stage_cv) : "-",
                         show(mean_of(runs[i], &numbers::load_cv), 3),
                         i == 0 ? "-" : change(runs[i], runs[0], &numbers::load_cv),
                         show(mean_of(runs[i], &numbers::ttft), 3), show_ms(runs[i], &numbers::normalized)});
      }
    }
  }
  p.table({"", "", "CV of output tokens", "to round-robin", "to hand-over", "CV of the loads", "to round-robin",
           "TTFT, s", "normalised latency, ms"},
          table);
}

/// What the gain over load-aware dispatch depends on.
void limits(page& p, const options& o) {
  p.heading("What the gain depends on");
  p.text(
      "CascadeInfer and steady against the Llumnix-like baseline while one thing changes; 3B on H20. *Bound*: the same "
      "baseline on an attention kernel that spreads every batch perfectly: no grouping by length can take more from "
      "the "
      "kernel than this.");
  const sim::profile h20 = on_h20(llama_3b());
  struct variation {
    std::string what;
    source from;
    sim::profile testbed;
    double rate;
    double memory = 1;
  };
  std::vector<variation> all;
  const auto with_splits = [&](double splits) {
    sim::profile t = h20;
    t.attention.splits = splits;
    return t;
  };
  for (const double splits : {1.0, 4.0, 16.0}) {
    all.push_back({fmt::format("long-tailed, 90/s, {:g} splits", splits), long_chat(), with_splits(splits), 90});
  }
  for (const double memory : {0.5, 0.25}) {
    all.push_back({fmt::format("long-tailed, 90/s, {:g} of the KV memory", memory), long_chat(), h20, 90, memory});
  }
  for (const double prompts : {1.0, 0.3, 0.1}) {
    source s = chat(o);
    s.prompts = prompts;
    // Prompts and outputs together load the instances about equally.
    all.push_back({fmt::format("ShareGPT, prompts x {:g}", prompts), s, h20,
                   prompts == 1.0   ? 90.0
                   : prompts == 0.3 ? 200.0
                                    : 330.0});
  }
  if (!o.data.empty()) {
    for (const double share : {0.01, 0.05}) {
      source s = chat(o);
      s.tail = sim::read_trace((o.data / "mooncake_synthetic.csv").string()).rows;
      s.tail_share = share;
      all.push_back({fmt::format("ShareGPT, {:g} % of Mooncake's requests (to 128K)", 100 * share), s, h20,
                     share < 0.03 ? 82.0 : 55.0});
    }
  }
  std::vector<point> points;
  for (const variation& v : all) {
    sim::profile perfect = v.testbed;
    perfect.attention.multiprocessors = 0;
    points.push_back({.from = v.from, .testbed = v.testbed, .rate = v.rate, .system = llumnix(), .memory = v.memory});
    points.push_back(
        {.from = v.from, .testbed = v.testbed, .rate = v.rate, .system = cascade("CascadeInfer"), .memory = v.memory});
    points.push_back({.from = v.from,
                      .testbed = v.testbed,
                      .rate = v.rate,
                      .system = cascade("steady", sim::layout::steady),
                      .memory = v.memory});
    points.push_back({.from = v.from, .testbed = perfect, .rate = v.rate, .system = llumnix(), .memory = v.memory});
  }
  const auto runs = run_all(o, points);
  std::vector<std::vector<std::string>> table;
  for (std::size_t i = 0; i != all.size(); ++i) {
    const samples& base = runs[4 * i];
    const auto three = [&](double numbers::*what) {
      return change(runs[4 * i + 1], base, what) + " / " + change(runs[4 * i + 2], base, what) + " / " +
             change(runs[4 * i + 3], base, what);
    };
    table.push_back({all[i].what, three(&numbers::ttft), three(&numbers::tpot), three(&numbers::throughput)});
  }
  p.table({"CascadeInfer / steady / bound, to Llumnix-like", "TTFT", "TPOT", "throughput"}, table);
  p.text(
      "The bound is on what the kernel can give back, not on a mean over requests: stages also give short requests "
      "small "
      "batches of short requests, so that their time per token, and with it the mean, can fall further. Where prompts "
      "take most of the time, or the kernel splits long sequences, there is little to give back.");
}

void run(const options& o) {
  page p{o, "CascadeInfer, reproduced in simulation"};
  setup(p, o);
  if (!o.quick) conclusions(p);
  const sim::profile small = on_h20(llama_3b());

  p.heading("Figures 6, 7 and 10: latency and throughput");
  p.text(
      "Paper, heavy load: mean TTFT -67 to -78 % against vLLM and -36 to -66 % against Llumnix, mean TPOT -30 to -64 % "
      "and "
      "-3.4 to -56 %, throughput 1.99 and 1.71 times.");
  const std::vector<double> long_rates{30, 60, 90, 120, 200};
  const auto labelled = [](const std::vector<double>& rates) {
    std::vector<std::pair<std::string, double>> out;
    for (const double r : rates) out.emplace_back(fmt::format("{:g}/s", r), r);
    return out;
  };
  p.text("**Long-tailed, Llama-3.2-3B**");
  const sweep long_sweep = sweep_of(o, "long-tailed", long_chat(), small, gpus, labelled(long_rates), true);
  show_sweep(p, long_sweep);
  draw_sweep(p, "long", long_sweep, long_rates, "requests per second");

  const std::vector<double> parts{0.25, 0.5, 0.7, 0.85};
  p.text("**ShareGPT, Llama-3.2-3B**");
  const sweep chat_sweep =
      sweep_of(o, "ShareGPT", chat(o), small, gpus, rates_of(chat(o), small, gpus, {0.25, 0.5, 0.7, 0.85}), true);
  show_sweep(p, chat_sweep);
  draw_sweep(p, "sharegpt", chat_sweep, parts, "load of the prompts");
  for (const sim::model_spec& m : {llama_8b(), qwen_14b(), qwen_32b()}) {
    p.text(fmt::format("**ShareGPT, {}**", m.name));
    const sim::profile t = on_h20(m);
    show_sweep(p, sweep_of(o, m.name, chat(o), t, gpus, rates_of(chat(o), t, gpus, {0.5, 0.75})));
  }
  attainment(p, {&long_sweep, &chat_sweep});

  p.heading("Steady state");
  options fewer = o;
  fewer.seeds = std::min<std::size_t>(o.seeds, 5);
  constexpr double minute = 60;
  p.text(fmt::format(
      "The runs above are 40 s, in which no output of this workload's longest tenth ends: what they show is a cluster "
      "that fills. Its longest outputs take up to half an hour. So here requests arrive for 40 minutes, and those of "
      "the "
      "first 13 are not measured; {} seeds. \"Load\" says of how many of the runs what is true: the queue grows "
      "(overload; Mann-Kendall, and Theil-Sen above 1 % of the arrivals), nothing grows (carried), or no more wait but "
      "more and more run (unsettled); in brackets, by what part of the arrivals the queue grows on average. Where the "
      "load is not carried latencies say how long the run was.",
      fewer.seeds));
  p.text("**Long-tailed, Llama-3.2-3B, 40 minutes**");
  const std::vector<double> steady_rates{30, 40, 50, 60};
  const sweep steady_sweep = sweep_of(fewer, "40 minutes", long_chat(), small, gpus, labelled(steady_rates), false,
                                      40 * minute, 40 * minute / 3);
  show_sweep(p, steady_sweep);
  draw_sweep(p, "steady", steady_sweep, steady_rates, "requests per second");
  p.text("**ShareGPT, Llama-3.2-3B, 15 minutes, of which the first 5 are not measured**");
  show_sweep(p, sweep_of(fewer, "15 minutes", chat(o), small, gpus, rates_of(chat(o), small, gpus, {0.5, 0.7}), false,
                         15 * minute, 5 * minute));

  p.heading("Figures 9 and 11: another testbed, and tensor parallelism");
  p.text(
      "Paper, L40: 45 to 67 % less normalised latency, throughput 1.37 times vLLM's and 1.34 times Llumnix's. "
      "Llama-3.1-70B: 27 to 65 % less latency and 1.31 to 2.53 times the throughput on 2 GPUs, 49 to 64 % and 2.89 to "
      "4.16 "
      "times on 4. Long-tailed workload; the rates are where the baselines begin to queue.");
  p.text("**Llama-3.2-3B on 16 L40**");
  show_sweep(p, sweep_of(o, "L40", long_chat(), on_l40(llama_3b()), gpus, {{"8/s", 8}, {"14/s", 14}}));
  for (const int ways : {2, 4}) {
    p.text(fmt::format("**Llama-3.1-70B on 16 H20, TP={}**", ways));
    const sim::profile t = in_parallel(on_h20(llama_70b()), ways);
    const double scale = ways == 2 ? 1 : 2;
    show_sweep(p, sweep_of(o, t.name, long_chat(), t, gpus / static_cast<std::size_t>(ways),
                           {{fmt::format("{:g}/s", 2 * scale), 2 * scale},
                            {fmt::format("{:g}/s", 3.5 * scale), 3.5 * scale}}));
  }

  cost_model(p);
  layouts(p, o);
  refinement(p, o);
  balance(p, o);
  limits(p, o);
  p.finish();
}

[[maybe_unused]] const bool added = add({"cascade", "figures 6, 7, 9 to 16: stages by length", run});

}  // namespace
