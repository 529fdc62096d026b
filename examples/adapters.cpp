// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Many adapters (LoRA), of which two fit on the device, and two tenants, one of which floods the queue. A request with
// an adapter that is not on the device is skipped, not waited for. The tenant that has had least goes next. Each rule
// is a gate of its own.
#include <tessera/compose/fcfs.hpp>
#include <tessera/gate/adapter_slots.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/gate/fair_tenants.hpp>

#include <cstdint>
#include <cstdio>
#include <deque>
#include <vector>

using namespace tessera::literals;

struct my_request : tessera::request_hook {
  std::uint32_t adapter = 0;  // 0: none
  std::uint32_t tenant = 0;
};

template <class Gate>
void serve(const char* name, const Gate& gate) {
  using scheduler_type = tessera::fcfs<my_request, tessera::kv::block_pool, tessera::kv::csr_tables, Gate>;
  std::deque<my_request> requests(24);
  auto storage = tessera::storage_for<scheduler_type>({.blocks = 256, .residents = 4});
  scheduler_type scheduler{storage, {.gate = gate}};
  for (std::uint32_t i = 0; i != 24; ++i) {
    my_request& r = requests[i];
    r.prompt = 100_tok, r.max_output = 10_tok;
    r.adapter = 1 + i % 3;
    r.tenant = i < 18 ? 0 : 1;  // the second comes when the first has filled the queue
    if (!ok(scheduler.submit(r, {}))) return;
  }

  std::vector<tessera::outcome> outcomes;
  std::size_t most_adapters = 0;
  int step = 0;
  int done[2] = {0, 0};
  for (; !scheduler.idle(); ++step) {
    const auto plan = scheduler.plan({}, {.max_batch = 4});
    bool used[4] = {};
    outcomes.assign(plan.size(), {});
    for (std::size_t i = 0; i != plan.size(); ++i) {
      const my_request& r = *plan[i].request;
      used[r.adapter] = true;
      outcomes[i].finished = plan[i].samples && r.generated() + 1_tok == r.max_output;
      if (outcomes[i].finished) done[r.tenant] = step;
    }
    const std::size_t n = static_cast<std::size_t>(used[1]) + used[2] + used[3];
    if (n > most_adapters) most_adapters = n;
    scheduler.commit(plan, outcomes, {});
  }
  std::printf("%-8s %3d steps; at most %zu adapters at once; the tenants are served by step %d and %d\n", name, step,
              most_adapters, done[0], done[1]);
}

int main() {
  namespace gate = tessera::gate;
  serve("in line", gate::in_line{});
  serve("adapters", gate::adapter_slots{.slots = 2});
  using both = gate::all<gate::adapter_slots, gate::fair_tenants>;
  both gates;
  std::get<0>(gates.gates).slots = 2;
  serve("both", gates);
}

/* output:
in line   60 steps; at most 3 adapters at once; the tenants are served by step 49 and 59
adapters  70 steps; at most 2 adapters at once; the tenants are served by step 49 and 69
both      70 steps; at most 2 adapters at once; the tenants are served by step 69 and 29
*/
