// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "emulated_threads.hpp"

#include <bit>
#include <cmath>
#include <source_location>
#include <type_traits>

/// @file
/// CUDA's functions on the host, as far as kernels here use them.

inline void __syncthreads(std::source_location where = std::source_location::current()) {
  cuda_decode::device::emulation::all_threads.block_barrier(where);
}

inline void __syncwarp(unsigned lanes = 0xffff'ffffU, std::source_location where = std::source_location::current()) {
  using namespace cuda_decode::device::emulation;
  all_threads.collective(
      lanes, nullptr, [](threads::warp&, unsigned) -> const char* { return nullptr; }, where);
}

template <class T>
T __shfl_sync(unsigned lanes, T value, int source, int width = 32,
              std::source_location where = std::source_location::current()) {
  using namespace cuda_decode::device::emulation;
  const auto w = static_cast<unsigned>(width);
  return shuffle(lanes, value, (lane() & ~(w - 1)) + (static_cast<unsigned>(source) & (w - 1)), where);
}

template <class T>
T __shfl_xor_sync(unsigned lanes, T value, int with, int width = 32,
                  std::source_location where = std::source_location::current()) {
  using namespace cuda_decode::device::emulation;
  const auto w = static_cast<unsigned>(width);
  const unsigned source = lane() ^ static_cast<unsigned>(with);
  return shuffle(lanes, value, source > (lane() | (w - 1)) ? lane() : source, where);
}

template <class T>
T __shfl_down_sync(unsigned lanes, T value, unsigned by, int width = 32,
                   std::source_location where = std::source_location::current()) {
  using namespace cuda_decode::device::emulation;
  const auto w = static_cast<unsigned>(width);
  return shuffle(lanes, value, (lane() & (w - 1)) + by >= w ? lane() : lane() + by, where);
}

template <class T>
T __shfl_up_sync(unsigned lanes, T value, unsigned by, int width = 32,
                 std::source_location where = std::source_location::current()) {
  using namespace cuda_decode::device::emulation;
  const auto w = static_cast<unsigned>(width);
  return shuffle(lanes, value, (lane() & (w - 1)) < by ? lane() : lane() - by, where);
}

inline unsigned __ballot_sync(unsigned lanes, int predicate,
                              std::source_location where = std::source_location::current()) {
  return cuda_decode::device::emulation::ballot(lanes, predicate != 0, where);
}

inline int __any_sync(unsigned lanes, int predicate, std::source_location where = std::source_location::current()) {
  return static_cast<int>(cuda_decode::device::emulation::ballot(lanes, predicate != 0, where) != 0);
}

inline int __all_sync(unsigned lanes, int predicate, std::source_location where = std::source_location::current()) {
  return static_cast<int>(cuda_decode::device::emulation::ballot(lanes, predicate == 0, where) == 0);
}

inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }

// One thread runs at a time.
template <class T>
T atomicAdd(T* p, std::type_identity_t<T> x) {
  const T old = *p;
  *p = static_cast<T>(old + x);
  return old;
}
