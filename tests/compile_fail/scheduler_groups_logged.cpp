// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: tessera: the decision log has no form for kv::groups

#include <tessera/compose/fcfs.hpp>
#include <tessera/pipeline/decision_log.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>

struct request : tessera::request_hook {};

#ifdef EXPECT_OK
using scheduler = tessera::fcfs<request, tessera::kv::block_pool>;
#else
using scheduler = tessera::fcfs<request, tessera::kv::groups<2>>;
#endif

using log = tessera::logged<scheduler>;
static_assert(sizeof(log) != 0);
