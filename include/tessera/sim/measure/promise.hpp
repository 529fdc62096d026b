// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/clock.hpp>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The latency promised to every request, in seconds. 0: none.
struct promise {
  double ttft_s = 0;  ///< To its first token,
  double tpot_s = 0;  ///< and for each that follows.
};

/// Whether it promises anything.
[[nodiscard]] constexpr bool promises(const promise& p) noexcept { return p.ttft_s > 0 || p.tpot_s > 0; }

/// The time to first token for freeness if none is promised.
inline constexpr duration default_ttft_target{1.0};
/// The time to first token that policies aim at: the promised one, or else the default.
[[nodiscard]] inline duration ttft_target(const promise& p) noexcept {
  return p.ttft_s > 0 ? duration{p.ttft_s} : default_ttft_target;
}

}  // namespace sim
TESSERA_NAMESPACE_END
