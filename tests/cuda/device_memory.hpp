// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../../examples/cuda_decode/device/device.hpp"

#include <algorithm>
#include <vector>

/// @file
/// Arrays that a test sends to a device, real or emulated, and what comes back.

namespace cuda_decode_test {

template <class T>
std::vector<T> read(cuda_decode::device::stream& s, const cuda_decode::device::buffer<T>& from) {
  cuda_decode::device::pinned<T> to(from.size());
  cuda_decode::device::copy(s, to.data(), from.data(), from.size() * sizeof(T));
  s.synchronize();
  return {to.data(), to.data() + to.size()};
}

template <class T>
cuda_decode::device::buffer<T> write(cuda_decode::device::stream& s, const std::vector<T>& values) {
  cuda_decode::device::pinned<T> from(values.size());
  std::copy(values.begin(), values.end(), from.data());
  cuda_decode::device::buffer<T> to(values.size());
  cuda_decode::device::copy(s, to.data(), from.data(), values.size() * sizeof(T));
  s.synchronize();
  return to;
}

}  // namespace cuda_decode_test
