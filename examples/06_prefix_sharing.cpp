// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// 6. Prefix sharing: with a prefix cache, the second request finds the system prompt that the first one computed.

#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/hash_chain.hpp>
#include <tessera/kv/prefix_cache.hpp>

#include <array>
#include <cstdio>
#include <span>

namespace {

using tessera::kv::block_id;
using tessera::kv::prefix_cache;

constexpr std::size_t block_size = 4;
constexpr std::uint64_t tenant = 42;

// Runs a prompt of 12 tokens, as a scheduler would, and gives its blocks back.
void run(prefix_cache& cache, std::span<const std::int32_t> prompt) {
  std::array<std::uint64_t, 3> hashes{};
  tessera::kv::hash_chain(prompt, block_size, hashes, tenant);

  std::array<block_id, 3> blocks{};
  const std::size_t hits = cache.match(hashes, blocks);
  const auto cached = std::span{blocks}.first(hits);
  const auto fresh = std::span{blocks}.subspan(hits);
  if (!ok(cache.share(cached)) || !ok(cache.allocate(fresh))) return;

  // ... the engine computes the fresh blocks; from then on others may find them ...
  for (std::size_t i = hits; i != blocks.size(); ++i) {
    if (!ok(cache.publish(blocks[i], hashes[i]))) return;
  }
  std::printf("%zu of 12 tokens found; blocks %u %u %u", hits * block_size, blocks[0], blocks[1], blocks[2]);
  if (!ok(cache.release(blocks))) return;
  std::printf("; then %zu free, of which %zu cached\n", cache.free(), cache.cached());
}

}  // namespace

int main() {
  auto storage = tessera::storage_for<prefix_cache>({.blocks = 5});
  tessera::arena memory{storage.memory()};
  prefix_cache cache{memory, storage.limits()};

  const std::array<std::int32_t, 12> first{1, 2, 3, 4, 5, 6, 7, 8, 100, 101, 102, 103};
  const std::array<std::int32_t, 12> second{1, 2, 3, 4, 5, 6, 7, 8, 200, 201, 202, 203};
  const std::array<std::int32_t, 12> third{9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9};
  run(cache, first);
  run(cache, second);  // shares two blocks
  run(cache, third);   // evicts the ends of the others
  run(cache, first);
}

/* output:
0 of 12 tokens found; blocks 0 1 2; then 5 free, of which 3 cached
8 of 12 tokens found; blocks 0 1 3; then 5 free, of which 4 cached
0 of 12 tokens found; blocks 4 2 3; then 5 free, of which 5 cached
8 of 12 tokens found; blocks 0 1 3; then 5 free, of which 5 cached
*/
