// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What every request is promised, in seconds. 0: nothing.
struct promise {
  double ttft_s = 0;  ///< To its first token,
  double tpot_s = 0;  ///< and for each that follows.
};

/// Whether it is anything.
[[nodiscard]] constexpr bool promises(const promise& p) noexcept { return p.ttft_s > 0 || p.tpot_s > 0; }

}  // namespace sim
TESSERA_NAMESPACE_END
