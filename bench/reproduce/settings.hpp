// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "reproduce.hpp"

#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pars.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/pascal_paced.hpp>
#include <tessera/compose/round_robin.hpp>
#include <tessera/rank/kendall.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/planning/cascade_plan.hpp>
#include <tessera/sim/planning/pool_plan.hpp>
#include <tessera/sim/policies/due_first.hpp>
#include <tessera/sim/policies/placements.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/systems/disaggregated.hpp>
#include <tessera/sim/systems/llumnix.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// The settings of the papers' evaluations: clusters, loads, systems and measures, for each paper's page and for
/// the page that runs one policy in all of them.

namespace reproduce {

using sim::archetype;
using sim::cluster_options;
using sim::run_result;
using sim::trace_row;
using tessera::duration;
using tessera::tokens;
using rows_type = std::vector<trace_row>;

/// The library's policy of that name.
inline sim::policy published(std::string_view name) {
  return sim::select_policies(sim::published_policies(), name).front();
}

/// What runs a policy on a cluster, whatever else it is told: no policy of the library but ours knows more.
inline auto runs(sim::policy p) {
  return [p = std::move(p)](const cluster_options& o, const auto& /*more*/, const rows_type& rows) {
    return p.run(o, rows, [](std::size_t) {});
  };
}

namespace pascal_setting {

inline constexpr std::string_view profile_name = "h100-96gb-qwen-32b";
inline constexpr tokens block_size{16};
/// The paper's cluster: `instances` H100 with 96 GB, DeepSeek-R1-Distill-Qwen-32B, 100 Gbit/s.
inline sim::cluster_options cluster_for(const rows_type& rows, std::size_t instances = 8, std::size_t batch = 256) {
  const sim::profile profile = sim::find_profile(profile_name);
  std::int64_t longest = 0;
  std::int64_t all = 0;
  for (const trace_row& row : rows) {
    longest = std::max(longest, row.prompt_tokens + row.output_tokens);
    all += tessera::blocks_for(tokens{row.prompt_tokens + row.output_tokens}, block_size).count();
  }
  sim::cluster_options o{
      .instances = instances,
      .instance = {
          .limits = {.requests = rows.size(),
                     .blocks = static_cast<std::size_t>(profile.kv_blocks(block_size).count()),
                     .block_size = block_size,
                     .residents = batch,
                     .host_blocks = static_cast<std::size_t>(std::min(profile.host_blocks(block_size).count(), all)),
                     .max_length = tokens{longest}},
          .step = {.max_batch = batch, .token_budget = tokens{8192}},
          .timer = sim::step_timer{profile},
          .swap_seconds_per_block = sim::swap_seconds(profile, block_size)}};
  o.fabric_bytes_per_s = profile.links.fabric_bytes_per_s;
  o.kv_bytes_per_token = profile.model.kv_bytes_per_token();
  return o;
}

/// Something by reasoning length, in bins.
using bins_type = std::map<std::int64_t, double>;

/// Tail TTFT per bin.
inline bins_type tails_of(const sim::summary& s) {
  bins_type tails;
  for (const sim::tail_bin& b : s.ttft_by_reasoning_bin) tails[b.bin] = b.value;
  return tails;
}

/// Mean per bin over the seeds, of the bins that every seed has.
template <class Sample>
bins_type bins(const std::vector<Sample>& all, bins_type Sample::*which) {
  bins_type mean;
  for (const auto& [bin, first] : all.front().*which) {
    double sum = 0;
    const bool everywhere = std::all_of(all.begin(), all.end(), [&](const Sample& s) {
      const auto found = (s.*which).find(bin);
      if (found == (s.*which).end()) return false;
      sum += found->second;
      return true;
    });
    if (everywhere) mean[bin] = sum / static_cast<double>(all.size());
  }
  return mean;
}

/// How the tails of one policy compare with another's, over the bins.
struct comparison {
  double best = 0;   ///< Most negative change.
  double worst = 0;  ///< Largest change: positive where it is worse.
  std::int64_t best_bin = 0;
  std::int64_t worst_bin = 0;
  double best_seconds = 0;
};

inline comparison compare_tails(const bins_type& a, const bins_type& base) {
  comparison c{.best = std::numeric_limits<double>::infinity(), .worst = -std::numeric_limits<double>::infinity()};
  for (const auto& [bin, value] : a) {
    const auto found = base.find(bin);
    if (found == base.end()) continue;
    const double change = value / found->second - 1;
    if (change < c.best) {
      c.best = change;
      c.best_bin = bin;
      c.best_seconds = value - found->second;
    }
    if (change > c.worst) {
      c.worst = change;
      c.worst_bin = bin;
    }
  }
  return c;
}

/// Output tokens of requests that end in the last two thirds of the arrivals, per token that arrives then.
inline double followed(const sim::run_result& run) {
  double end = 0;
  for (const auto& r : run.requests) end = std::max(end, r.arrival);
  double in = 0;
  double out = 0;
  for (const auto& r : run.requests) {
    const auto n = static_cast<double>(r.output_tokens());
    if (r.arrival >= end / 3) in += n;
    if (r.finish >= end / 3 && r.finish <= end) out += n;
  }
  return in > 0 ? out / in : 0;
}

inline constexpr double follows_at_least = 0.99;
/// The highest rate at which the throughput of FCFS follows the arrivals, to 1 %.
inline double saturation_rate(const sim::workload& w, std::size_t requests, std::size_t seeds, std::size_t threads) {
  const sim::policy fcfs = sim::select_policies(sim::published_policies(), "fcfs").front();
  const auto follows = [&](double rate) {
    std::vector<double> share(seeds);
    sim::run_parallel(seeds, threads, [&](std::size_t seed) {
      const rows_type rows = sim::generate(w, requests, rate, 1000 + seed);
      share[seed] = followed(fcfs.run(cluster_for(rows), rows, [](std::size_t) {}));
    });
    return std::accumulate(share.begin(), share.end(), 0.0) / static_cast<double>(seeds) >= follows_at_least;
  };
  double low = w.rate;
  while (!follows(low)) low /= 1.25;
  double high = low * 1.25;
  while (follows(high)) {
    low = high;
    high *= 1.25;
  }
  while (high / low > 1.01) {
    const double middle = (low + high) / 2;
    (follows(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace pascal_setting

namespace pars_setting {

/// The paper's engine in kind: Llama 3.1 8B on one A100 with 40 GB (vendor's peaks; efficiencies as in the built-in
/// profiles), vLLM's limit of 256 requests in a batch.
inline sim::profile testbed() {
  sim::profile p = sim::find_profile("h200-llama-3.1-8b");
  p.name = "a100-40gb-llama-3.1-8b";
  p.gpu.name = "A100 40 GB";
  p.gpu.flops = 312e12;
  p.gpu.bytes_per_s = 1.555e12;
  p.gpu.memory_bytes = 40e9;
  p.links.host_bytes_per_s = 25e9;
  return p;
}

inline constexpr std::size_t max_batch = 256;
inline constexpr tokens block_size{16};
inline sim::cluster_options server_for(const sim::profile& p, std::span<const trace_row> rows) {
  std::int64_t longest = 0;
  for (const trace_row& r : rows) longest = std::max(longest, r.prompt_tokens + r.output_tokens);
  return {.instances = 1,
          .instance = {.limits = {.requests = rows.size(),
                                  .blocks = static_cast<std::size_t>(p.kv_blocks(block_size).count()),
                                  .block_size = block_size,
                                  .residents = max_batch,
                                  .host_blocks = static_cast<std::size_t>(p.host_blocks(block_size).count()),
                                  .max_length = tokens{longest}},
                       .step = {.max_batch = max_batch, .token_budget = tokens{8192}},
                       .timer = sim::step_timer{p},
                       .swap_seconds_per_block = sim::swap_seconds(p, block_size)},
          .fabric_bytes_per_s = p.links.fabric_bytes_per_s,
          .kv_bytes_per_token = p.model.kv_bytes_per_token()};
}

/// log(length) with normal noise of the deviation `sigma`: an oracle made worse.
inline std::vector<float> with_noise(const std::vector<float>& truth, double sigma, std::uint64_t seed) {
  sim::random_engine rng{seed, 9};
  std::vector<float> scores;
  for (const float t : truth)
    scores.push_back(static_cast<float>(std::log(static_cast<double>(t)) + sigma * sim::normal(rng)));
  return scores;
}

/// The deviation that makes it as bad as `tau`. Bisection on the noise, which falls in tau.
inline double noise_for(const std::vector<float>& truth, double tau, std::uint64_t seed) {
  double low = 0;
  double high = 50;
  for (int i = 0; i != 40; ++i) {
    const double middle = 0.5 * (low + high);
    (tessera::rank::kendall_tau_b(with_noise(truth, middle, seed), truth).tau > tau ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

/// Poisson arrivals of a built-in workload's requests; all that they generate is answer.
inline rows_type answers_of(sim::workload w, std::size_t requests, double rate, std::uint64_t seed) {
  w.cv = 1;
  rows_type rows = sim::generate(w, requests, rate, seed);
  for (trace_row& r : rows) {
    r.reasoning_tokens = 0;
    r.answer_tokens = r.output_tokens;
  }
  return rows;
}

}  // namespace pars_setting

namespace phasor_setting {

inline constexpr std::size_t workers = 8;
inline constexpr double burst_cv = 3;
/// NVLink between the GPUs of the testbed, each way; the profile's own fabric is Ethernet.
inline constexpr double nvlink_bytes_per_s = 75e9;
inline const sim::profile& testbed() {
  static const sim::profile p = [] {
    sim::profile v100 = sim::find_profile("v100-qwen2.5-7b");
    // What the paper gives as the effective peak of its stack (appendix B.1). The built-in profile has the vendor's
    // peak and an efficiency below 1.
    v100.gpu.flops = tessera::headroom::phasor_printed_peak_flops;
    v100.gpu.flops_efficiency = 1;
    return v100;
  }();
  return p;
}

inline sim::cluster_options cluster_of(const sim::profile& p, std::size_t rows) {
  const tokens block_size{16};
  return {.instances = workers,
          .instance = {.limits = {.requests = rows,
                                  .blocks = static_cast<std::size_t>(p.kv_blocks(block_size).count()),
                                  .block_size = block_size,
                                  .residents = 256,
                                  .host_blocks = static_cast<std::size_t>(p.host_blocks(block_size).count()) / workers,
                                  .max_length = tokens{65'536}},
                       .step = {.max_batch = 256, .token_budget = tokens{2048}},
                       .timer = sim::step_timer{p},
                       .swap_seconds_per_block = sim::swap_seconds(p, block_size)},
          .fabric_bytes_per_s = nvlink_bytes_per_s,
          .kv_bytes_per_token = p.model.kv_bytes_per_token()};
}

/// One system of the comparison.
struct contestant {
  std::string name;
  std::function<run_result(const sim::cluster_options&, const archetype&, const rows_type&)> run;
};

template <class Policy>
run_result simulate(const sim::cluster_options& o, const sim::pool_sizes& sizes, Policy policy, const rows_type& rows,
                    double epoch_s = 0.05) {
  using control = sim::disaggregated<Policy>;
  return sim::cluster_of<tessera::fcfs<sim::request>, control>{o, {}, control{sizes, std::move(policy), epoch_s}}.run(
      rows, [](std::size_t) {});
}

/// What of Phasor is switched off or changed.
struct variant {
  bool by_phi = true;
  bool defragments = true;
  bool mixed_pool = true;
  bool counts_queues = false;
  double alpha = 1;
  double theta_frag = 0.168;
  double theta_flow = 0.62;
  double epoch_s = 0.05;
};

inline constexpr sim::pool_sizes even_split{workers / 2, workers / 2, 0};
inline constexpr sim::pool_sizes three_pools{3, 3, 2};  ///< Phasor's and Splitwise's in the paper.

inline contestant phasor(std::string name, const variant& v, const sim::pool_sizes& sizes,
                         const sim::profile& p = testbed()) {
  return {std::move(name), [v, p, sizes](const sim::cluster_options& o, const archetype& a, const rows_type& rows) {
            sim::phasor_control::config c;
            c.model = sim::calibrate_prefill(sim::step_timer{p}, duration{a.ttft_slo_s});
            c.model.cost.alpha *= v.alpha;
            c.by_phi = v.by_phi;
            c.defragments = v.defragments;
            c.changes_roles = v.mixed_pool;
            c.counts_queues = v.counts_queues;
            c.controllers.flow.theta = v.theta_flow;
            c.controllers.defragment.threshold = v.theta_frag;
            c.controllers.defragment.floor = v.theta_frag;
            return simulate(o, sizes, sim::phasor_control{c}, rows, v.epoch_s);
          }};
}
inline contestant phasor(std::string name, const variant& v) {
  return phasor(std::move(name), v, v.mixed_pool ? three_pools : even_split);
}

inline contestant phasor_with_queues() { return phasor("Phasor, queues counted", {.counts_queues = true}); }
inline contestant distserve(const sim::pool_sizes& sizes = even_split) {
  return {"DistServe", [sizes](const sim::cluster_options& o, const archetype&, const rows_type& rows) {
            return simulate(o, sizes, sim::distserve{}, rows);
          }};
}

inline contestant splitwise(const sim::pool_sizes& sizes = three_pools) {
  return {"Splitwise", [sizes](const sim::cluster_options& o, const archetype&, const rows_type& rows) {
            return simulate(o, sizes, sim::splitwise{}, rows);
          }};
}

/// A policy of the library by its name; the colocated ones are what pools have to beat.
inline contestant named(std::string_view name) { return {std::string{name}, runs(published(name))}; }

inline std::string show(const sim::pool_sizes& p) {
  return p.mixed == 0 ? fmt::format("{}/{}", p.prefill, p.decode)
                      : fmt::format("{}/{}/{}", p.prefill, p.decode, p.mixed);
}

inline const archetype& find(std::string_view name) {
  for (const archetype& a : sim::archetypes()) {
    if (a.name == name) return a;
  }
  throw sim::usage_error{"no such archetype"};
}

inline rows_type steady(const archetype& a, double rate, std::size_t requests, std::uint64_t seed) {
  return sim::generate(a, {{static_cast<double>(requests) / rate, rate}}, burst_cv, seed);
}

/// So many times as many as are in flight come before those that count, and a quarter of those: the loop starts with
/// everybody at once, which no loop in progress does, and who learns has not learned yet.
inline constexpr std::size_t warmup_rounds = 4;

/// The most requests in flight, up to `most`, with P99 of TTFT and TPOT within the promises, of `requests` of them:
/// Phasor's section 4.3. 0: not even one.
inline double slo_concurrency(const contestant& c, const archetype& a, std::size_t most, std::size_t requests,
                              std::uint64_t seed) {
  const auto uncounted_with = [&](std::size_t in_flight) { return warmup_rounds * in_flight + requests / 4; };
  const auto longest = static_cast<double>(uncounted_with(most) + requests);
  const rows_type all = sim::generate(a, {{longest * 2, 1}}, 1, seed);
  const auto holds = [&](std::size_t in_flight) {
    const std::size_t uncounted = uncounted_with(in_flight);
    const rows_type rows{all.begin(), all.begin() + static_cast<std::ptrdiff_t>(uncounted + requests)};
    sim::cluster_options o = cluster_of(testbed(), rows.size());
    o.in_flight = in_flight;
    o.promised = {.ttft_s = a.ttft_slo_s, .tpot_s = a.tpot_slo_s};
    const run_result r = c.run(o, a, rows);
    std::vector<double> ttft;
    std::vector<double> tpot;
    for (const sim::request_record& q : r.requests) {
      if (q.id < uncounted) continue;
      ttft.push_back(q.ttft());
      tpot.push_back(q.tpot());
    }
    return sim::describe(ttft).p99 <= a.ttft_slo_s && sim::describe(tpot).p99 <= a.tpot_slo_s;
  };
  std::size_t good = 0;
  std::size_t bad = most + 1;
  while (bad - good > std::max<std::size_t>(1, good / 50)) {
    const std::size_t middle = good + (bad - good) / 2;
    (holds(middle) ? good : bad) = middle;
  }
  return static_cast<double>(good);
}

/// Other requests than those of the comparisons.
inline constexpr std::uint64_t planning_seed = 501;

/// The pools that `score` gives most to; of equals the first.
template <class Score>
sim::pool_sizes best_pools(const options& o, const std::vector<sim::pool_sizes>& all, Score&& score) {
  std::vector<double> scores(all.size());
  sim::run_parallel(all.size(), o.threads, [&](std::size_t i) { scores[i] = score(all[i]); });
  return all[static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin())];
}

/// DistServe's plan for a kind of request: the split that carries the highest rate at which nine of ten requests keep
/// each promise.
inline sim::pool_sizes plan_distserve(const options& o, const archetype& a) {
  const std::vector<sim::slo_bound> promises =
      sim::parse_slo(fmt::format("ttft_p90={},tpot_p90={}", a.ttft_slo_s, a.tpot_slo_s));
  return sim::plan_pools(workers, promises, false,
                         [&](const sim::pool_sizes& sizes, double factor) {
                           const rows_type rows = steady(a, 10 * factor, o.quick ? 100 : 1000, planning_seed);
                           return distserve(sizes).run(cluster_of(testbed(), rows.size()), a, rows);
                         })
      .sizes;
}

}  // namespace phasor_setting

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

/// So many of a profile, with so many blocks, or as many as there is memory for, for rows of any length.
inline cluster_options servers(const rows_type& rows, std::string_view name, std::size_t instances,
                               std::size_t blocks = 0) {
  const sim::profile profile = sim::find_profile(name);
  const tokens block_size = pascal_setting::block_size;
  cluster_options o = pascal_setting::cluster_for(rows, instances);
  o.instance.timer = sim::step_timer{profile};
  o.instance.limits.blocks = blocks != 0 ? blocks : static_cast<std::size_t>(profile.kv_blocks(block_size).count());
  o.instance.limits.host_blocks = static_cast<std::size_t>(profile.host_blocks(block_size).count()) / instances;
  o.instance.swap_seconds_per_block = sim::swap_seconds(profile, block_size);
  o.fabric_bytes_per_s = profile.links.fabric_bytes_per_s;
  o.kv_bytes_per_token = profile.model.kv_bytes_per_token();
  return o;
}

}  // namespace reproduce
