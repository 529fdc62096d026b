// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: tessera: the gate has .ask., but neither backfills nor screens

#include <tessera/compose/fcfs.hpp>

struct request : tessera::request_hook {};

struct my_gate {
  static constexpr bool backfills = false;
#ifdef EXPECT_OK
  static constexpr bool screens = true;
#endif
  tessera::passage ask(const request&, const tessera::gate_view<request>&) const noexcept {
    return tessera::passage::stop;
  }
};

std::size_t bytes() {
  return tessera::fcfs<request, tessera::kv::block_pool, tessera::kv::csr_tables, my_gate>::required_bytes(
      {.blocks = 4});
}
