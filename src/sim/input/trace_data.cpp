// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/error.hpp>
#include <tessera/sim/input/trace_data.hpp>
#include <tessera/sim/input/trace_row.hpp>
#include <tessera/sim/input/trace_time.hpp>

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

std::string describe(const rows_left_out& rows) {
  const std::array<std::pair<std::size_t, std::string_view>, 4> kinds{{{rows.failed, "failed"},
                                                                       {rows.no_prompt, "without a prompt"},
                                                                       {rows.no_output, "without output"},
                                                                       {rows.others, "no requests"}}};
  std::string out;
  for (const auto& [n, kind] : kinds) {
    if (n != 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", n, kind);
  }
  return out;
}

}  // namespace sim
TESSERA_NAMESPACE_END
