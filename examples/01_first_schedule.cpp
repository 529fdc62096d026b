// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// 1. A first schedule: three requests through PASCAL's instance scheduler, with an "engine" that only counts tokens.
#include <tessera/compose/pascal.hpp>

#include <cstdio>
#include <vector>

using namespace tessera::literals;

struct my_request : tessera::pascal_request {  // the hook: queued without allocation
  char name = '?';
  int reasoning = 0;  // what the model will do; an engine finds out as it goes
  int answer = 0;
};

int main() {
  my_request requests[3];
  for (int i = 0; i < 3; ++i) {
    requests[i].name = static_cast<char>('A' + i);
    requests[i].prompt = 32_tok;
    requests[i].max_output = 64_tok;
    requests[i].reasoning = 4 + i;
    requests[i].answer = 3;
  }

  // Seven KV blocks of 16 tokens: room for two of the three. All memory is taken here, none later.
  auto storage = tessera::storage_for<tessera::pascal<my_request>>({.blocks = 7, .residents = 3, .host_blocks = 16});
  tessera::pascal<my_request> scheduler{storage, {.quantum = 500_tok, .demote_above = 5000_tok}};

  tessera::time_point now{};
  for (my_request& r : requests) {
    if (scheduler.submit(r, now) != tessera::status::accepted) return 1;
  }

  std::vector<tessera::outcome> outcomes;
  for (int step = 0; !scheduler.idle(); ++step) {
    const auto plan = scheduler.plan(now, {.max_batch = 8, .token_budget = 64_tok});

    // Run it: copy plan.swap_out, then plan.swap_in, then compute plan.decode and plan.prefill with plan.tables.
    outcomes.assign(plan.size(), {});
    std::printf("step %2d:", step);
    for (std::size_t i = 0; i < plan.size(); ++i) {
      const my_request& r = *plan[i].request;
      const auto generated = r.generated().count() + 1;  // this step's token included
      outcomes[i].end_of_reasoning = plan[i].samples && generated == r.reasoning;
      outcomes[i].finished = plan[i].samples && generated == r.reasoning + r.answer;
      std::printf(" %c%s", r.name, plan[i].count > 1_tok ? "(prefill)" : outcomes[i].finished ? "(done)" : "");
    }
    for (const auto& victim : plan.preempted) std::printf(" [%c swapped out]", victim.request->name);
    std::printf("\n");

    now += 0.02_s;
    scheduler.commit(plan, outcomes, now);
  }
}

/* output:
step  0: A(prefill) B(prefill)
step  1: A B
step  2: A B
step  3: A B
step  4: B C(prefill) [A swapped out]
step  5: C A [B swapped out]
step  6: C A
step  7: C A(done)
step  8: C B
step  9: C B
step 10: B(done) C
step 11: C
step 12: C(done)
*/
