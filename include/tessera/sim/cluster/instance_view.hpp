// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/fleet/view.hpp>

/// @file
/// A simulated instance, as placement policies see it.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What a placement policy sees of a simulated instance: what it sees of a replica. Requests on their way count at both
/// ends in `kv_held`. `queued` counts new and preempted requests, and those that have arrived with their KV. A block
/// that several requests wait for counts in `waiting_blocks` for each of them. The phases are filled in only for
/// policies with a member `reads_phases`, what is cached only for those with `reads_prefixes`.
using instance_view = fleet::view;

}  // namespace sim
TESSERA_NAMESPACE_END
