// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// PASCAL's two queues in one: reasoning before answering, and a reasoning request that grows too large is demoted.

#include <tessera/queue/two_phase.hpp>

#include <cstdio>

using namespace tessera::literals;

struct my_request : tessera::request_hook_for<tessera::order::two_phase> {
  const char* name = "";
};

void show(const char* what, const tessera::two_phase_queue<my_request>& queue) {
  std::printf("%-23s", what);
  queue.for_each([](const my_request& r) {
    std::printf(" %s(%s)", r.name, tessera::order_state<tessera::order::two_phase>(r).level == 0 ? "high" : "low");
  });
  std::printf("\n");
}

int main() {
  my_request chat;
  my_request proof;
  my_request sum;
  chat.name = "chat";
  chat.starts_in = tessera::phase::answering;  // a request that does not reason
  proof.name = "proof";
  sum.name = "sum";

  tessera::two_phase_queue<my_request> queue{tessera::order::two_phase{.quantum = 500_tok, .demote_above = 5000_tok}};
  for (my_request* r : {&chat, &proof, &sum}) queue.push(*r, tessera::time_point{});
  show("all have arrived:", queue);

  queue.charge(proof, 500_tok);
  show("proof used its quantum:", queue);

  queue.update(sum, [&queue](my_request& r) {  // its reasoning ends; a scheduler does this in commit
    tessera::request_access::state(r).phase = tessera::phase::answering;
    queue.discipline().change_phase(r);
  });
  show("sum starts to answer:", queue);

  tessera::request_access::state(proof).computed = 5001_tok;
  queue.charge(proof, 1_tok);
  show("proof is too large:", queue);
}

/* output:
all have arrived:       proof(high) sum(high) chat(low)
proof used its quantum: sum(high) proof(high) chat(low)
sum starts to answer:   proof(high) chat(low) sum(low)
proof is too large:     chat(low) sum(low) proof(low)
*/
