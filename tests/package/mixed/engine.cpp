// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "engine.hpp"

#ifndef OPAQUE
int second(const tessera::fixed_vector<int>& v) { return v[1]; }
#endif

int engine_misuse() {
  return misuse([](const tessera::fixed_vector<int>& v) { return v[1]; });
}
