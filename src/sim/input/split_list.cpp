// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/config.hpp>
#include <tessera/sim/input/split_list.hpp>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

std::vector<std::string_view> split_list(std::string_view list, char separator) {
  std::vector<std::string_view> items;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(separator, begin), list.size());
    items.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

}  // namespace sim
TESSERA_NAMESPACE_END
