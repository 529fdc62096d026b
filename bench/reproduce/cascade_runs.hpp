// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What the parts of CascadeInfer's evaluation share: testbeds, systems, and runs.

#include "cascade_setting.hpp"

#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/planning/cascade_plan.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace reproduce::cascade_runs {

using namespace tessera;
using namespace reproduce::cascade_setting;

// -- testbeds --------------------------------------------------------------------------------------------------------

inline sim::model_spec llama_8b() { return sim::find_profile("h200-llama-3.1-8b").model; }
inline sim::model_spec qwen_32b() {
  sim::model_spec m = sim::find_profile("h100-96gb-qwen-32b").model;
  m.name = "Qwen-2.5-32B";
  return m;
}

inline sim::model_spec llama_70b() {
  return {
      .name = "Llama-3.1-70B", .parameters = 70.6e9, .layers = 80, .query_heads = 64, .kv_heads = 8, .head_dim = 128};
}

/// 181 Tflop/s, 864 GB/s, 48 GB, 142 multiprocessors; PCIe 4.0 x16 to the network.
inline sim::profile on_l40(const sim::model_spec& m) {
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
inline sim::profile in_parallel(sim::profile p, int ways) {
  p.name += fmt::format(" TP={}", ways);
  p.model.parameters /= ways;
  p.model.query_heads /= ways;
  p.model.kv_heads /= ways;
  p.gpu.launch_seconds += 30e-6 * static_cast<double>(p.model.layers);
  return p;
}

// -- systems ---------------------------------------------------------------------------------------------------------

inline contestant llumnix() { return {"Llumnix-like", runs(published("llumnix"))}; }

/// Systems that know nothing of lengths, then CascadeInfer as published and ours.
inline std::vector<contestant> all_systems() {
  return {{"round-robin", runs(published("in-turn"))},
          llumnix(),
          // What any policy could have: a placement that counts what waits, and steps that prompts do not stretch.
          {"least load, bounded steps", runs(published("sarathi"))},
          cascade("CascadeInfer"),
          cascade("steady", sim::layout::steady)};
}

inline constexpr std::size_t systems = 5;
inline constexpr std::size_t baselines = 3;

/// One point of an experiment: a workload at a rate on a testbed, under one system.
struct point {
  source from;
  sim::profile testbed;
  double rate = 1;
  contestant system;
  std::size_t instances = gpus;
  double memory = 1;
  double seconds = 40;  ///< For which requests arrive.
  double warmup = 0;    ///< The first of these, which are not measured.
  unloaded slo{};
};

inline numbers run_point(const options& o, const point& p, std::uint64_t seed) {
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
inline std::vector<samples> run_all(const options& o, const std::vector<point>& points) {
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

inline estimate mean_of(const samples& runs, double numbers::*what) {
  return mean_of(runs, [what](const numbers& r) { return r.*what; });
}

/// Seconds as milliseconds.
inline estimate in_ms(const samples& s, double numbers::*what) {
  return mean_of(s, [what](const numbers& r) { return 1e3 * (r.*what); });
}

/// The mean over the seeds of ours / theirs: both have the same requests.
inline estimate ratio(const samples& ours, const samples& theirs, double numbers::*what) {
  std::vector<double> values;
  for (std::size_t i = 0; i != ours.size(); ++i) values.push_back(ours[i].*what / theirs[i].*what);
  return sim::estimate_mean(values);
}

/// The same as a change, in per cent.
inline estimate change(const samples& ours, const samples& theirs, double numbers::*what) {
  const estimate r = ratio(ours, theirs, what);
  return {.mean = 100 * (r.mean - 1), .half_width = 100 * r.half_width};
}

inline std::string describe_stages(const std::vector<partition::stage>& stages) {
  std::string out;
  for (const partition::stage& s : stages) {
    out += fmt::format("{}[{}, {}) x {}", out.empty() ? "" : ", ", s.from.count(),
                       s.to == partition::unbounded ? std::string{"..."} : std::to_string(s.to.count()), s.instances);
  }
  return out;
}

inline unloaded alone(const source& s, const sim::profile& p) {
  const rows_type rows = draw(s, 1, 40, 99);
  cluster_options c = cluster_of(p, rows.size(), 1);
  c.in_flight = 1;
  const run_result r = simulate(c, sim::placed<tessera::placement::round_robin>{}, rows);
  return {r.numbers.ttft.mean, r.numbers.tpot.mean};
}

/// Figures 6, 7 and 10 of one workload: all systems at some loads.
struct load_point {
  std::string prefill;  ///< The part of the time that the prompts alone keep the instances busy, where that is chosen.
  double rate = 1;
};
struct sweep {
  std::string name;
  std::vector<point> points;
  std::vector<load_point> loads;  ///< One for each group of systems.
  std::vector<samples> runs;
};

// -- parts of the evaluation, each in a source of its own -------------------------------------------------------------

sweep sweep_of(const options& o, std::string name, const source& s, const sim::profile& t, std::size_t instances,
               const std::vector<load_point>& loads, bool with_slo = false, double seconds = 40, double warmup = 0);
void show_sweeps(results& out, const std::vector<sweep>& sweeps);
std::vector<load_point> loads_of(const source& s, const sim::profile& t, std::size_t instances,
                                 std::initializer_list<double> parts);
/// Figure 12: objectives that are met.
void attainment(results& out, const std::vector<const sweep*>& sweeps);
/// Figures 14 and 15: layouts, and how ranges are refined.
void variants(results& out, const options& o);
/// Figure 16: balance within stages.
void balance(results& out, const options& o);
/// What the gain over load-aware dispatch depends on.
void limits(results& out, const options& o);

}  // namespace reproduce::cascade_runs
