// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/cluster/run_watcher.hpp>
#include <tessera/sim/error.hpp>
#include <tessera/sim/measure/metrics.hpp>
#include <tessera/sim/report/explanation.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

question parse_question(std::string_view text) {
  const auto refuse = [&] {
    return usage_error{
        fmt::format("--explain takes a request, as 17 or request:17, or a time in seconds, as 12.5 or "
                    "time:12, not {}",
                    shown(text))};
  };
  std::string_view rest = text;
  const auto begins = [&](std::string_view word) {
    if (rest.substr(0, word.size()) != word) return false;
    rest.remove_prefix(word.size());
    return true;
  };
  const bool is_request = begins("request:");
  const bool is_time = !is_request && begins("time:");
  const char* const end = rest.data() + rest.size();
  question q;
  if (std::size_t row = 0; !is_time) {
    const auto [stopped, wrong] = std::from_chars(rest.data(), end, row);
    if (wrong == std::errc{} && stopped == end) {
      q.request = row;
      return q;
    }
    if (is_request) throw refuse();
  }
  if (!is_time && rest.starts_with('-')) throw refuse();
  const auto [stopped, wrong] = std::from_chars(rest.data(), end, q.from_s);
  if (wrong != std::errc{} || stopped != end || !std::isfinite(q.from_s)) throw refuse();
  return q;
}

void require_request(const question& q, std::size_t requests) {
  if (!q.request || *q.request < requests) return;
  throw usage_error{fmt::format("there is no request {} to explain: they are 0 to {}", *q.request, requests - 1)};
}

}  // namespace sim
TESSERA_NAMESPACE_END
