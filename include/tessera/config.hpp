// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/version.hpp>

/// @file
/// Configuration macros and the versioned namespace.
///
/// - `TESSERA_CHECKED` (0 or 1): whether preconditions are checked. Default: 1 unless `NDEBUG` is defined.
/// - `TESSERA_ASSERT(condition, message)`: define it before the first include to install your own handler.
///
/// The inline namespace carries the version and `TESSERA_CHECKED`, so two translation units that disagree on
/// either get different symbols: a mix fails to link instead of misbehaving.

#ifndef TESSERA_CHECKED
#  ifdef NDEBUG
#    define TESSERA_CHECKED 0
#  else
#    define TESSERA_CHECKED 1
#  endif
#endif

#if TESSERA_CHECKED
#  define TESSERA_ABI v0_checked
#else
#  define TESSERA_ABI v0
#endif

#define TESSERA_NAMESPACE_BEGIN \
  namespace tessera {           \
  inline namespace TESSERA_ABI {
#define TESSERA_NAMESPACE_END \
  }                           \
  }
