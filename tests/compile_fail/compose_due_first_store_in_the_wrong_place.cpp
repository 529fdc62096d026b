// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: tessera: due_first<Request, Expected, Deadline, BlockStore>: the block store is the fourth

#include <tessera/compose/due_first.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pacing/token_pacer.hpp>

struct request : tessera::due_first_request {
  tessera::token_pacer pacer{};
  tessera::tokens expected_output{};
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return {}; }
};

#ifdef EXPECT_OK
using scheduler = tessera::due_first<request, tessera::order::expected_output_member, tessera::order::pacer_member,
                                     tessera::kv::prefix_cache>;
#else
using scheduler = tessera::due_first<request, tessera::kv::prefix_cache>;
#endif

std::size_t bytes() { return scheduler::required_bytes({.blocks = 4}); }
