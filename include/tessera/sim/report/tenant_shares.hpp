// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

/// @file
/// Whether tenants get what is due to each of them.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What a tenant is given with a token of a prompt, as VTC counts it.
inline constexpr double prompt_service = 1;
/// The same of one that is generated.
inline constexpr double output_service = 2;
/// The same of a whole request.
[[nodiscard]] constexpr double service_of(std::int64_t prompt_tokens, std::int64_t output_tokens) noexcept {
  return prompt_service * static_cast<double>(prompt_tokens) + output_service * static_cast<double>(output_tokens);
}

/// What is due to each of those who ask for `asked`, of `all` that there is: as much to everybody, but to nobody more
/// than he asks for, which leaves more to the others (max-min fairness). O(n log n).
[[nodiscard]] inline std::vector<double> fair_shares(std::span<const double> asked, double all) {
  std::vector<std::size_t> by_size(asked.size());
  for (std::size_t t = 0; t != asked.size(); ++t) by_size[t] = t;
  std::sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) { return asked[a] < asked[b]; });
  std::vector<double> due(asked.size(), 0.0);
  std::size_t left = asked.size();
  for (const std::size_t t : by_size) {
    due[t] = std::min(asked[t], all / static_cast<double>(left--));
    all -= due[t];
  }
  return due;
}

/// The smallest part that a tenant was given of what was due to it, by its fair share of all that was given. 1: nobody
/// had less than that. NaN of no tenants. What somebody was given counts as asked for, also if it was before.
[[nodiscard]] inline double worst_share(std::span<const double> asked, std::span<const double> given) {
  std::vector<double> wanted(asked.begin(), asked.end());
  double all = 0;
  for (std::size_t t = 0; t != given.size(); ++t) {
    wanted[t] = std::max(wanted[t], given[t]);
    all += given[t];
  }
  const std::vector<double> due = fair_shares(wanted, all);
  double worst = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t t = 0; t != given.size(); ++t) {
    if (due[t] > 0 && !(worst <= given[t] / due[t])) worst = given[t] / due[t];
  }
  return worst;
}

}  // namespace sim
TESSERA_NAMESPACE_END
