// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: tessera: prefixes of kv::groups are not found on the host

#include <tessera/compose/fcfs.hpp>
#include <tessera/kv/host_cache.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>

struct request : tessera::request_hook {};

#ifdef EXPECT_OK
using store = tessera::kv::prefix_cache;
#else
using store = tessera::kv::two_level_cache<>;
#endif
using scheduler = tessera::fcfs<request, tessera::kv::groups<2, store>>;

std::size_t bytes(const scheduler::limits& l) { return scheduler::required_bytes(l); }
