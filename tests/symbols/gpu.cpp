// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/gpu/host_sorter.hpp>
#include <tessera/gpu/sort_key.hpp>

using namespace tessera::gpu;

tessera::status use(std::span<std::uint64_t> keys, std::span<const std::uint32_t> in, std::span<std::uint32_t> out,
                    workspace space) {
  for (auto& k : keys) k = key_layout<>::pack({.value = 1, .length = longest_first<28>(in[0])});
  const host_sorter s;
  const auto a = s.sort(keys, 64, out, space);
  const auto b = s.sort_segments(keys, 32, in, out, space);
  const auto c = s.bucket(in, in, out, out, space);
  const auto d = s.admit(in, in, in, in, out, space);
  return !ok(a) ? a : !ok(b) ? b : !ok(c) ? c : d;
}
