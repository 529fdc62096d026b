// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "property/run_operations.hpp"

namespace tessera_test {

template operations_done run_operations<order::fcfs, kv::block_pool, gate::in_line>(const seeded_run&);
template operations_done run_operations<order::fcfs, kv::block_pool, gate::backfill>(const seeded_run&);
template operations_done run_operations<order::fcfs, kv::prefix_cache, gate::in_line>(const seeded_run&);
template operations_done run_operations<order::fcfs, kv::prefix_cache, gate::backfill>(const seeded_run&);
template operations_done run_operations<order::fcfs, kv::block_pool, all_gates>(const seeded_run&);

}  // namespace tessera_test
