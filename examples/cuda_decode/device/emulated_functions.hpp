// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "emulated_threads.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
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

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline float __fdividef(float x, float y) { return x / y; }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }

/// Four bytes of the eight of `y:x`, chosen by the lower three bits of each of the selector's lowest four digits.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(y) << 32 | x;
  unsigned out = 0;
  for (unsigned i = 0; i < 4; ++i) {
    out |= static_cast<unsigned>(bytes >> 8 * (selector >> 4 * i & 7U) & 0xffU) << 8 * i;
  }
  return out;
}

template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
T __ldcg(const T* p) {
  return *p;
}
template <class T>
T __ldcs(const T* p) {
  return *p;
}

// One thread runs at a time.
template <class T>
T atomicAdd(T* p, std::type_identity_t<T> x) {
  const T old = *p;
  *p = static_cast<T>(old + x);
  return old;
}
template <class T>
T atomicMax(T* p, std::type_identity_t<T> x) {
  const T old = *p;
  if (x > old) *p = x;
  return old;
}
template <class T>
T atomicExch(T* p, std::type_identity_t<T> x) {
  return std::exchange(*p, x);
}
template <class T>
T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> desired) {
  const T old = *p;
  if (old == expected) *p = desired;
  return old;
}
inline void __threadfence() {}
