// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "settings.hpp"

#include <tessera/compose/fcfs.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/planning/pool_plan.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/systems/disaggregated.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// Phasor's cluster, systems, loads and measures.

namespace reproduce {

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

/// Before the requests that count come `warmup_rounds` times the requests in flight, and a quarter of those that count.
/// The loop starts with all at once, which no loop in progress does. Besides, a policy that learns has not learned yet.
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

}  // namespace reproduce
