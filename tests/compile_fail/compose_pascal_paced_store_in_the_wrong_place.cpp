// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: tessera: pascal_paced<Request, Deadline, BlockStore>: the block store is the third

#include <tessera/compose/pascal_paced.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pacing/token_pacer.hpp>

struct request : tessera::pascal_paced_request {
  tessera::token_pacer pacer{};
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return {}; }
};

#ifdef EXPECT_OK
using scheduler = tessera::pascal_paced<request, tessera::order::pacer_member, tessera::kv::prefix_cache>;
#else
using scheduler = tessera::pascal_paced<request, tessera::kv::prefix_cache>;
#endif

std::size_t bytes() { return scheduler::required_bytes({.blocks = 4}); }
