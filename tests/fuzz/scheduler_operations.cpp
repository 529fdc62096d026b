// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The scheduler's operations, decoded from any bytes: two instances, small limits, everything that an engine may do.
// After the input is used up, all requests are run to their ends. What must hold is in property/scheduler_world.hpp.

#include <tessera/kv/host_cache.hpp>
#include <tessera/kv/keep_until.hpp>

#include "property/scheduler_operations.hpp"
#include "support/fuzz_bytes.hpp"

#include <cstdio>
#include <cstdlib>

namespace {

using namespace tessera_test;

template <class Order, class BlockStore>
void run(std::size_t plans_in_flight, fuzz_choice choice) {
  const bool aside = choice(2) == 1;
  scheduler_operations<Order, BlockStore, fuzz_choice> operations{choice, nullptr, true, true, plans_in_flight, aside};
  operations.run(400);
  operations.drain();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const fuzz_choice choice{data + 1, size - 1};
  const std::size_t plans = 1 + (data[0] >> 5U & 3U);
  // Each order and each store once: all pairs are in property/scheduler_operations_test.cpp.
  try {
    switch (data[0] & 7U) {
      case 0: run<order::fcfs, kv::block_pool>(plans, choice); break;
      case 1: run<paced_order, kv::block_pool>(plans, choice); break;
      case 2: run<order::two_phase, kv::prefix_cache>(plans, choice); break;
      case 3: run<order::ranked<>, kv::block_pool>(plans, choice); break;
      case 4: run<order::fcfs, kv::two_level_cache<kv::keep_until<>, kv::event_ring<64>>>(plans, choice); break;
      case 5: run<order::round_robin, kv::prefix_cache>(plans, choice); break;
      default: run<due_order, kv::prefix_cache>(plans, choice);
    }
  } catch (const broken& b) {
    std::fprintf(stderr, "broken: %s\n", b.what());
    std::abort();
  }
  return 0;
}
