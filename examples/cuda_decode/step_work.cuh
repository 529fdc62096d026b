// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <decoder_checks.cuh>
#include <device/device.hpp>
#include <kernels/attention.cuh>

#ifdef __CUDACC__
#  include <tessera/gpu/batch_sort.cuh>
#else
#  include <tessera/gpu/host_sorter.hpp>
#endif

#include <cstddef>
#include <cstdint>

/// @file
/// A step on its way: its batch on the device, its slot in the host's memory, and what sorts its work list.

namespace cuda_decode {

#ifdef __CUDACC__
using work_sorter = tessera::gpu::device_sorter;
template <class Stream>
work_sorter sorter_on(Stream stream) {
  return work_sorter{stream};
}
#else
using work_sorter = tessera::gpu::host_sorter;
template <class Stream>
work_sorter sorter_on(Stream /*stream*/) {
  return {};
}
#endif

// A batch as it is on the device. The pointers depend on `tokens` and `samples` alone, so that a graph has them.
struct work {
  std::size_t tokens = 0;   // with padding
  std::size_t samples = 0;  // with padding
  std::size_t sampled = 0;  // without
  bool decodes = false;
  attention_counts counts;
  std::size_t keys = 0;   // bytes from the start of the upload
  std::size_t bytes = 0;  // of the upload
};

// A step in flight: what the device reads and writes of the host's memory meanwhile, and when it did what.
struct launched {
  device::pinned<std::byte> staging;
  device::pinned<attention_merge> merges;
  device::pinned<std::int32_t> tokens;
  std::size_t sampled = 0;
  bool computes = false;
  bool swaps = false;
  double host = 0;
  device::event swap_begin, swap_end, begin, uploaded, sorted, start, end, done;
};

// Where the arrays of the upload begin, in numbers of 32 bits.
struct upload_layout {
  std::size_t counts = 0;
  std::size_t tokens;
  std::size_t positions;
  std::size_t slots;
  std::size_t samples;
  std::size_t items;  // and behind them the block table, then the keys
  constexpr upload_layout(std::size_t t, std::size_t s)
      : tokens{4},
        positions{tokens + t},
        slots{positions + t},
        samples{slots + t},
        items{detail::rounded_up(samples + s, 4)} {}
};
inline constexpr std::size_t item_words = sizeof(attention_item) / sizeof(std::int32_t);

}  // namespace cuda_decode
