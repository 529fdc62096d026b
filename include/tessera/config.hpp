// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/version.hpp>

/// @file
/// Configuration macros and the versioned namespace.
///
/// - `TESSERA_CHECKED` (0 or 1): whether preconditions are checked. Default: 1 unless `NDEBUG` is defined.
/// - `TESSERA_ASSERT(condition, message)`: define it before the first include to install your own handler.
///
/// The inline namespace carries the version and `TESSERA_CHECKED`. Two translation units that disagree on either
/// get different symbols: a mix fails to link instead of misbehaving.

#ifndef TESSERA_CHECKED
#  ifdef NDEBUG
#    define TESSERA_CHECKED 0
#  else
#    define TESSERA_CHECKED 1
#  endif
#endif

// v0_1, v0_1_checked: before 1.0.0 every minor version may change the layout of things.
#define TESSERA_DETAIL_ABI(major, minor, suffix) TESSERA_DETAIL_JOIN(major, minor, suffix)
#define TESSERA_DETAIL_JOIN(major, minor, suffix) v##major##_##minor##suffix

#if TESSERA_CHECKED
/// The inline namespace: checked and unchecked builds differ in it, so they do not link together.
#  define TESSERA_ABI TESSERA_DETAIL_ABI(TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR, _checked)
#else
#  define TESSERA_ABI TESSERA_DETAIL_ABI(TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR, )
#endif

/// Opens `tessera` and its inline namespace.
#define TESSERA_NAMESPACE_BEGIN \
  namespace tessera {           \
  inline namespace TESSERA_ABI {
/// Closes both.
#define TESSERA_NAMESPACE_END \
  }                           \
  }
