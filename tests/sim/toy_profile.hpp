// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/model/profiles.hpp>

#include <cstddef>
#include <cstdint>

namespace tessera_test {

/// Step times that add up exactly: a step that decodes takes 0.25 s, one with (fresh, whole) prompts 0.5 s, whatever
/// the batch.
inline tessera::sim::profile toy_profile() {
  tessera::sim::profile p = tessera::sim::profiles().front();
  p.name = "toy";
  p.measured.decode = {{1, 1, 0.25}};
  p.measured.prefill = {{1, 0.5}};
  return p;
}

/// `instances` of `blocks` blocks of 16 tokens, with room for 64 requests.
inline tessera::sim::cluster_options toy_cluster(std::size_t instances, std::size_t blocks,
                                                 const tessera::sim::profile& p = toy_profile()) {
  return {.instances = instances,
          .instance = {.limits = {.requests = 100'000,
                                  .blocks = blocks,
                                  .block_size = tessera::tokens{16},
                                  .residents = 64,
                                  .host_blocks = 4 * blocks,
                                  .max_length = {}},
                       .step = {.max_batch = 64, .token_budget = tessera::tokens{4096}},
                       .timer = tessera::sim::step_timer{p},
                       .swap_seconds_per_block = 0.125},
          .fabric_bytes_per_s = 1000,
          .kv_bytes_per_token = 1};
}

inline tessera::sim::trace_row row(double arrival_s, std::int64_t prompt, std::int64_t reasoning, std::int64_t answer) {
  return {.arrival_s = arrival_s,
          .prompt_tokens = prompt,
          .output_tokens = reasoning + answer,
          .reasoning_tokens = reasoning,
          .answer_tokens = answer};
}

}  // namespace tessera_test
