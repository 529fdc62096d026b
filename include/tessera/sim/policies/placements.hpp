// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/named_placement.hpp>
#include <tessera/sim/cluster/placement_name.hpp>
#include <tessera/sim/error.hpp>
#include <tessera/sim/input/did_you_mean.hpp>

#include <string>
#include <string_view>
#include <vector>

/// @file
/// The placement policies that come with the library, by name.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Placements for policies that leave the placement open.
[[nodiscard]] std::vector<named_placement> placements();

/// The placement of that name. @throws usage_error that lists the available names.
[[nodiscard]] named_placement find_placement(std::string_view name);

}  // namespace sim
TESSERA_NAMESPACE_END
