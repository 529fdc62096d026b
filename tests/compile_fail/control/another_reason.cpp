// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a queue must have a front
#ifndef EXPECT_OK
static_assert(sizeof(int) == 0, "a heap must have a top");
#endif
