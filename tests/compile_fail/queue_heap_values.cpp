// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a fixed_heap holds trivially copyable values

#include <tessera/queue/heap.hpp>

struct timer {
  double at = 0;
#ifndef EXPECT_OK
  ~timer() { at = -1; }
#endif
  bool operator<(const timer& other) const noexcept { return at < other.at; }
};

int main() { return tessera::fixed_heap<timer>::required_bytes({0}) == 0 ? 0 : 1; }
