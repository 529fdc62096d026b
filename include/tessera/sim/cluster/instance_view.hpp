// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>

#include <cstddef>
#include <cstdint>

/// @file
/// A simulated instance, as placement policies see it.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What a placement policy sees of a simulated instance.
struct instance_view {
  std::size_t id = 0;        ///< Which instance.
  blocks capacity{};         ///< Its KV memory, used and free.
  blocks kv_held{};          ///< On device and host. What is on its way counts at both ends.
  blocks free_blocks{};      ///< On the device.
  std::size_t requests = 0;  ///< Waiting and resident.
  std::size_t queued = 0;    ///< Of these, new, preempted, or arrived with their KV: without blocks on the device.
  blocks waiting_blocks{};   ///< What requests here need for the tokens that they have and do not hold, on device or
                             ///< host: those that wait, and prompts that are computed in part. A block that several
                             ///< share counts for each of them.
  double phi = 1;  ///< Phi_S: the part of its memory that nobody holds or waits for; of routers, see `routing`.
  // Filled in only for policies with a member `reads_phases`:
  bool slo_met = true;            ///< PASCAL's t_i.
  std::size_t reasoning = 0;      ///< PASCAL's r_i.
  std::size_t fresh_answers = 0;  ///< PASCAL's a_i.
  // Of the request that is to be placed, filled in only for policies with a member `reads_prefixes`:
  tokens cached_tokens{};        ///< Of its prompt, in the prefix cache.
  tokens new_prefill_tokens{};   ///< The rest of it.
  std::uint64_t prefix_key = 0;  ///< Of its beginning, see `prefix_keys`; of a prompt that shares nothing, its own.
};

}  // namespace sim
TESSERA_NAMESPACE_END
