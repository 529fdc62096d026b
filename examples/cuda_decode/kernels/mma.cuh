// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <device/device.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

/// @file
/// What kernels need of PTX: the tensor cores' product, matrices from shared memory, copies into it that do not wait.
/// On an emulated device, the same with a warp's lanes exchanging what they hold.

namespace cuda_decode {

#ifndef __CUDACC__
namespace detail {
inline void require_aligned(const void* p, const char* what) {
  if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) {
    throw device_error{std::string{what} + " at an address that is no multiple of 16"};
  }
}
}  // namespace detail
#endif

/// Four 8x8 matrices of bf16. Lane l gives the address of row l % 8 of matrix l / 8: 16 bytes of shared memory,
/// aligned. In `m[i]` it gets, of matrix i, row l / 4, columns 2 (l % 4) and the next.
__device__ inline void load_matrices(std::uint32_t (&m)[4], const void* row) {
#ifdef __CUDACC__
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
#else
  detail::require_aligned(row, "a row of a matrix");
  const unsigned lane = device::emulation::lane();
  const auto* const rows = device::emulation::warp_exchange(static_cast<const unsigned char*>(row));
  for (unsigned i = 0; i < 4; ++i) std::memcpy(&m[i], rows[8 * i + lane / 4] + 4 * (lane % 4), 4);
#endif
}

/// The same, transposed: row 2 (l % 4) and the next, column l / 4.
__device__ inline void load_matrices_transposed(std::uint32_t (&m)[4], const void* row) {
#ifdef __CUDACC__
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
#else
  detail::require_aligned(row, "a row of a matrix");
  const unsigned lane = device::emulation::lane();
  const auto* const rows = device::emulation::warp_exchange(static_cast<const unsigned char*>(row));
  for (unsigned i = 0; i < 4; ++i) {
    std::array<std::uint16_t, 2> pair;
    for (unsigned e = 0; e < 2; ++e) std::memcpy(&pair[e], rows[8 * i + 2 * (lane % 4) + e] + 2 * (lane / 4), 2);
    m[i] = static_cast<std::uint32_t>(pair[1]) << 16 | pair[0];
  }
#endif
}

/// c += a b, in float, for a of 16x16 and b of 16x8 bf16. With g = lane / 4 and t = lane % 4, a lane holds:
/// - a[0]: row g, columns 2t and the next; a[1]: row g + 8.
/// - a[2], a[3]: the same, 8 columns on.
/// - b0: rows 2t and the next, column g; b1: the same, 8 rows on.
/// - c[0], c[1]: row g, columns 2t and the next; c[2], c[3]: row g + 8.
__device__ inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
#ifdef __CUDACC__
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  struct operands {
    std::uint32_t a[4];
    std::uint32_t b[2];
  };
  const unsigned lane = device::emulation::lane();
  const operands* const all = device::emulation::warp_exchange(operands{{a[0], a[1], a[2], a[3]}, {b0, b1}});
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = i / 2;                      // 8 rows on, or not
    const unsigned column = 2 * (lane % 4) + i % 2;  // of b
    for (unsigned k = 0; k < 8; ++k) {
      const std::uint32_t x = all[lane / 4 * 4 + k % 4].a[row + 2 * (k / 4)];
      const std::uint32_t y = all[column * 4 + k % 4].b[k / 4];
      c[i] += low_bf16(x) * low_bf16(y);
      c[i] += high_bf16(x) * high_bf16(y);
    }
  }
#endif
}

/// 2^x; 0 for -infinity.
__device__ inline float exp2_fast(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::exp2(x);
#endif
}

#ifndef __CUDACC__
namespace device::emulation {
/// Whether bytes arrive when a thread waits for them, or at once. A device may do either.
inline bool copies_arrive_late = true;
}  // namespace device::emulation
#endif

/// Copies of a thread from global to shared memory. They are done in groups; barriers make them known to other threads.
class async_copies {
 public:
  /// Copies 16 bytes, aligned. Unless `valid`, it writes zeros and reads nothing.
  __device__ void copy(void* to, const void* from, bool valid) {
#ifdef __CUDACC__
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(
                     static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(__cvta_generic_to_global(from)), "r"(valid ? 16 : 0)
                 : "memory");
#else
    detail::require_aligned(to, "a copy");
    detail::require_aligned(from, "a copy");
    if (count_ == most) throw device_error{"too many copies at a time for the emulation"};
    waiting_[count_++] = {to, valid ? from : nullptr, group_};
    if (!device::emulation::copies_arrive_late) arrive(group_ + 1);
#endif
  }

  /// Ends a group, which may be empty.
  __device__ void commit() {
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;" ::: "memory");
#else
    ++group_;
#endif
  }

  /// Until all groups but the last `Pending` are done.
  template <int Pending>
  __device__ void wait() {
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#else
    arrive(group_ - Pending);
#endif
  }

#ifndef __CUDACC__
 private:
  struct waiting {
    void* to;
    const void* from;
    int group;
  };

  void arrive(int before) {
    std::size_t done = 0;
    for (; done < count_ && waiting_[done].group < before; ++done) {
      if (waiting_[done].from == nullptr) {
        std::memset(waiting_[done].to, 0, 16);
      } else {
        std::memcpy(waiting_[done].to, waiting_[done].from, 16);
      }
    }
    count_ -= done;
    for (std::size_t i = 0; i < count_; ++i) waiting_[i] = waiting_[i + done];
  }

  static constexpr std::size_t most = 64;
  std::array<waiting, most> waiting_;
  std::size_t count_ = 0;
  int group_ = 0;
#endif
};

}  // namespace cuda_decode
