// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: tessera: BlockStore is not a kv::block_store

#include <tessera/pipeline/iteration_scheduler.hpp>

struct request : tessera::request_hook {};

struct my_store : tessera::kv::block_pool {
  using block_pool::block_pool;
#ifndef EXPECT_OK
  void undo_allocate(std::span<const tessera::kv::block_id>) noexcept = delete;
#endif
};

std::size_t bytes() {
  return tessera::iteration_scheduler<request, tessera::order::fcfs, tessera::preempt::swap, tessera::admit::watermark,
                                      my_store>::required_bytes({.blocks = 4});
}
