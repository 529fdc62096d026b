// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <stdexcept>

namespace tessera_test {

/// A promise that was broken: an exception, so that the same checks serve tests and fuzz targets.
struct broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};
inline void must(bool holds, const char* what) {
  if (!holds) throw broken{what};
}

}  // namespace tessera_test
