// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <decoder.hpp>

#include <cstdio>
#include <exception>

namespace cuda_decode_test {

/// What `main` of a program that needs a GPU returns: 77 without one, 1 if `tests` threw or has counted `failures`.
template <class F>
int run_on_gpu(const char* file, const int& failures, F&& tests) {
  try {
    tests();
  } catch (const cuda_decode::no_device& e) {
    std::fprintf(stderr, "skipped: %s\n", e.what());
    return 77;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", file, e.what());
    return 1;
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace cuda_decode_test
