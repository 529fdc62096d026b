// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

/// @file
/// Whether each tenant gets its due share.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Service of a prompt token, as VTC counts it.
inline constexpr double prompt_service = 1;
/// Service of a generated token.
inline constexpr double output_service = 2;
/// Service of a whole request.
[[nodiscard]] constexpr double service_of(std::int64_t prompt_tokens, std::int64_t output_tokens) noexcept {
  return prompt_service * static_cast<double>(prompt_tokens) + output_service * static_cast<double>(output_tokens);
}

/// The due shares of `all` for tenants that ask for `asked` (max-min fairness). Shares are equal, but no more than a
/// tenant asks for, which leaves more to the others. O(n log n).
[[nodiscard]] std::vector<double> fair_shares(std::span<const double> asked, double all);

/// The smallest fraction of its due share that a tenant was given, with its fair share of all that was given. 1: no
/// tenant had less. NaN without tenants. A tenant's service counts as asked for, even if it was given earlier.
[[nodiscard]] double worst_share(std::span<const double> asked, std::span<const double> given);

}  // namespace sim
TESSERA_NAMESPACE_END
