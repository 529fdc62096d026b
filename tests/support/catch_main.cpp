// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The main function of the test program. Version 3 brings its own in the library Catch2WithMain, version 2 is
// compiled here, once.
#if __has_include(<catch2/catch_all.hpp>)
#  include <catch2/catch_session.hpp>

int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
#else
#  define CATCH_CONFIG_MAIN
#  include <catch2/catch.hpp>
#endif
