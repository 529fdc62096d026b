// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// violates: operator new
// violates: operator delete
// violates: malloc

#include <cstdlib>

int* allocate(int n) { return n > 8 ? new int[8] : static_cast<int*>(std::malloc(32)); }
void release(int* p) { delete[] p; }
