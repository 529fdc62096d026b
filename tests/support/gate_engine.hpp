// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/owned_storage.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <deque>
#include <vector>

namespace tessera_test {

/// Runs the steps of a scheduler with a gate, first come, first served; says which requests start in each. A request
/// ends when it has generated `output` tokens (its member).
template <class Request, class Gate>
struct gate_engine {
  using scheduler_type =
      tessera::iteration_scheduler<Request, tessera::order::fcfs, tessera::preempt::swap, tessera::admit::always,
                                   tessera::kv::block_pool, tessera::kv::csr_tables, Gate>;
  gate_engine(const tessera::scheduler_limits& l, const Gate& gate, tessera::tokens least_left = {})
      : storage{tessera::storage_for<scheduler_type>(l)},
        scheduler{storage, {.gate = gate, .least_left = least_left}} {}

  /// The requests that start in it, in order.
  std::vector<Request*> plan(const tessera::step_limits& l = {}) {
    p = scheduler.plan(tessera::time_point{}, l);
    std::vector<Request*> started;
    for (std::size_t i = 0; i != p.size(); ++i) {
      if (p[i].request->state().life == tessera::lifecycle::waiting) started.push_back(p[i].request);
    }
    return started;
  }
  void commit() {
    std::vector<tessera::outcome> outcomes(p.size());
    for (std::size_t i = 0; i != p.size(); ++i) {
      outcomes[i].finished = p[i].samples && p[i].request->generated().count() + 1 >= p[i].request->output;
    }
    REQUIRE(scheduler.commit(p, outcomes, tessera::time_point{}) == tessera::status::ok);
  }
  std::vector<Request*> step(const tessera::step_limits& l = {}) {
    auto started = plan(l);
    commit();
    return started;
  }

  std::deque<Request> requests;
  tessera::owned_storage<tessera::scheduler_limits> storage;
  scheduler_type scheduler;
  tessera::step_plan<Request> p;
};

}  // namespace tessera_test
