// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A batch is put in order by class, deadline and length, and grouped by length. As much of it is admitted as there are
// blocks for. It runs on the host here. The same calls do it on a GPU with gpu::device_sorter from
// <tessera/gpu/batch_sort.cuh>, a stream and arrays on the device.

#include <tessera/gpu/host_sorter.hpp>
#include <tessera/gpu/sort_key.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

namespace gpu = tessera::gpu;

namespace {

struct request {
  const char* name;
  gpu::key_fields fields;
  std::uint32_t blocks;
};

// Works with any sorter; the caller owns the workspace.
template <gpu::batch_sorter Sorter>
tessera::status first_and_fitting(Sorter sorter, std::span<const std::uint64_t> keys,
                                  std::span<const std::uint32_t> blocks, std::span<const std::uint32_t> free,
                                  std::span<std::uint32_t> order, std::span<std::uint32_t> admitted,
                                  std::span<const std::uint32_t> offsets, gpu::workspace space) {
  const auto sorted = sorter.sort(keys, gpu::key_layout<>::bits, order, space);
  return ok(sorted) ? sorter.admit(blocks, order, offsets, free, admitted, space) : sorted;
}

}  // namespace

int main() {
  constexpr std::size_t n = 5;
  // Class 0 goes first, then the request with the least time left, then the shortest. A deadline that has passed is
  // negative.
  const std::array<request, n> batch{{{"chat", {.group = 1, .value = 0.5F, .length = 300}, 20},
                                      {"late", {.group = 0, .value = -0.2F, .length = 900}, 60},
                                      {"long", {.group = 0, .value = 0.5F, .length = 4000}, 250},
                                      {"short", {.group = 0, .value = 0.5F, .length = 40}, 3},
                                      {"same", {.group = 0, .value = 0.5F, .length = 40}, 3}}};
  std::array<std::uint64_t, n> keys{};
  std::array<std::uint32_t, n> blocks{}, lengths{}, order{};
  for (std::size_t i = 0; i != n; ++i) {
    keys[i] = gpu::key_layout<>::pack(batch[i].fields);
    blocks[i] = batch[i].blocks;
    lengths[i] = batch[i].fields.length;
  }

  std::vector<std::byte> memory(gpu::host_sorter::required_bytes(n) + gpu::workspace_alignment);
  const gpu::workspace space{memory};
  const gpu::host_sorter sorter;

  const std::array<std::uint32_t, 2> offsets{0, n};  // one instance: one segment
  const std::array<std::uint32_t, 1> free{100};
  std::array<std::uint32_t, 1> admitted{};
  if (!ok(first_and_fitting(sorter, keys, blocks, free, order, admitted, offsets, space))) return 1;
  std::printf("order:");
  for (const auto i : order) std::printf(" %s", batch[i].name);
  std::printf("\n%u fit into %u blocks\n", static_cast<unsigned>(admitted[0]), static_cast<unsigned>(free[0]));

  const std::array<std::uint32_t, 2> bounds{256, 1024};  // buckets: below 256, below 1024, the rest
  std::array<std::uint32_t, 4> starts{};
  if (!ok(sorter.bucket(lengths, bounds, order, starts, space))) return 1;
  for (std::size_t b = 0; b != 3; ++b) {
    std::printf("bucket %zu:", b);
    for (std::uint32_t i = starts[b]; i != starts[b + 1]; ++i) std::printf(" %s", batch[order[i]].name);
    std::printf("\n");
  }
  std::printf("too small a workspace: %s\n", to_string(sorter.sort(keys, 64, order, {})));
}

/* output:
order: late short same long chat
3 fit into 100 blocks
bucket 0: short same
bucket 1: chat late
bucket 2: long
too small a workspace: exhausted
*/
