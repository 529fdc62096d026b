// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: loading

#include <tessera/compose/fcfs.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>

struct request : tessera::request_hook {};

// KV of groups comes from nowhere else.
#ifdef EXPECT_OK
using scheduler = tessera::fcfs<request, tessera::kv::block_pool>;
#else
using scheduler = tessera::fcfs<request, tessera::kv::groups<2>>;
#endif

tessera::status load(scheduler& s, request& r) {
  return s.loading(r, tessera::tokens{16}, tessera::time_point::never());
}
