// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Prefetches the cache line at `p`, where the compiler supports it. `p` may be any address.
inline void prefetch([[maybe_unused]] const void* p) noexcept {
#if defined(__GNUC__)
  __builtin_prefetch(p);
#endif
}

}  // namespace detail
TESSERA_NAMESPACE_END
