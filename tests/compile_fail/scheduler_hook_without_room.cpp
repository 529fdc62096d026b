// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: this discipline keeps something about each request: derive the request from
// expect: .tessera::request_hook_for<the discipline>. instead of .tessera::request_hook.

#include <tessera/compose/pascal.hpp>

#ifdef EXPECT_OK
struct request : tessera::pascal_request {};
#else
struct request : tessera::request_hook {};
#endif

std::size_t bytes() { return tessera::pascal<request>::required_bytes({.blocks = 4}); }
