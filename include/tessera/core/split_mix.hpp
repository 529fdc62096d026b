// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Mixes all bits of `z` into all bits of the result, the same on every machine (SplitMix64's finaliser).
[[nodiscard]] constexpr std::uint64_t split_mix(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d0'49bb'1331'11ebU;
  return z ^ (z >> 31U);
}

/// What SplitMix64 adds to its state for each number.
inline constexpr std::uint64_t split_mix_step = 0x9e37'79b9'7f4a'7c15U;

}  // namespace detail
TESSERA_NAMESPACE_END
