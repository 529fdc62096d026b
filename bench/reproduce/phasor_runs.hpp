// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What the parts of Phasor's evaluation share.

#include "phasor_setting.hpp"

#include <tessera/sim/input/archetypes.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reproduce::phasor_runs {

using namespace tessera;
using namespace reproduce::phasor_setting;

/// Section 2.1: 5 requests a second, 25 for half a minute, and 5 again.
inline std::vector<trace_row> shock(const archetype& a, std::uint64_t seed, double length_s = 30, double rate = 25) {
  return sim::generate(a, {{90, 5}, {length_s, rate}, {120, 5}}, burst_cv, seed);
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

/// So long requests arrive: what queues shows, and what is a fluctuation.
inline constexpr double seconds_of_arrivals = 500;
inline std::size_t requests_at(const options& o, double rate) {
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

inline contestant phasor_of(const sim::pool_sizes& sizes) {
  return phasor("Phasor", {.mixed_pool = sizes.mixed != 0}, sizes);
}

/// As many requests as are counted in a run of a closed loop, and the most that are tried in flight.
inline std::size_t capacity_requests(const options& o) { return o.quick ? 100 : 4000; }

// -- parts of the evaluation, each in a source of its own -------------------------------------------------------------

/// Figures 4 and 10: latency over the arrival rate, and where KV waits.
void latency(results& out, const options& o);
void fragmentation(results& out, const options& o);
void skew(results& out, const options& o);
void ablation(results& out, const options& o);
void sensitivity(results& out, const options& o);
void energy(results& out, const options& o);

}  // namespace reproduce::phasor_runs
