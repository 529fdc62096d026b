// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a heap must have a top
static_assert(sizeof(int) == 0, "a heap must have a top");
