// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: anything
static_assert(true);
