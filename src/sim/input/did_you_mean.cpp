// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/config.hpp>
#include <tessera/sim/input/did_you_mean.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {
namespace detail {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const auto plain = [](char c) {
    return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i != a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t k = 0; k != b.size(); ++k) {
      const std::size_t replaced = diagonal + (plain(a[i]) == plain(b[k]) ? 0U : 1U);
      diagonal = row[k + 1];
      row[k + 1] = std::min({row[k + 1] + 1, row[k] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace detail
}  // namespace sim

namespace sim {

std::string did_you_mean(std::string_view wrong, const std::vector<std::string_view>& names) {
  if (wrong.empty() || wrong.size() > 64) return {};
  std::vector<std::string_view> meant;
  std::size_t least = std::max<std::size_t>(wrong.size() / 4, wrong.size() > 2 ? 1 : 0);
  for (const std::string_view name : names) {
    const std::size_t distance = detail::edit_distance(wrong, name);
    if (distance < least) meant.clear();
    if (distance <= least) meant.push_back(name);
    least = std::min(least, distance);
  }
  if (meant.empty()) {
    for (const std::string_view name : names) {
      if (name.starts_with(wrong) && meant.size() < 6) meant.push_back(name);
    }
  }
  return meant.empty() ? std::string{} : fmt::format(" (did you mean {}?)", fmt::join(meant, ", "));
}

}  // namespace sim
TESSERA_NAMESPACE_END
