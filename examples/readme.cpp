// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The program of docs/install.md.
#include <tessera/compose/pascal.hpp>

#include <cstdio>
#include <vector>

using namespace tessera::literals;

struct my_request : tessera::pascal_request {  // the hook links it into queues: nothing is allocated for it
  int engine_slot = 0;                         // whatever your engine needs
};

int main() {
  my_request a, b;
  a.prompt = 300_tok, a.max_output = 3_tok;
  b.prompt = 40_tok, b.max_output = 5_tok;

  // 64 KV blocks of 16 tokens. This is the only allocation; a buffer of your own will do as well.
  auto storage = tessera::storage_for<tessera::pascal<my_request>>({.blocks = 64, .residents = 8, .host_blocks = 64});
  tessera::pascal<my_request> scheduler{storage, {.quantum = 500_tok, .demote_above = 5000_tok}};

  tessera::time_point now{};  // the library reads no clock: you say what time it is
  if (!ok(scheduler.submit(a, now)) || !ok(scheduler.submit(b, now))) return 1;

  std::vector<tessera::outcome> outcomes;
  while (!scheduler.idle()) {
    const auto plan = scheduler.plan(now, {.max_batch = 8, .token_budget = 256_tok});
    std::printf("prefill %zu, decode %zu, tokens %lld\n", plan.prefill.size(), plan.decode.size(),
                static_cast<long long>(plan.computed.count()));

    // Your engine's part: plan.copies, then plan.swap_out, then plan.swap_in, then the batch with plan.tables.
    outcomes.assign(plan.size(), {});  // by default: one token sampled, the request goes on
    for (std::size_t i = 0; i < plan.size(); ++i) {
      const my_request& r = *plan[i].request;
      outcomes[i].finished = plan[i].samples && r.generated() + 1_tok == r.max_output;
    }
    now += 20_ms;
    scheduler.commit(plan, outcomes, now);
  }
}

/* output:
prefill 1, decode 0, tokens 256
prefill 2, decode 0, tokens 84
prefill 0, decode 2, tokens 2
prefill 0, decode 2, tokens 2
prefill 0, decode 1, tokens 1
prefill 0, decode 1, tokens 1
*/
