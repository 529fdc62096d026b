// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: .earliest_due. needs requests with a member .expected_output.

#include <tessera/compose/due_first.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/queue/ordered_queue.hpp>

struct request : tessera::due_first_request {
  tessera::token_pacer pacer{};
#ifdef EXPECT_OK
  tessera::tokens expected_output{};
#else
  int expected_output = 0;
#endif
};

int main() {
  request r;
  tessera::ordered_queue<request, tessera::order::earliest_due<>> queue;
  queue.push(r, tessera::time_point{});
  queue.erase(r);
  return 0;
}
