// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/storage.hpp>

// A type of the library in the interface: both sides must have been built with the same configuration.
#ifndef OPAQUE
int second(const tessera::fixed_vector<int>& v);
#endif

// None in the interface: each side may have its own.
extern "C" int engine_misuse();

/// Reads beyond the end of a vector, within its capacity: dies if preconditions are checked where this is compiled.
inline int misuse(int (*read)(const tessera::fixed_vector<int>&)) {
  alignas(tessera::storage_alignment) std::byte memory[256];
  tessera::arena arena{memory};
  tessera::fixed_vector<int> v{arena, 2};
  v.push_back(7);
  v.push_back(8);
  v.pop_back();
  return read(v);
}
