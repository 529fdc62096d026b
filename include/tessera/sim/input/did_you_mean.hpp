// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// Suggestions for misspelt names.

TESSERA_NAMESPACE_BEGIN
namespace sim {

namespace detail {

/// The number of letters to insert, delete or replace to turn one into the other. Case is ignored, and `_` equals `-`.
/// O(product of the lengths).
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace detail

/// ` (did you mean due-first?)`: the nearest of `names`, if at most a quarter of the letters differ. Otherwise up to
/// six that begin with `wrong`. Empty if there are none.
[[nodiscard]] std::string did_you_mean(std::string_view wrong, const std::vector<std::string_view>& names);

}  // namespace sim
TESSERA_NAMESPACE_END
