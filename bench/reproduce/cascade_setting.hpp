// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "settings.hpp"

#include <tessera/compose/fcfs.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/planning/cascade_plan.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>

/// @file
/// CascadeInfer's clusters, systems, loads and measures.

namespace reproduce {

namespace cascade_setting {

inline constexpr std::size_t gpus = 16;
inline constexpr double kernels_per_layer_s = 20e-6;  // 8 kernels of 2.5 us, as in the built-in profiles
inline sim::model_spec llama_3b() { return sim::find_profile("h20-llama-3.2-3b").model; }
inline sim::model_spec qwen_14b() {
  return {
      .name = "Qwen-2.5-14B", .parameters = 14.77e9, .layers = 48, .query_heads = 40, .kv_heads = 8, .head_dim = 128};
}

inline sim::profile on_h20(const sim::model_spec& m) {
  sim::profile p = sim::find_profile("h20-llama-3.2-3b");
  p.name = "h20 " + m.name;
  p.model = m;
  p.gpu.launch_seconds = kernels_per_layer_s * static_cast<double>(m.layers);
  return p;
}

inline cluster_options cluster_of(const sim::profile& p, std::size_t rows, std::size_t instances = gpus,
                                  double memory = 1) {
  const tokens block_size{16};
  return {.instances = instances,
          .instance = {.limits = {.requests = rows,
                                  .blocks = static_cast<std::size_t>(
                                      memory * static_cast<double>(p.kv_blocks(block_size).count())),
                                  .block_size = block_size,
                                  .residents = 1024,
                                  .host_blocks = 200'000,
                                  .max_length = tokens{131'072}},
                       .step = {.max_batch = 1024, .token_budget = tokens{8192}},
                       .timer = sim::step_timer{p},
                       .swap_seconds_per_block = sim::swap_seconds(p, block_size)},
          .fabric_bytes_per_s = p.links.fabric_bytes_per_s,
          .kv_bytes_per_token = p.model.kv_bytes_per_token()};
}

/// Lengths to draw from, and what is done to them.
struct source {
  std::string name;
  rows_type rows{};  ///< Drawn from at random; empty: `built_in` is generated.
  const sim::workload* built_in = nullptr;
  rows_type tail{};       ///< Drawn from instead, so often:
  double tail_share = 0;  ///<
  double prompts = 1;     ///< Factor on the prompts that are not of the tail.
};

inline rows_type draw(const source& s, double rate, std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  const auto uniform = [&random] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  rows_type generated;
  if (s.rows.empty()) generated = sim::generate(*s.built_in, n, rate, seed);
  rows_type out;
  double at = 0;
  for (std::size_t i = 0; i != n; ++i) {
    at -= std::log1p(-uniform()) / rate;
    const bool tail = uniform() < s.tail_share;
    trace_row r = tail             ? s.tail[random() % s.tail.size()]
                  : s.rows.empty() ? generated[i]
                                   : s.rows[random() % s.rows.size()];
    if (!tail)
      r.prompt_tokens = std::max<std::int64_t>(1, std::llround(static_cast<double>(r.prompt_tokens) * s.prompts));
    // Phases do not matter here: the first token is the first of any.
    r.reasoning_tokens = 0;
    r.answer_tokens = r.output_tokens;
    r.prompt_tokens = std::min(r.prompt_tokens, std::int64_t{131'072} - r.output_tokens);
    r.arrival_s = at;
    out.push_back(r);
  }
  return out;
}

inline source chat(const options& o) {
  source s{.name = "ShareGPT", .built_in = &sim::find_workload("sharegpt")};
  if (!o.data.empty()) s.rows = sim::read_trace((o.data / "sharegpt_8k_lengths.csv").string()).rows;
  return s;
}

inline source long_chat() { return {.name = "long-tailed", .built_in = &sim::find_workload("r1-servegen")}; }
/// The rate at which the prefill of these prompts alone takes `part` of the time of all instances.
inline double rate_for(const source& s, const sim::profile& p, std::size_t instances, double part) {
  const sim::step_timer timer{p};
  double seconds = 0;
  const rows_type rows = draw(s, 1, 2000, 1);
  for (const trace_row& r : rows) {
    sim::step_shape shape;
    shape.add_prefill(tokens{}, tokens{r.prompt_tokens});
    seconds += timer(shape);
  }
  return part * static_cast<double>(instances) * static_cast<double>(rows.size()) / seconds;
}

/// What is compared. Seconds, and tokens per second.
struct numbers {
  double ttft = 0, ttft_p99 = 0, tpot = 0, tpot_p99 = 0, normalized = 0, throughput = 0, stage_cv = 0, load_cv = 0;
  sim::load_verdict load{};          ///< Where more arrives than is carried, latencies say how long the run was.
  std::array<double, 3> attained{};  ///< 5, 10 and 20 times the times without load.
};

/// Times of one request alone.
struct unloaded {
  double ttft = 1, tpot = 1;
};

inline numbers measure(const run_result& r, const unloaded& slo = {}) {
  numbers out{.ttft = r.numbers.ttft.mean,
              .ttft_p99 = r.numbers.ttft.p99,
              .tpot = r.numbers.tpot.mean,
              .tpot_p99 = r.numbers.tpot.p99,
              .normalized = r.numbers.normalized_latency.mean,
              .load = r.numbers.load};
  double last = 0;
  for (const sim::request_record& q : r.requests) last = std::max(last, q.arrival);
  // Throughput while requests arrive, without the first third: a run ends when its longest output does, which says
  // nothing about a system in service. Tokens come evenly between a request's first and last.
  const double first = last / 3;
  double generated = 0;
  for (const sim::request_record& q : r.requests) {
    if (!q.completed()) continue;
    const auto until = [&](double t) {
      if (t <= q.first_token) return 0.0;
      if (t >= q.finish) return static_cast<double>(q.output_tokens());
      return 1 + static_cast<double>(q.output_tokens() - 1) * (t - q.first_token) / (q.finish - q.first_token);
    };
    generated += until(last) - until(first);
    for (std::size_t k = 0; k != 3; ++k) {
      const double times = 5.0 * static_cast<double>(1U << k);
      const bool met = q.ttft() <= times * slo.ttft && !(q.tpot() > times * slo.tpot);
      out.attained[k] += met ? 1.0 / static_cast<double>(r.requests.size()) : 0.0;
    }
  }
  out.throughput = generated / (last - first);
  if (const auto cv = r.measures.find("stage_output_cv"); cv != r.measures.end()) out.stage_cv = cv->second;
  if (const auto cv = r.measures.find("stage_load_cv"); cv != r.measures.end()) out.load_cv = cv->second;
  return out;
}

/// A system of the comparison. What it knows of the traffic beforehand is in `history`: other requests of the same
/// kind.
struct contestant {
  std::string name;
  std::function<run_result(const cluster_options&, const rows_type& history, const rows_type& rows)> run;
};

template <class Control>
run_result simulate(const cluster_options& o, Control control, const rows_type& rows) {
  return sim::cluster_of<tessera::fcfs<sim::request>, Control>{o, {}, std::move(control)}.run(rows, [](std::size_t) {});
}

inline contestant cascade(std::string name, sim::layout how = sim::layout::exact,
                          const std::function<void(sim::cascade::config&)>& change = {}) {
  return {std::move(name), [how, change](const cluster_options& o, const rows_type& history, const rows_type& rows) {
            const sim::cascade_plan plan = sim::plan_cascade(o, history, sim::arrival_rate(history), how);
            sim::cascade::config c =
                how == sim::layout::steady ? sim::steady_cascade(plan) : sim::published_cascade(plan);
            if (change) change(c);
            return simulate(o, sim::cascade{c}, rows);
          }};
}

}  // namespace cascade_setting

}  // namespace reproduce
