// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <cstdio>
#include <cstdlib>

/// @file
/// `TESSERA_ASSERT(condition, message)`: states a precondition of the caller.
///
/// Exhaustion (a full pool, a full queue) is never an assertion: it is a value. Misuse (pushing a request that is
/// already queued, committing a plan twice) is an assertion. It is checked when `TESSERA_CHECKED` is 1. Define the
/// macro yourself to send failures to your engine's own handler, which must not return to the caller.
/// Nearly all members are `noexcept`: a handler that throws ends in `std::terminate`.
///
/// `TESSERA_REQUIRE(condition, message)`: the same, but checked in every build. It guards storage and spans that may be
/// too small, because a write outside of the memory would follow. It is not used on the hot path. An unchecked build
/// stops with a trap, and `message` is an argument of the function that traps.

TESSERA_NAMESPACE_BEGIN
namespace detail {

[[noreturn]] inline void assertion_failed(const char* condition, const char* message, const char* file,
                                          int line) noexcept {
  std::fprintf(stderr, "%s:%d: tessera: %s (violated: %s)\n", file, line, message, condition);
  std::abort();
}

/// Stops an unchecked build. Out of line, so that a backtrace shows the message. (Printing it would bring the C
/// library's streams into an engine's hot path.)
[[noreturn]] inline void misuse_stops([[maybe_unused]] const char* message) noexcept {
#if defined(_MSC_VER) && !defined(__clang__)
  __fastfail(7);  // FAST_FAIL_FATAL_APP_EXIT
#else
  __builtin_trap();
#endif
}

}  // namespace detail
TESSERA_NAMESPACE_END

#ifndef TESSERA_REQUIRE
#  if TESSERA_CHECKED
/// Checks a precondition in every build; may be defined before the first include, as `TESSERA_ASSERT`.
#    define TESSERA_REQUIRE(condition, message) TESSERA_ASSERT(condition, message)
#  else
#    define TESSERA_REQUIRE(condition, message) \
      ((condition) ? static_cast<void>(0) : ::tessera::detail::misuse_stops(message))
#  endif
#endif

#ifndef TESSERA_ASSERT
#  if TESSERA_CHECKED
/// Checks a precondition if `TESSERA_CHECKED`; may be defined before the first include to install a handler of one's
/// own.
#    define TESSERA_ASSERT(condition, message) \
      ((condition) ? static_cast<void>(0)      \
                   : ::tessera::detail::assertion_failed(#condition, message, __FILE__, __LINE__))
#  else
// Not evaluated, but its names count as used.
#    define TESSERA_ASSERT(condition, message) static_cast<void>(sizeof((condition) ? 1 : 0))
#  endif
#endif
