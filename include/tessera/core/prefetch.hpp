// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Has the cache line at `p` brought near, where the compiler can say so. It may be any address.
inline void prefetch([[maybe_unused]] const void* p) noexcept {
#if defined(__GNUC__)
  __builtin_prefetch(p);
#endif
}

}  // namespace detail
TESSERA_NAMESPACE_END
