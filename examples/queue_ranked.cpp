// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Shortest first by a score of your own, with ageing: no request waits for ever.

#include <tessera/queue/ranked.hpp>

#include <cstdio>

using namespace tessera::literals;

/// What a trained predictor would say; only the order of the scores matters.
struct by_words {
  template <tessera::schedulable R>
  float operator()(const R& r) const noexcept {
    return static_cast<float>(r.words);
  }
};

struct my_request : tessera::request_hook_for<tessera::order::ranked<by_words>> {
  const char* name = "";
  int words = 0;
};

void show(double now, tessera::ranked_queue<my_request, by_words>& queue) {
  queue.advance(tessera::time_point::at_seconds(now));
  std::printf("at %3.0f s:", now);
  for (my_request* r = queue.front(); r != nullptr; r = queue.next(*r)) std::printf(" %s", r->name);
  std::printf("\n");
}

int main() {
  my_request essay;
  my_request fact;
  my_request poem;
  essay.name = "essay";
  essay.words = 900;
  fact.name = "fact";
  fact.words = 12;
  poem.name = "poem";
  poem.words = 90;

  tessera::ranked_queue<my_request, by_words> queue{{.threshold = 60_s}};
  queue.push(essay, tessera::time_point::at_seconds(0));
  queue.push(poem, tessera::time_point::at_seconds(10));
  queue.push(fact, tessera::time_point::at_seconds(20));
  show(20, queue);
  show(60, queue);  // the essay has waited a minute
  show(70, queue);  // and now the poem
}

/* output:
at  20 s: fact poem essay
at  60 s: essay fact poem
at  70 s: essay poem fact
*/
