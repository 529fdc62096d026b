// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <cstdint>

TESSERA_NAMESPACE_BEGIN

/// "No row", "no block": the null of every 32-bit index in the library.
inline constexpr std::uint32_t no_index = 0xffff'ffffU;

TESSERA_NAMESPACE_END
