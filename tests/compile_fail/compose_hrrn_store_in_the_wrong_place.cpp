// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: tessera: hrrn<Request, Expected, BlockStore>: the block store is the third

#include <tessera/compose/hrrn.hpp>
#include <tessera/kv/prefix_cache.hpp>

struct request : tessera::hrrn_request {
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return {}; }
};

#ifdef EXPECT_OK
using scheduler = tessera::hrrn<request, tessera::order::expected_output_member, tessera::kv::prefix_cache>;
#else
using scheduler = tessera::hrrn<request, tessera::kv::prefix_cache>;
#endif

std::size_t bytes() { return scheduler::required_bytes({.blocks = 4}); }
