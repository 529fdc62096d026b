// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "engine.hpp"

#include <cstring>

// main engine|main: which side commits the misuse. Ends with 0 if it survives.
int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "engine") == 0) return engine_misuse() == 8 ? 0 : 1;
#ifdef OPAQUE
  return misuse([](const tessera::fixed_vector<int>& v) { return v[1]; }) == 8 ? 0 : 1;
#else
  return misuse(second) == 8 ? 0 : 1;
#endif
}
