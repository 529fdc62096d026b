// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What the tests of the emulated device have in common.

#include "../../examples/cuda_decode/device/device.hpp"

#include <cstdint>
#include <string>

namespace cuda_decode_test {

namespace emulation = cuda_decode::device::emulation;

// Chooses when streams work, for one test.
class scheduled {
 public:
  explicit scheduled(emulation::schedule s, std::uint64_t seed = 1) { emulation::order(s, seed); }
  ~scheduled() { emulation::order(emulation::lazy); }
  scheduled(const scheduled&) = delete;
  scheduled& operator=(const scheduled&) = delete;
};

// What the device says about `f`; empty: nothing.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const cuda_decode::device_error& e) {
    return e.what();
  }
  return {};
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace cuda_decode_test
