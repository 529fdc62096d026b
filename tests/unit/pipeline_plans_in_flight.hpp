// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Engines that plan a step while others run.

#include <tessera/order/round_robin.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/step_engine.hpp"

#include <cstddef>

namespace tessera_test::in_flight {

using namespace tessera;
using namespace tessera::literals;

using request = tessera_test::prompt_request<request_hook_for<order::two_phase, order::round_robin>>;
template <class Order = order::fcfs, class BlockStore = kv::block_pool>
using engine_of =
    tessera_test::step_engine<iteration_scheduler<request, Order, preempt::swap, admit::always, BlockStore>>;

inline constexpr scheduler_limits two{.requests = 16,
                                      .blocks = 32,
                                      .block_size = 4_tok,
                                      .residents = 4,
                                      .host_blocks = 32,
                                      .max_length = 100_tok,
                                      .plans_in_flight = 2};
inline constexpr scheduler_limits with_blocks(std::size_t n) {
  scheduler_limits l = two;
  l.blocks = n;
  return l;
}

}  // namespace tessera_test::in_flight
