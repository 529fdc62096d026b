// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: constraint
// expect: schedulable

#include <tessera/compose/pascal.hpp>

#ifdef EXPECT_OK
struct request : tessera::pascal_request {};
#else
struct request {
  tessera::tokens prompt;
};
#endif

std::size_t bytes() { return tessera::pascal<request>::required_bytes({.blocks = 4}); }
