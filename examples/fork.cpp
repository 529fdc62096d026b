// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Three answers to one prompt, side by side: the prompt is computed once, and its blocks are shared. The request starts
// only when there is room for all three, and that room is kept until they are made. The last block, which is not full,
// is copied for each. What runs meanwhile goes on.
#include <tessera/compose/fcfs.hpp>
#include <tessera/gate/groups.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <vector>

using namespace tessera::literals;

struct my_request : tessera::request_hook {
  const char* name = "";
  std::uint32_t forks_due = 0;  // copies that are still to be made of it
};
using scheduler_type =
    tessera::fcfs<my_request, tessera::kv::block_pool, tessera::kv::csr_tables, tessera::gate::groups>;

int main() {
  std::deque<my_request> requests(3);  // which stay in place
  auto storage = tessera::storage_for<scheduler_type>({.blocks = 64, .residents = 4});
  scheduler_type scheduler{storage};
  const char* const names[] = {"first", "three", "later"};
  const tessera::tokens lengths[] = {20_tok, 40_tok, 20_tok};
  for (std::size_t i = 0; i != 3; ++i) {
    my_request& r = requests[i];
    r.name = names[i], r.prompt = lengths[i], r.max_output = i == 0 ? 5_tok : 3_tok;
    if (!ok(scheduler.submit(r, {}))) return 1;
    if (i == 0) requests[1].forks_due = 2;
  }

  std::vector<tessera::outcome> outcomes;
  for (int step = 0; !scheduler.idle(); ++step) {
    const auto plan = scheduler.plan({}, {.max_batch = 4});
    std::printf("step %d:", step);
    for (const auto& c : plan.copies) std::printf(" copy block %u to %u;", c.from, c.to);
    outcomes.assign(plan.size(), {});
    my_request* forked = nullptr;
    for (std::size_t i = 0; i != plan.size(); ++i) {
      my_request& r = *plan[i].request;
      std::printf(" %s", r.name);
      outcomes[i].finished = plan[i].samples && r.generated() + 1_tok == r.max_output;
      if (plan[i].samples && r.forks_due != 0) forked = &r;
    }
    scheduler.commit(plan, outcomes, {});
    // Its prompt is there: each copy goes on from here with a token of its own.
    while (forked != nullptr && forked->forks_due != 0) {
      my_request& child = requests.emplace_back(*forked);
      child.forks_due = 0;
      if (!ok(scheduler.fork(*forked, child))) return 1;
      --forked->forks_due;
    }
    std::printf("; %ld blocks held\n", static_cast<long>(scheduler.device_blocks_held().count()));
  }
}

/* output:
step 0: first three; 7 blocks held
step 1: copy block 4 to 5; copy block 4 to 6; first three three three; 7 blocks held
step 2: first three three three; 2 blocks held
step 3: first later; 4 blocks held
step 4: first later; 2 blocks held
step 5: later; 0 blocks held
*/
