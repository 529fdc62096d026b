// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A scheduler with groups of layers, decoded from any bytes. The bytes are the model and its block sizes, 1 to 4 plans
// in flight, and everything that an engine may do. After the input is used up, all requests are run to their ends. The
// rules that must hold are in property/groups_world.hpp.

#include "property/groups_operations.hpp"

#include <cstdio>
#include <cstdlib>

#include "support/fuzz_bytes.hpp"

namespace {

using namespace tessera_test;

template <class Order, class Gate, std::size_t Groups>
void run(std::size_t plans_in_flight, fuzz_choice choice) {
  grouped::totals t;
  grouped::setting<Groups> s{.layers = grouped::random_layers<Groups>(choice),
                             .plans_in_flight = plans_in_flight,
                             .remembers = choice(2) == 0,
                             .operations = 400};
  grouped::play<Order, Gate>(s, choice, choice(2) == 0 ? &choice : nullptr, t);
}

template <std::size_t Groups>
void run(unsigned policies, std::size_t plans_in_flight, const fuzz_choice& choice) {
  using namespace tessera;
  switch (policies) {
    case 0: run<order::fcfs, gate::in_line, Groups>(plans_in_flight, choice); break;
    case 1: run<order::fcfs, gate::backfill, Groups>(plans_in_flight, choice); break;
    default: run<order::round_robin, gate::in_line, Groups>(plans_in_flight, choice);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const fuzz_choice choice{data + 1, size - 1};
  const std::size_t plans = 1 + (data[0] & 3U);
  const unsigned policies = data[0] >> 2U & 3U;
  try {
    switch (data[0] >> 4U & 3U) {
      case 0: run<1>(policies, plans, choice); break;
      case 1: run<2>(policies, plans, choice); break;
      default: run<3>(policies, plans, choice);
    }
  } catch (const broken& b) {
    std::fprintf(stderr, "broken: %s\n", b.what());
    std::abort();
  }
  return 0;
}
