// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The same three requests under first come, first served and under round-robin: which request is served, step by step.

#include <tessera/queue/fcfs.hpp>
#include <tessera/queue/round_robin.hpp>

#include <cstdio>

using namespace tessera::literals;

struct my_request : tessera::request_hook_for<tessera::order::round_robin> {
  char name = '?';
  tessera::tokens left{};
};

template <class Queue>
void serve(const char* title, Queue& queue) {
  my_request requests[3];
  const tessera::tokens lengths[] = {5_tok, 2_tok, 3_tok};
  for (int i = 0; i != 3; ++i) {
    requests[i].name = static_cast<char>('A' + i);
    requests[i].left = lengths[i];
    queue.push(requests[i], tessera::time_point::at_seconds(i));
  }
  std::printf("%-12s", title);
  while (my_request* const r = queue.front()) {
    std::printf(" %c", r->name);
    r->left -= 1_tok;
    if (r->left == 0_tok) {
      queue.pop_front();
    } else {
      queue.charge(*r, 1_tok);  // round-robin: behind its peers once its quantum is used
    }
  }
  std::printf("\n");
}

int main() {
  tessera::fcfs_queue<my_request> fcfs;
  tessera::round_robin_queue<my_request> round_robin{tessera::order::round_robin{.quantum = 2_tok}};
  serve("fcfs:", fcfs);
  serve("round-robin:", round_robin);
}

/* output:
fcfs:        A A A A A B B C C C
round-robin: A A B B C C A A C A
*/
