// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/fleet/controller.hpp>
#include <tessera/sim/cluster/instance_view.hpp>
#include <tessera/sim/cluster/run_watcher.hpp>

#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What a placement policy has compared, for the watcher that asks why. @param reads what it reads besides the load.
[[nodiscard]] comparison compare_views(const std::vector<instance_view>& views, const fleet::reading& reads = {});

}  // namespace sim
TESSERA_NAMESPACE_END
