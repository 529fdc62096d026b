// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The trace reader on any bytes.

#include "fuzz/trace_promises.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera_test::check_trace_reader({reinterpret_cast<const char*>(data), size});
  return 0;
}
