// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// 2. KV blocks, and the pool they come from: all or nothing, shared blocks, wrong calls that are answered instead of
// believed, exact undo.

#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/block_pool.hpp>

#include <array>
#include <cstdio>

namespace {

void report(const char* what, tessera::status outcome, const tessera::kv::block_pool& pool) {
  std::printf("%s: %s, %zu free\n", what, to_string(outcome), pool.free());
}

}  // namespace

int main() {
  using tessera::kv::block_id;
  using tessera::kv::block_pool;

  auto storage = tessera::storage_for<block_pool>({.blocks = 8});  // the only allocation
  tessera::arena memory{storage.memory()};
  block_pool pool{memory, storage.limits()};

  std::array<block_id, 3> prompt{};
  std::array<block_id, 6> too_many{};
  report("3 blocks", pool.allocate(prompt), pool);
  report("6 blocks", pool.allocate(too_many), pool);

  // Two samples of one prompt: the blocks are free when both are done.
  report("share", pool.share(prompt), pool);
  std::printf("block %u has %u owners\n", prompt[0], pool.references(prompt[0]));
  report("first release", pool.release(prompt), pool);
  report("second release", pool.release(prompt), pool);
  report("third release", pool.release(prompt), pool);
  report("block 8", pool.release(8), pool);

  // A plan that is dropped is undone backwards, and leaves no trace.
  std::array<block_id, 2> planned{};
  report("a plan", pool.allocate(planned), pool);
  pool.undo_allocate(planned);
  std::printf("planned %u and %u, dropped; the next is %u\n", planned[0], planned[1], pool.allocate());
}

/* output:
3 blocks: ok, 5 free
6 blocks: exhausted, 5 free
share: ok, 5 free
block 0 has 2 owners
first release: ok, 5 free
second release: ok, 8 free
third release: not_allocated, 8 free
block 8: foreign, 8 free
a plan: ok, 6 free
planned 0 and 1, dropped; the next is 0
*/
