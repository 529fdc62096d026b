// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <range/v3/range/conversion.hpp>
#include <range/v3/view/transform.hpp>

#include <string_view>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The member `name` of each, in order, for messages. They must outlive the result. O(n); allocates.
template <class Range>
[[nodiscard]] std::vector<std::string_view> names_of(const Range& all) {
  return all | ranges::views::transform([](const auto& x) { return std::string_view{x.name}; }) |
         ranges::to<std::vector>();
}

}  // namespace sim
TESSERA_NAMESPACE_END
