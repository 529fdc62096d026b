// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <cstddef>
#include <string_view>
#include <vector>

/// @file
/// Lists in the user's notation: `a,b,c`.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// The items between the separators, unchanged, including empty ones. A text without a separator is one item. The items
/// are parts of `list`. O(size); allocates the result.
[[nodiscard]] std::vector<std::string_view> split_list(std::string_view list, char separator = ',');

}  // namespace sim
TESSERA_NAMESPACE_END
