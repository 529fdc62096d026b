// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: tessera: a prefix cache needs requests with

#include <tessera/compose/fcfs.hpp>
#include <tessera/kv/prefix_cache.hpp>

struct request : tessera::request_hook {
#ifdef EXPECT_OK
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return {}; }
#else
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const { return {}; }  // may throw
#endif
};

std::size_t bytes() { return tessera::fcfs<request, tessera::kv::prefix_cache>::required_bytes({.blocks = 4}); }
