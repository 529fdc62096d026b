// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// 5. Orders. One of your own, shortest prompt first, next to first come, first served. One request at a time, so that
// the order is all there is to see.
#include <tessera/pipeline/iteration_scheduler.hpp>

#include <array>
#include <cstdio>

using namespace tessera::literals;

struct my_request : tessera::request_hook {
  char name = '?';
};

/// Everything except the comparison is inherited. A waiting request displaces none of its own priority, and running
/// requests do not change places. Priority comes first and the order of arrival last, so that runs repeat exactly.
struct shortest_prompt_first : tessera::order::fcfs {
  template <tessera::schedulable R>
  static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.prompt != b.prompt) return a.prompt < b.prompt;
    return a.state().sequence < b.state().sequence;
  }
};

using shortest_first = tessera::iteration_scheduler<my_request, shortest_prompt_first>;

template <class Scheduler>
void serve(const char* title) {
  std::array<my_request, 4> requests;
  const tessera::tokens prompts[] = {900_tok, 30_tok, 200_tok, 30_tok};
  auto storage = tessera::storage_for<Scheduler>({.blocks = 64, .residents = 1});
  Scheduler scheduler{storage};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].name = static_cast<char>('A' + i);
    requests[i].prompt = prompts[i];
    if (!ok(scheduler.submit(requests[i], {}))) return;
  }

  std::printf("%-16s", title);
  while (!scheduler.idle()) {  // one step each: the prompt, and the only token of the answer
    const auto plan = scheduler.plan({}, {.max_batch = 1, .token_budget = 1024_tok});
    std::printf(" %c", plan[0].request->name);
    const tessera::outcome done{.finished = plan[0].samples};
    scheduler.commit(plan, {&done, 1}, {});
  }
  std::printf("\n");
}

int main() {
  serve<tessera::iteration_scheduler<my_request>>("in order:");
  serve<shortest_first>("shortest first:");
}

/* output:
in order:        A B C D
shortest first:  B D C A
*/
