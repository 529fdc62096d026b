// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// KV that comes from elsewhere, requests that cannot begin yet, and blocks that are still being read. A request with a
// prompt that another instance has computed takes its blocks, and nothing is computed on them until the KV is there. A
// request that waits for its grammar to be compiled is skipped and keeps its place. The blocks of a finished request
// are not handed out before its KV is saved. Each has a deadline, so that a notice that is lost holds nothing for ever.
#include <tessera/compose/fcfs.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <vector>

using namespace tessera::literals;
using tessera::time_point;

struct my_request : tessera::request_hook {
  const char* name = "";
};

int main() {
  using scheduler_type = tessera::fcfs<my_request>;
  std::array<my_request, 4> r{};
  const std::array names{"grammar", "loaded", "lost", "plain"};
  for (std::size_t i = 0; i != r.size(); ++i) r[i].name = names[i], r[i].prompt = 64_tok, r[i].max_output = 3_tok;

  auto storage = tessera::storage_for<scheduler_type>({.blocks = 32, .residents = 4, .deadlines = 8});
  scheduler_type scheduler{storage};
  const auto at = [](int step) { return time_point::at_seconds(step * 0.05); };
  for (my_request& x : r) {
    if (!ok(scheduler.submit(x, at(0)))) return 1;
  }
  // Its grammar is ready before step 3; without one by step 6 it would fail.
  if (!ok(scheduler.park(r[0], at(6), tessera::park_end::fails))) return 1;
  // 48 tokens of each are on their way; what has not come by step 5 is computed.
  if (!ok(scheduler.loading(r[1], 48_tok, at(5))) || !ok(scheduler.loading(r[2], 48_tok, at(5)))) return 1;

  std::vector<tessera::outcome> outcomes;
  std::uint64_t saving = 0;
  for (int step = 0; !scheduler.idle() || scheduler.draining_count() != 0; ++step) {
    // Notices, between two steps. The first 40 of 48 tokens came; the others are computed. The second is lost.
    if (step == 2 && !ok(scheduler.arrived(r[1], 40_tok))) return 1;
    if (step == 3 && !ok(scheduler.ready(r[0]))) return 1;
    if (step == 6 && !ok(scheduler.drained(saving))) return 1;

    const auto plan = scheduler.plan(at(step), {.max_batch = 4});
    std::printf("step %d:", step);
    for (const auto& t : plan.load) std::printf("  load %s into %zu blocks", t.request->name, t.device.size());
    for (const auto& d : plan.late) std::printf("  too late for %s", d.request->name);
    for (std::size_t i = 0; i != plan.size(); ++i) {
      std::printf("  %s [%ld, %ld)", plan[i].request->name, static_cast<long>(plan[i].first.count()),
                  static_cast<long>((plan[i].first + plan[i].count).count()));
    }
    outcomes.assign(plan.size(), {});
    my_request* saved = nullptr;
    for (std::size_t i = 0; i != plan.size(); ++i) {
      my_request& x = *plan[i].request;
      const bool done = plan[i].samples && x.generated() + 1_tok == x.max_output;
      if (done && &x == &r[3]) saved = &x;  // ended below, so that its blocks are kept
      outcomes[i].finished = done && saved != &x;
    }
    scheduler.commit(plan, outcomes, at(step + 1));
    if (saved != nullptr && !ok(scheduler.finish(*saved, at(20), saving))) return 1;
    std::printf("%s\n", scheduler.draining_count() != 0 ? "  (saving plain)" : "");
  }
  std::printf("blocks held: %ld\n", static_cast<long>(scheduler.device_blocks_held().count()));
}

/* output:
step 0:  load loaded into 3 blocks  load lost into 3 blocks  plain [0, 64)
step 1:  plain [64, 65)
step 2:  plain [65, 66)  loaded [40, 64)  (saving plain)
step 3:  loaded [64, 65)  grammar [0, 64)  (saving plain)
step 4:  grammar [64, 65)  loaded [65, 66)  (saving plain)
step 5:  too late for lost  grammar [65, 66)  lost [0, 64)  (saving plain)
step 6:  lost [64, 65)
step 7:  lost [65, 66)
blocks held: 0
*/
