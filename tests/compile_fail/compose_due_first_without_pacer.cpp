// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: .due_first. needs requests with a token pacer as a member .pacer.

#include <tessera/compose/due_first.hpp>
#include <tessera/pacing/token_pacer.hpp>

struct request : tessera::due_first_request {
#ifdef EXPECT_OK
  tessera::token_pacer pacer{};
#endif
  tessera::tokens expected_output{};
};

std::size_t bytes() { return tessera::due_first<request>::required_bytes({.blocks = 4}); }
