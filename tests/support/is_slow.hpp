// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace tessera_test {

/// Whether this build takes many times as long to run as an optimised one. Then the longest random tests try fewer
/// seeds; the optimised build tries all of them.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool is_slow = true;
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
inline constexpr bool is_slow = true;
#  else
inline constexpr bool is_slow = false;
#  endif
#else
inline constexpr bool is_slow = false;
#endif

}  // namespace tessera_test
