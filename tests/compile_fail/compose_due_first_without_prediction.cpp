// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: .due_first. needs requests with a member .tokens expected_output.

#include <tessera/compose/due_first.hpp>
#include <tessera/pacing/token_pacer.hpp>

struct request : tessera::due_first_request {
  tessera::token_pacer pacer{};
#ifdef EXPECT_OK
  tessera::tokens expected_output{};
#endif
};

std::size_t bytes() { return tessera::due_first<request>::required_bytes({.blocks = 4}); }
