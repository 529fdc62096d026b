// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/gpu/batch_sort.cuh>
#include <tessera/gpu/sort_key.hpp>

using namespace tessera::gpu;

static_assert(batch_sorter<device_sorter>);

__global__ void make_keys(const std::uint32_t* lengths, std::uint64_t* keys) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  keys[i] = key_layout<>::pack({.value = 1.0F, .length = longest_first<28>(lengths[i])});
}

tessera::status use(stream_type stream, std::span<std::uint64_t> keys, std::span<const std::uint32_t> in,
                    std::span<std::uint32_t> out, workspace space) {
  make_keys<<<1, 32, 0, stream>>>(in.data(), keys.data());
  const device_sorter s{stream};
  const auto a = s.sort(keys, 64, out, space);
  const auto b = s.sort_segments(keys, 32, in, out, space);
  const auto c = s.bucket(in, in, out, out, space);
  const auto d = s.admit(in, in, in, in, out, space);
  return !ok(a) ? a : !ok(b) ? b : !ok(c) ? c : d;
}
