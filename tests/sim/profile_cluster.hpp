// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/model/profiles.hpp>

#include <cstddef>
#include <string_view>

namespace tessera_test {

/// Instances of a profile, with room on the host. `blocks`: 0 for as many as the profile has.
inline tessera::sim::cluster_options profile_cluster(std::string_view profile, std::size_t instances,
                                                     std::size_t blocks, std::size_t max_batch) {
  const tessera::sim::profile p = tessera::sim::find_profile(profile);
  const tessera::tokens block_size{16};
  if (blocks == 0) blocks = static_cast<std::size_t>(p.kv_blocks(block_size).count());
  return {.instances = instances,
          .instance = {.limits = {.requests = 100'000,
                                  .blocks = blocks,
                                  .block_size = block_size,
                                  .residents = max_batch,
                                  .host_blocks = 200'000,
                                  .max_length = tessera::tokens{131'072}},
                       .step = {.max_batch = max_batch, .token_budget = tessera::tokens{8192}},
                       .timer = tessera::sim::step_timer{p},
                       .swap_seconds_per_block = tessera::sim::swap_seconds(p, block_size)},
          .fabric_bytes_per_s = p.links.fabric_bytes_per_s,
          .kv_bytes_per_token = p.model.kv_bytes_per_token()};
}

}  // namespace tessera_test
