// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/input/input.hpp>
#include <tessera/sim/input/json_text.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

std::string json_page(const nlohmann::ordered_json& document) {
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace sim
TESSERA_NAMESPACE_END
