// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// What a misspelt name may have meant.

TESSERA_NAMESPACE_BEGIN
namespace sim {

namespace detail {

/// Letters to insert, delete or replace until one is the other; capitals and small letters are alike, `_` and `-` too.
/// O(product of the lengths).
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace detail

/// ` (did you mean due-first?)` of the nearest of `names`, if at most a quarter of the letters differ; else of those
/// that begin with `wrong`, at most six. Empty if there are none.
[[nodiscard]] std::string did_you_mean(std::string_view wrong, const std::vector<std::string_view>& names);

}  // namespace sim
TESSERA_NAMESPACE_END
