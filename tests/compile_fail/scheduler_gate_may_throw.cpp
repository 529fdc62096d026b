// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: tessera: a gate that backfills or screens needs .passage ask

#include <tessera/compose/fcfs.hpp>

struct request : tessera::request_hook {};

struct my_gate {
  static constexpr bool backfills = true;
  std::size_t most_skipped = 1;
#ifdef EXPECT_OK
  tessera::passage ask(const request&, const tessera::gate_view<request>&) const noexcept {
#else
  tessera::passage ask(const request&, const tessera::gate_view<request>&) const {
#endif
      return tessera::passage::stop;
}
}
;

std::size_t bytes() {
  return tessera::fcfs<request, tessera::kv::block_pool, tessera::kv::csr_tables, my_gate>::required_bytes(
      {.blocks = 4});
}
