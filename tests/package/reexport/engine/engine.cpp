// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "engine.hpp"

namespace engine {

int run(request& r) {
  auto storage = tessera::storage_for<tessera::fcfs<request>>({.requests = 1, .blocks = 16, .residents = 1});
  tessera::fcfs<request> scheduler{storage};
  tessera::time_point now{};
  if (!ok(scheduler.submit(r, now))) return -1;
  int steps = 0;
  for (; !scheduler.idle(); ++steps) {
    const auto plan = scheduler.plan(now, {.max_batch = 1, .token_budget = tessera::tokens{64}});
    const tessera::outcome done{.finished = plan[0].samples && r.generated() + tessera::tokens{1} == r.max_output};
    now += tessera::duration{1'000'000};
    scheduler.commit(plan, {&done, 1}, now);
  }
  return steps;
}

}  // namespace engine
