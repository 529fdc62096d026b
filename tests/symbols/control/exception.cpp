// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// violates: __cxa_throw
// violates: std::__throw_out_of_range

#include <array>

int at(const std::array<int, 4>& a, unsigned i) {
  if (i == 77) throw i;
  return a.at(i);
}
