// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "property/seeded_operations.hpp"

namespace tessera_test {

template <class Order, class BlockStore, class Gate>
operations_done run_operations(const seeded_run& wanted) {
  seeded choice{std::mt19937_64{wanted.seed}};
  seeded extra{std::mt19937_64{wanted.seed + 1}};
  scheduler_operations<Order, BlockStore, seeded, Gate> run{choice,
                                                            wanted.with_abandoned ? &extra : nullptr,
                                                            wanted.remember,
                                                            wanted.looks,
                                                            wanted.plans_in_flight,
                                                            wanted.aside,
                                                            wanted.plans_apart};
  run.run(wanted.operations);
  run.drain();
  return {.digest = run.digest(),
          .preempted = run.preempted(),
          .hits = run.hits(),
          .migrated = run.migrated(),
          .resumed = run.resumed(),
          .lost = run.lost(),
          .forked = run.forked(),
          .loads = run.loads(),
          .demotions = run.demotions(),
          .parked = run.parked(),
          .arrived = run.arrived(),
          .drained = run.drained(),
          .late = run.late()};
}

}  // namespace tessera_test
