// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/instance_view.hpp>
#include <tessera/sim/cluster/run_watcher.hpp>

#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What a placement policy has compared, for the watcher that asks why. @param phases whether it reads those. @param
/// prefixes whether it reads those.
[[nodiscard]] comparison compare_views(const std::vector<instance_view>& views, bool phases = false,
                                       bool prefixes = false);

}  // namespace sim
TESSERA_NAMESPACE_END
