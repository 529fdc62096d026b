// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: tessera: a gate that backfills or screens needs .*as .adapter., .tenant. or .forks_due.

#include <tessera/compose/fcfs.hpp>
#include <tessera/gate/fair_tenants.hpp>

struct request : tessera::request_hook {
#ifdef EXPECT_OK
  std::uint32_t tenant = 0;
#endif
};

std::size_t bytes() {
  return tessera::fcfs<request, tessera::kv::block_pool, tessera::kv::csr_tables,
                       tessera::gate::fair_tenants>::required_bytes({.blocks = 4});
}
