// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "settings.hpp"

#include <tessera/rank/kendall.hpp>
#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/model/profiles.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// @file
/// PARS's server, loads and noise.

namespace reproduce {

namespace pars_setting {

/// The paper's engine in kind: Llama 3.1 8B on one A100 with 40 GB, and vLLM's limit of 256 requests in a batch. Peaks
/// are the vendor's, efficiencies those of the built-in profiles.
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

}  // namespace reproduce
