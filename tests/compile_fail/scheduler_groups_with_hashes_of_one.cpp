// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: tessera: with kv::groups, a request that has prefix_hashes\(\) has them for each group

#include <tessera/compose/fcfs.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>

struct request : tessera::request_hook {
#ifdef EXPECT_OK
  [[nodiscard]] std::array<std::span<const std::uint64_t>, 2> prefix_hashes() const noexcept { return {}; }
#else
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return {}; }
#endif
};

using scheduler = tessera::fcfs<request, tessera::kv::groups<2>>;

std::size_t bytes(const scheduler::limits& l) { return scheduler::required_bytes(l); }
