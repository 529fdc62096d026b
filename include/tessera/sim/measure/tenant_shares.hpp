// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

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
[[nodiscard]] std::vector<double> fair_shares(std::span<const double> asked, double all);

/// The smallest part that a tenant was given of what was due to it, by its fair share of all that was given. 1: nobody
/// had less than that. NaN of no tenants. What somebody was given counts as asked for, also if it was before.
[[nodiscard]] double worst_share(std::span<const double> asked, std::span<const double> given);

}  // namespace sim
TESSERA_NAMESPACE_END
