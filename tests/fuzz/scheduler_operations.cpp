// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The scheduler's operations, decoded from any bytes: two instances, small limits, everything that an engine may do.
// After the input is used up, all requests are run to their ends. What must hold is in property/scheduler_world.hpp.

#include <tessera/kv/evict_by_time.hpp>
#include <tessera/kv/host_cache.hpp>

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

template <class Order>
void run(bool cache, std::size_t plans_in_flight, fuzz_choice choice) {
  cache ? run<Order, kv::prefix_cache>(plans_in_flight, choice) : run<Order, kv::block_pool>(plans_in_flight, choice);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const fuzz_choice choice{data + 1, size - 1};
  const bool cache = (data[0] & 4U) != 0;
  const std::size_t plans = 1 + (data[0] >> 5U & 3U);
  try {
    switch (data[0] & 3U) {
      case 0:
        if ((data[0] & 12U) == 12U) {
          (data[0] & 16U) != 0
              ? run<order::fcfs, kv::two_level_cache<>>(plans, choice)
              : run<order::fcfs, kv::two_level_cache<kv::keep_until<>, kv::event_ring<64>>>(plans, choice);
        } else {
          run<order::fcfs>(cache, plans, choice);
        }
        break;
      case 1: run<order::round_robin>(cache, plans, choice); break;
      case 2: run<order::two_phase>(cache, plans, choice); break;
      default:
        if ((data[0] & 8U) == 0) {
          run<order::ranked<>>(cache, plans, choice);
        } else {
          (data[0] & 16U) != 0 ? run<due_order>(cache, plans, choice) : run<paced_order>(cache, plans, choice);
        }
    }
  } catch (const broken& b) {
    std::fprintf(stderr, "broken: %s\n", b.what());
    std::abort();
  }
  return 0;
}
