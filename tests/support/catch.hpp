// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// Catch2 version 2 (one header) or version 3 (a library), whichever is installed.

#if __has_include(<catch2/catch_all.hpp>)
#  include <catch2/catch_all.hpp>
#  define TESSERA_TEST_CATCH_VERSION 3
#elif __has_include(<catch2/catch.hpp>)
#  include <catch2/catch.hpp>
#  define TESSERA_TEST_CATCH_VERSION 2
#else
#  error "Catch2 is missing: install catch2 (Debian) or point CMAKE_PREFIX_PATH at it"
#endif

namespace tessera_test {

#if TESSERA_TEST_CATCH_VERSION == 2
using approx = ::Catch::Detail::Approx;
#else
using approx = ::Catch::Approx;
#endif

}  // namespace tessera_test
