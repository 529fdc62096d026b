// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Plans that do not happen and requests that end early. An abandoned plan leaves no trace. A request can be cancelled
// at any moment, and its blocks come back when the step that uses them is over.
#include <tessera/compose/fcfs.hpp>

#include <array>
#include <cstdio>

using namespace tessera::literals;

struct my_request : tessera::request_hook {};
using scheduler_type = tessera::fcfs<my_request>;

void report(const char* what, const scheduler_type& scheduler) {
  std::printf("%-28s %zu waiting, %zu resident, %zu blocks free\n", what, scheduler.waiting_count(),
              scheduler.resident_count(), scheduler.store().free());
}

int main() {
  std::array<my_request, 3> requests;  // outlive the scheduler: some may still be queued when it goes
  auto storage = tessera::storage_for<scheduler_type>({.blocks = 8, .residents = 4});
  scheduler_type scheduler{storage};

  for (my_request& r : requests) {
    r.prompt = 40_tok;  // 3 blocks: two of the three fit
    if (!ok(scheduler.submit(r, {}))) return 1;
  }
  my_request huge;
  huge.prompt = 1000_tok;
  std::printf("1000 tokens of prompt: %s\n", to_string(scheduler.submit(huge, {})));
  report("submitted:", scheduler);

  // The device is lost, or a more urgent request came: drop the plan.
  const tessera::step_limits limits{.max_batch = 4, .token_budget = 128_tok};
  const auto first = scheduler.plan({}, limits);
  const std::int32_t block = first.tables.indices[0];
  report("planned:", scheduler);
  scheduler.abandon(first);
  report("abandoned:", scheduler);

  // The same plan again, with the same blocks.
  const auto second = scheduler.plan({}, limits);
  std::printf("%zu requests, first block %s\n", second.size(),
              second.tables.indices[0] == block ? "as before" : "moved");
  std::printf("the third waits: %s\n", to_string(scheduler.why(requests[2])));

  // A client hangs up while the step runs. The step still writes to those blocks, so they stay taken until commit.
  std::printf("cancel: %s\n", to_string(scheduler.cancel(requests[0])));
  report("cancelled in flight:", scheduler);
  scheduler.commit(second, std::array<tessera::outcome, 2>{}, {});
  report("committed:", scheduler);

  std::printf("cancel again: %s\n", to_string(scheduler.cancel(requests[0])));
  for (my_request& r : requests) static_cast<void>(scheduler.cancel(r));  // no plan is pending: at once
  report("cancelled:", scheduler);
}

/* output:
1000 tokens of prompt: never_fits
submitted:                   3 waiting, 0 resident, 8 blocks free
planned:                     3 waiting, 0 resident, 2 blocks free
abandoned:                   3 waiting, 0 resident, 8 blocks free
2 requests, first block as before
the third waits: no_blocks
cancel: ok
cancelled in flight:         3 waiting, 0 resident, 2 blocks free
committed:                   1 waiting, 1 resident, 5 blocks free
cancel again: unknown_request
cancelled:                   0 waiting, 0 resident, 8 blocks free
*/
